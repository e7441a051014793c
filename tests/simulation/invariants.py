"""The promises, each checked by itself at the end of a run, from the topics alone, under its number."""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import lru_cache

import numpy as np

from streamproc.privacy.exact import float_up
from streamproc.privacy.quantities import IntArray, Period
from streamproc.study import Study, WindowRelease
from streamproc.synth.contract import Contract, WindowContract, contracts
from tests.simulation.scene import STRANGE_SYMBOL, SYMBOLS
from tests.simulation.sights import Sights
from tests.simulation.world import World
from tests.world.model import Model

Problems = Iterator[str]


def check_everything(world: World, sights: Sights, *, nobody: bool) -> None:
    """Report whatever does not hold. 8 and 10 are checked as things happen, 9 before this."""
    checks: dict[int, Callable[[World, Sights], Problems]] = {
        1: columns_never_change,
        2: columns_come_once_and_in_order,
        3: one_draw_leaves,
        4: spending_is_the_cost_of_the_draws,
        5: tallies_are_those_of_the_model,
        6: silent_columns_are_the_data,
        7: rejects_are_what_does_not_count,
        11: nothing_secret_is_said,
    }
    for number, check in checks.items():
        for problem in check(world, sights):
            world.journal.violated(number, problem)
    if nobody and any(tally[1] for tally in modelled(world)[:1]):
        world.journal.violated(9, "the study ended for want of people, but has some")


# 1


def columns_never_change(world: World, sights: Sights) -> Problems:
    """What was ever given to a subscriber is what is in the topic."""
    for (release, period), seen in sights.columns.items():
        column = columns(world, release).get(period)
        if column is None or column.astype(np.uint8).tobytes() != seen:
            yield f"{release}, period {period}: the topic holds another column than was read"


# 2


def columns_come_once_and_in_order(world: World, sights: Sights) -> Problems:
    """Committed readers find the contract, then every column once, its rows in order, as far as the ledger says."""
    for release in world.study.releases:
        lines = world.records.synthetic(release.name)
        kinds = [line.fields["type"] for line in lines]
        if kinds and (kinds[0] != "contract" or "contract" in kinds[1:]):
            yield f"{release.name}: {kinds.count('contract')} contracts"
        expected_period, row = 1, 0
        for line in lines[1:]:
            fields = line.fields
            if (fields["period"], fields["first"]) != (expected_period, row):
                yield f"{release.name}: period {fields['period']} row {fields['first']} instead of {expected_period}, {row}"
                return
            row += fields["rows"]
            if row == fields["total"]:
                expected_period, row = expected_period + 1, 0
        released = world.records.released()
        promised = 0 if isinstance(release, WindowRelease) and released < release.k else released
        if (expected_period - 1, row) != (promised, 0):
            yield f"{release.name}: {expected_period - 1} columns and {row} rows, the ledger has {promised}"
    periods = [line.fields["period"] for line in world.records.ledger() if line.fields["type"] == "period"]
    if periods != list(range(1, len(periods) + 1)):
        yield f"the ledger has periods {periods}"


# 3


def one_draw_leaves(world: World, sights: Sights) -> Problems:
    """Of every part of a period one version was ever sent, and one more for each loss the steward accepted."""
    versions: dict[tuple[str, int, str], set[bytes]] = defaultdict(set)
    for release in world.study.releases:
        for line in world.records.synthetic(release.name, committed=False):
            fields = line.fields
            if fields["type"] == "column":
                # The first k columns of a window release leave together, with the draw of period k.
                drawn = max(fields["period"], release.k) if isinstance(release, WindowRelease) else fields["period"]
                part = f"column {fields['period']} row {fields['first']}"
                versions[release.name, drawn, part].add(line.value or b"")
    announced: set[bytes] = set()
    committed = {line.offset for line in world.records.ledger()}
    for line in world.records.ledger(committed=False):
        fields, value = line.fields, line.value or b""
        match fields["type"]:
            case "intent" if line.offset in committed:
                announced.add(fields["digest"])
                versions["ledger", fields["period"], "intent"].add(fields["digest"])
            case "measurement":
                versions["ledger", fields["period"], f"{fields['release']} {fields['first']}"].add(value)
            case "period":
                versions["ledger", fields["period"], "record"].add(value)
                if hashlib.sha256(value).digest() not in announced:
                    yield f"period {fields['period']}: its record left before it was announced"
    for (topic, period, part), seen in versions.items():
        if len(seen) > 1 + world.accepted[period]:
            yield f"{topic}, period {period}, {part}: {len(seen)} versions left, {world.accepted[period]} losses accepted"


# 4


def spending_is_the_cost_of_the_draws(world: World, sights: Sights) -> Problems:
    """The ledger's spending is the mechanisms' cost of every draw that was announced, above the budget only for losses."""
    lines = world.records.ledger()
    announced: dict[int, set[bytes]] = defaultdict(set)
    for line in lines:
        if line.fields["type"] == "intent":
            announced[line.fields["period"]].add(line.fields["digest"])
    people = sum(tally[1] for tally in modelled(world) if tally[0] == 1)
    known = _contracts(world.study, people) if people else {}
    for line in lines:
        if line.fields["type"] != "period":
            continue
        period = line.fields["period"]
        again = [Period(each) for each in range(1, period + 1) for _ in range(len(announced[each]) - 1)]
        for name, contract in known.items():
            said = line.fields["releases"][name]["rho_spent"]
            cost = float_up(contract.mechanism.cost(Period(period), again))
            if said != cost:
                yield f"{name}, period {period}: the ledger says {said}, with {len(again)} draws repeated it is {cost}"
            if not again and said > contract.rho:
                yield f"{name}, period {period}: {said} is spent, above {contract.rho}"


@lru_cache(maxsize=4096)
def _contracts(study: Study, people: int) -> dict[str, Contract]:
    return dict(contracts(study, people, insecure=True))


# 5


def tallies_are_those_of_the_model(world: World, sights: Sights) -> Problems:
    """Every tally sent is what the log and the cuts say, however often it was sent."""
    expected = {(period, place): (people, counts) for period, people, place, counts in _by_partition(world)}
    for line in world.records.tallies():
        fields = line.fields
        there = expected.get((fields["period"], fields["partition"]))
        if there is None:
            yield f"a tally of period {fields['period']}, which is not closed"
            continue
        people, counts = there
        data = np.frombuffer(fields["counts"], dtype=">i8").tolist()
        wanted = counts[fields["release"]][fields["first"] : fields["first"] + len(data)]
        if (fields["people"], data) != (people, wanted):
            where = f"partition {fields['partition']}, period {fields['period']}"
            yield f"{where}: {data} of {fields['people']}, not {wanted} of {people}"


# 6


def silent_columns_are_the_data(world: World, sights: Sights) -> Problems:
    """Without noise, what is released is what was reported; and what a client heard to have arrived in time counts."""
    if world.scene.silent:
        totals: dict[tuple[int, str], IntArray] = {}
        for period, _, _, counts in _by_partition(world):
            for name, numbers in counts.items():
                totals[period, name] = totals.get((period, name), 0) + np.array(numbers)
        people = sum(tally[1] for tally in modelled(world) if tally[0] == 1)
        for name, contract in (_contracts(world.study, people) if people else {}).items():
            released = columns(world, name)
            for period in range(1, len(released) + 1):
                found = _counts(contract, released, period)
                if found is not None and not np.array_equal(found, totals[period, name]):
                    yield f"{name}, period {period}: {found.tolist()}, but {totals[period, name].tolist()} was reported"
    yield from _acknowledged_reports_count(world)


def _counts(contract: Contract, released: dict[int, IntArray], period: int) -> IntArray | None:
    """People in each bin, without padding; or whose b-th one comes now, for each b."""
    if isinstance(contract, WindowContract):
        k, q = contract.mechanism.k, contract.mechanism.q
        if period < k:
            return None
        windows = sum(released[period - k + 1 + place] * q ** (k - 1 - place) for place in range(k))
        return np.bincount(windows, minlength=q**k) - contract.n_pad
    ones = sum(released[each] for each in range(1, period + 1))
    return np.bincount(ones[released[period] == 1] - 1, minlength=contract.mechanism.horizon)


def _acknowledged_reports_count(world: World) -> Problems:
    said: dict[tuple[str, int], set[str]] = defaultdict(set)
    for client in world.scene.clients:
        for words in client:
            if words.way != "broken":
                said[words.individual, words.period].add(words.symbol)
    models = _models(world)
    for at, individual, period, symbol in world.acknowledged:
        only = said[individual, period] == {symbol} and symbol in world.study.alphabet
        in_time = 1 <= period <= len(world.records.cuts()) and at < world.cut_asked.get(period, 0.0)
        if only and in_time and any(individual in model.members for model in models):
            counted = [model.counted(individual, period) for model in models if individual in model.members]
            if [each and each.symbol for each in counted] != [symbol]:
                yield f"a report of period {period} was acknowledged before its cut, and does not count"


# 7


def rejects_are_what_does_not_count(world: World, sights: Sights) -> Problems:
    """Below the last cut, whatever does not count is rejected, for a reason that is true, and nothing else is."""
    found: dict[int, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    for line in world.records.rejects():
        found[line.fields["partition"]][line.fields["offset"]].add(line.fields["reason"])
    if len(world.records.cuts()) < world.study.horizon or world.records.released() < world.study.horizon:
        return
    for partition, model in enumerate(_models(world)):
        end = model.ends[-1]
        wanted = {offset for offset in model.rejected() if offset < end}
        there = {offset for offset in found[partition] if offset < end}
        if wanted != there:
            yield f"partition {partition}: {sorted(wanted - there)} not rejected, {sorted(there - wanted)} wrongly"
        true = model.true_reasons()
        for offset, reasons in found[partition].items():
            if not reasons <= {str(reason) for reason in true[offset]}:
                yield f"partition {partition}, offset {offset}: rejected as {reasons}"


# 11

_HARMLESS = re.compile(r"in [0-9.]+ s\b|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d|'(rho|epsilon)_spent': [0-9.e+-]+|\b[0-9a-f-]*#\d+")


def nothing_secret_is_said(world: World, sights: Sights) -> Problems:
    """No id and no stranger's symbol anywhere; in what processes say, no symbol and no number above `T` and `P` either."""
    ids = {words.individual for client in world.scene.clients for words in client} | set(world.scene.roster or ())
    secrets = [each.encode() for each in (*ids, STRANGE_SYMBOL)]
    for topic, value in world.records.public():
        if any(secret in value for secret in secrets):
            yield f"a record of {topic} holds an id or a symbol"
    for line in world.records.rejects():
        if any(secret in (line.value or b"") for secret in (*secrets, *map(str.encode, SYMBOLS))):
            yield "a reject holds an id or a symbol"
    largest = max(world.study.horizon, world.study.broker.partitions, 3)
    for said in dict.fromkeys(world.journal.said):
        if any(secret.decode() in said for secret in secrets) or any(symbol in said for symbol in SYMBOLS):
            yield f"an id or a symbol is said: {said}"
        if any(int(number) > largest for number in re.findall(r"\d+", _HARMLESS.sub("", said))):
            yield f"a count is said: {said}"


# what the topics hold


def columns(world: World, release: str) -> dict[int, IntArray]:
    """By period, unpacked from the chunks."""
    parts: dict[int, list[IntArray]] = defaultdict(list)
    for line in world.records.synthetic(release):
        fields = line.fields
        if fields["type"] == "column":
            bits = np.unpackbits(np.frombuffer(fields["data"], dtype=np.uint8)).reshape(-1, fields["bits"])
            symbols = bits @ (1 << np.arange(fields["bits"])[::-1])
            parts[fields["period"]].append(symbols[: fields["rows"]].astype(np.int64))
    return {period: np.concatenate(chunks) for period, chunks in parts.items()}


def _models(world: World) -> list[Model]:
    cuts, roster = world.records.cuts(), world.scene.roster
    return [
        Model(world.study, partition, roster, world.records.reports(partition), [ends[partition] for ends in cuts])
        for partition in range(world.study.broker.partitions)
    ]


def _by_partition(world: World) -> Iterator[tuple[int, int, int, dict[str, list[int]]]]:
    """Period, people, partition and counts."""
    for partition, model in enumerate(_models(world)):
        for period, closed in enumerate(model.tallies(), start=1):
            yield period, closed.people, partition, dict(closed.counts)


def modelled(world: World) -> list[tuple[int, int]]:
    """Period and people, for each partition."""
    return [(period, people) for period, people, _, _ in _by_partition(world)]
