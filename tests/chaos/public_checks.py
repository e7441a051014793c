"""Checks of the ledger and the columns that must hold for every reader at every time."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from tests.chaos.costs import cost
from tests.chaos.history import History, Record, Topic


def digest(data: bytes) -> bytes:
    """SHA-256."""
    return hashlib.sha256(data).digest()


def contract_of(topic: Topic) -> dict[str, Any]:
    """The first record of a release's topic."""
    return topic[0].fields


def columns_of(topic: Topic) -> dict[int, bytes]:
    """The packed data of each column, chunks joined in the order of the log."""
    columns: dict[int, bytes] = defaultdict(bytes)
    for record in topic[1:]:
        columns[record.fields["period"]] += record.fields["data"]
    return columns


def study_is_the_one_asked_for(history: History) -> Iterator[str]:
    """Everything else is judged by the values in the ledger, so these must not be the program's own invention."""
    for value in sorted(history.study.keys() | history.asked.keys()):
        if history.study.get(value) != history.asked.get(value):
            yield f"another {value}: {history.study.get(value)!r}, asked for {history.asked.get(value)!r}"


def columns_come_once(history: History) -> Iterator[str]:
    """Every column of every release once, whole, in order, without a gap, after one contract."""
    for name, topic in history.synthetic.items():
        kinds = [record.fields["type"] for record in topic]
        if kinds[:1] != ["contract"] or set(kinds[1:]) - {"column"}:
            yield f"{name}: expected one contract and then columns"
            continue
        wanted, rows = (1, 0), contract_of(topic)["n_star"]
        for record in topic[1:]:
            chunk = record.fields
            if (chunk["period"], chunk["first"]) != wanted or chunk["total"] != rows or chunk["release"] != name:
                yield f"{name}: at offset {record.offset} is not the chunk of period {wanted[0]} from row {wanted[1]} on"
                break
            next_row = chunk["first"] + chunk["rows"]
            wanted = (chunk["period"], next_row) if next_row < rows else (chunk["period"] + 1, 0)
        else:
            if wanted != (history.study["horizon"] + 1, 0):
                yield f"{name}: it ends before {wanted}, not after period {history.study['horizon']}"


def ledger_is_chained(history: History) -> Iterator[str]:
    """One study record; each period once, in order, announced, chained, with the digests of what was measured."""
    head, period, announced = digest(history.ledger[0].value), 0, set[bytes]()
    measured: dict[str, bytes] = defaultdict(bytes)
    if history.ledger[0].fields["type"] != "study":
        yield "the ledger does not begin with the study"
    for record in history.ledger[1:]:
        fields = record.fields
        if fields["type"] == "study" or fields["period"] != period + 1:
            yield f"offset {record.offset}: a record of type {fields['type']} that period {period + 1} does not have"
        elif fields["type"] == "intent":
            announced.add(fields["digest"])
        elif fields["type"] == "measurement":
            measured[fields["release"]] += fields["data"]
        else:
            if fields["previous"] != head:
                yield f"period {period + 1}: not chained to the record before"
            if announced != {digest(record.value)} or fields["abandoned"]:
                yield f"period {period + 1}: not the one draw that was announced"
            for name, release in fields["releases"].items():
                if release["measurements"] != digest(measured[name]):
                    yield f"period {period + 1}: other measurements of {name} than the record says"
            head, period, announced, measured = digest(record.value), period + 1, set(), defaultdict(bytes)
    if period != history.study["horizon"]:
        yield f"the ledger ends at period {period}"


def columns_match_the_ledger(history: History) -> Iterator[str]:
    """The digest of each column, and of the contract before the first, is the one in the ledger."""
    for name, topic in history.synthetic.items():
        contracts = [each["releases"][name].get("contract") for each in history.periods]
        if [mark for mark in contracts if mark is not None] != [digest(topic[0].value)]:
            yield f"{name}: the contract is not what the ledger says"
        found = {period: digest(data) for period, data in columns_of(topic).items()}
        stated = {period: mark for each in history.periods for period, mark in each["releases"][name]["columns"]}
        for period in sorted(found.keys() | stated.keys()):
            if found.get(period) != stated.get(period):
                yield f"{name}, period {period}: the column is not what the ledger says"


def one_draw_leaves(history: History) -> Iterator[str]:
    """To readers of what was never committed too: one version of each chunk, measurement, period record and intent.

    The digest of a draw that was announced but never committed tells nothing; of two synthesizers on copies of one state
    folder the one that loses may have sent it.
    """
    versions: dict[tuple[Any, ...], set[bytes]] = defaultdict(set)
    for topic in (history.ledger_uncommitted, *history.synthetic_uncommitted.values()):
        for record in topic:
            versions[_place(record)].add(record.value)
    for place, values in versions.items():
        kind, release, period, _ = place
        if len(values) > 1 and not (kind == "intent" and period in history.contested_periods):
            yield f"{len(values)} versions of the {kind} of {release or 'the study'}, period {period}"


def _place(record: Record) -> tuple[Any, ...]:
    fields = record.fields
    return fields["type"], fields.get("release"), fields.get("period"), fields.get("first")


def spending_is_the_cost(history: History) -> Iterator[str]:
    """What the ledger says was spent is the exact cost rounded up, at most the release's budget and the study's."""
    budget = Fraction(history.study["privacy"]["rho"])
    contracts = {name: contract_of(topic) for name, topic in history.synthetic.items()}
    if sum(Fraction(contract["rho"]) for contract in contracts.values()) > budget:
        yield "the releases' budgets are together above the study's"
    for record in history.periods:
        spent = Fraction(0)
        for name, contract in contracts.items():
            stated = Fraction(record["releases"][name]["rho_spent"])
            exact = cost(contract, record["period"])
            spent += stated
            if not exact <= stated <= exact * (1 + Fraction(1, 2**50)):
                yield f"{name}, period {record['period']}: spent {float(stated)}, but the draws cost {float(exact)}"
            if stated > Fraction(contract["rho"]):
                yield f"{name}, period {record['period']}: spent more than its budget"
        if not spent <= Fraction(record["rho_spent"]) <= min(spent * (1 + Fraction(1, 2**50)), budget):
            yield f"period {record['period']}: the total is not the sum, or above the budget"


def readers_saw_the_same(history: History) -> Iterator[str]:
    """A subscriber that read during the whole run received exactly the records that are in the topic now."""
    for name, seen in history.seen_along.items():
        topic = history.ledger if name == "ledger" else history.synthetic[name]
        now = {record.offset: record.value for record in topic}
        changed = [offset for offset, value in seen.items() if now.get(offset) != value]
        if changed:
            yield f"{name}: {len(changed)} records are not as they were seen, from offset {min(changed)} on"
    found = {
        (name, period): digest(data).hex()
        for name, topic in history.synthetic.items()
        for period, data in columns_of(topic).items()
    }
    for run in history.watched:
        if [line for line in run if found.get(line[:2]) != line[2]]:
            yield "a run of `watch` showed a column that is not there now"
        for name in history.synthetic:
            periods = [period for release, period, _ in run if release == name]
            if periods != list(range(1, len(periods) + 1)):
                yield f"{name}: a run of `watch` showed columns twice, out of order or with a gap"
