"""What must hold of the exact data: nothing lost, nothing counted twice, nothing said aloud."""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from tests.chaos.automata import matrices, table_of, transitions
from tests.chaos.history import History, Record
from tests.chaos.model import Model, at_least, home, said_in
from tests.chaos.public_checks import columns_of, contract_of

REASONS = {
    "undecodable", "unknown-symbol", "unknown-person", "period-out-of-range",
    "late", "duplicate", "foreign-partition", "not-admitted", "too-early",
}  # fmt: skip

CLOSE = 5
"""People by which a count that is measured by flow may differ from the truth. The standard errors are below 0.4 at ten
periods, and rounding moves a count by less than one for each of two or three states."""
DEVIATIONS = 8
"""Standard deviations by which a measurement may differ from the truth."""


def tallies_are_the_models(history: History, model: Model) -> Iterator[str]:
    """Every tally there is, repeated ones too, is that of the model; and none is missing."""
    study, releases = history.study, history.releases
    whole: Counter[tuple[int, int, str]] = Counter()
    for chunk in [Record(0, value).fields for value in {record.value for record in history.tallies}]:
        place = (chunk["partition"], chunk["period"], chunk["release"])
        counts = list(struct.unpack(f">{len(chunk['counts']) // 8}q", chunk["counts"]))
        wanted = model.tally(releases[chunk["release"]], chunk["partition"], chunk["period"])
        if counts != wanted[chunk["first"] : chunk["first"] + len(counts)] or chunk["total"] != len(wanted):
            yield f"partition {place[0]}, period {place[1]}: the tally of {place[2]} is not the model's"
        if chunk["people"] != len(model.histories[chunk["partition"]]):
            yield f"partition {place[0]}, period {place[1]}: tallied {chunk['people']} people"
        whole[place] += len(counts)
    for partition in range(study["partitions"]):
        for period in range(1, study["horizon"] + 1):
            for name, release in releases.items():
                if whole[partition, period, name] != len(model.tally(release, partition, period)):
                    yield f"partition {partition}, period {period}: not one whole tally of {name}"


def columns_are_the_data(history: History, model: Model) -> Iterator[str]:
    """Windows whose noise is zero are exact without their padding. Other counts, and all measurements, are close."""
    for name, release in history.releases.items():
        topic = history.synthetic[name]
        contract, columns = contract_of(topic), columns_of(topic)
        if contract["n"] != model.people:
            yield f"{name}: n is {contract['n']}, but {model.people} people were there in period 1"
        rows = [_unpacked(data, contract, topic[1].fields["bits"]) for _, data in sorted(columns.items())]
        if release["kind"] == "window":
            yield from _windows(name, release, contract, rows, model)
        else:
            yield from _states(name, release, rows, model)
            yield from _measurements(name, release, contract, history, model)


def _unpacked(data: bytes, contract: dict[str, Any], bits: int) -> list[int]:
    each = 8 // bits
    rows = [byte >> (8 - bits * (place + 1)) & (2**bits - 1) for byte in data for place in range(each)]
    return rows[: contract["n_star"]]


def _windows(
    name: str, release: dict[str, Any], contract: dict[str, Any], rows: list[list[int]], model: Model
) -> Iterator[str]:
    k, q = release["k"], len(contract["alphabet"])
    exact = release["measure"] == "paper"
    for period in range(k if exact else 1, len(rows) + 1):
        length = min(k, period)
        found = Counter(zip(*rows[period - length : period], strict=True))
        counts = [found[tuple(bin_ // q**place % q for place in range(length - 1, -1, -1))] for bin_ in range(q**length)]
        padding, truth = contract["n_pad"] * q ** (k - length), model.total(release, period)
        if _furthest([count - padding for count in counts], truth[: q**length]) > (0 if exact else CLOSE):
            yield f"{name}, period {period}: the windows are not those of the data"


def _states(name: str, release: dict[str, Any], rows: list[list[int]], model: Model) -> Iterator[str]:
    table = table_of(release, len(rows))
    states = [0] * len(rows[0])
    for period, column in enumerate(rows, start=1):
        states = [table[state][symbol] for state, symbol in zip(states, column, strict=True)]
        if _furthest(at_least(Counter(states), release, table), model.counts(release, period)) > CLOSE:
            yield f"{name}, period {period}: the counts are not those of the data"


def _furthest(counts: Sequence[int], truth: Sequence[int]) -> int:
    return max(abs(count - true) for count, true in zip(counts, truth, strict=True))


def _measurements(
    name: str, release: dict[str, Any], contract: dict[str, Any], history: History, model: Model
) -> Iterator[str]:
    """A person who is lost or counted twice moves a measurement by several standard deviations of its noise."""
    table = table_of(release, contract["horizon"])
    for period, rows in enumerate(matrices(contract), start=1):
        tally = model.total(release, period)
        exact = [tally[each.source * len(table[0]) + each.first_class] for each in transitions(table, period)]
        measured = _measured(history, name, period)
        if len(measured) != len(rows):
            yield f"{name}, period {period}: {len(measured)} measurements, not {len(rows)}"
            continue
        for found, row in zip(measured, rows, strict=True):
            true = sum(entry * people for entry, people in zip(row, exact, strict=True))
            if abs(found - true) > DEVIATIONS * contract["sigma"]:
                yield f"{name}, period {period}: a measurement is not one of the data"


def _measured(history: History, name: str, period: int) -> list[int]:
    chunks = [
        record.fields["data"]
        for record in history.ledger
        if record.fields["type"] == "measurement" and (record.fields["release"], record.fields["period"]) == (name, period)
    ]
    data = b"".join(chunks)
    return list(struct.unpack(f">{len(data) // 8}q", data))


def chance_of_noise(history: History) -> float:
    """A bound on the chance that noise is larger than `columns_are_the_data` allows."""
    chance = 0.0
    for period in range(1, history.study["horizon"] + 1):
        for topic in filter(None, history.synthetic.values()):
            contract = contract_of(topic)
            if contract["kind"] != "window":
                chance += len(matrices(contract)[period - 1]) * 2.001 * math.exp(-(DEVIATIONS**2) / 2)
            elif contract["measure"] == "paper" and period >= contract["k"]:
                bins = len(contract["alphabet"]) ** contract["k"]
                chance += bins * 2.001 * math.exp(-1 / (2 * contract["sigma"] ** 2))
    return chance


def acknowledged_reports_count(history: History, model: Model) -> Iterator[str]:
    """A report that was acknowledged before the cut counts for its individual and period."""
    members = {
        individual: person_history for histories in model.histories for individual, person_history in histories.items()
    }
    lost = sum(
        (individual in members or period == 1) and members.get(individual, [""] * period)[period - 1] != symbol
        for (individual, period), symbol in history.acknowledged.items()
    )
    if lost:
        yield f"{lost} acknowledged reports do not count"


def rejects_say_little_and_truly(history: History, model: Model) -> Iterator[str]:
    """A reject names a place and a reason and no more; what counts has none, what does not count has one."""
    places: set[tuple[int, int]] = set()
    for record in history.rejects:
        reject = record.fields
        if set(reject) != {"v", "type", "partition", "offset", "reason"} or reject["reason"] not in REASONS:
            yield f"rejects offset {record.offset}: not just a place and a reason"
        places.add((reject["partition"], reject["offset"]))
    ends = history.ends()
    for partition, topic in enumerate(history.reports):
        below = {record.offset for record in topic if record.offset < ends[-1][partition]}
        rejected = {offset for where, offset in places if where == partition}
        counted = _counted(history, model, partition)
        if counted & rejected:
            yield f"partition {partition}: {len(counted & rejected)} reports that count were rejected"
        if below - counted - rejected:
            yield f"partition {partition}: {len(below - counted - rejected)} reports neither count nor were rejected"


def _counted(history: History, model: Model, partition: int) -> set[int]:
    study, ends = history.study, [cut[partition] for cut in history.ends()]
    places: dict[tuple[str, int], int] = {}
    admitted: set[str] = set()
    for offset, individual, period, symbol in said_in(history.reports[partition], study["alphabet"]):
        admitted |= {individual} if period == 1 else set()
        in_time = 1 <= period <= len(ends) and offset < ends[period - 1] and symbol in study["alphabet"]
        first = study["population"]["duplicates"] == "first" and (individual, period) in places
        member = individual in model.histories[partition] and home(individual, study["partitions"]) == partition
        if in_time and member and individual in admitted and not first:
            places[individual, period] = offset
    return set(places.values())


def watermark_never_goes_back(history: History) -> Iterator[str]:
    """Nor does what is released, and nothing is released before every partition has tallied it."""
    for before, after in zip(history.statuses, history.statuses[1:], strict=False):
        if after[0] < before[0] or after[1] < before[1]:
            yield f"`status` said {before}, then {after}"
    if any(watermark < released for watermark, released in history.statuses):
        yield "`status` said that a period is released which not every partition has tallied"


def nobody_is_named(history: History) -> Iterator[str]:
    """No id in what processes write and in no topic but that of the reports; no symbol in output, rejects and tallies."""
    ids, symbols = history.secrets[:1], history.secrets[1:]
    for name, text in history.output.items():
        for mark in (*ids, *symbols):
            if mark in text:
                yield f"{name}: holds part of an id or a symbol"
    secret = {"control": history.control, "tallies": history.tallies, "rejects": history.rejects}
    public = {"ledger": history.ledger_uncommitted, **history.synthetic_uncommitted}
    for name, topic in {**secret, **public}.items():
        wanted = (*ids, *symbols) if name in secret else ids
        if any(mark.encode() in record.value for mark in wanted for record in topic):
            yield f"topic {name}: holds part of an id or a symbol"


def nothing_was_a_bug(history: History) -> Iterator[str]:
    """No process ended with a traceback or called itself a bug."""
    for name, text in history.output.items():
        if "Traceback (most recent call last)" in text or "this is a bug" in text:
            yield f"{name}: {text.strip().splitlines()[-1]}"
