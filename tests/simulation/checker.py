"""The checker: verifies each invariant at the end of a run, from the topics alone.

Invariants 8 and 10 are checked during the run, and 9 decides when a run ends.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgpack
import numpy as np

from streamproc.privacy.directed_rounding import float_up
from streamproc.privacy.types import IntArray, Period
from streamproc.study import Release, WindowRelease
from tests.simulation.cluster import Cluster
from tests.simulation.final_state import FinalState
from tests.simulation.history import ObservedColumns
from tests.simulation.workload import STRANGE_SYMBOL, SYMBOLS
from tests.stream_model.reference_model import Model, Said, histories_in, tally_of

Problems = Iterator[str]


def columns_never_change(run: FinalState) -> Problems:
    """1. Every column that a subscriber ever received is the one in the topic."""
    for (release, period), seen in run.seen.items():
        column = run.columns[release].get(period)
        if column is None or column.astype(np.uint8).tobytes() != seen:
            yield f"{release}, period {period}: the topic holds another column than was read"


def columns_come_once_and_in_order(run: FinalState) -> Problems:
    """2. Committed readers find the contract, then every column once, its rows in order, as far as the ledger says."""
    periods = [line.fields["period"] for line in run.ledger if line.fields["type"] == "period"]
    if periods != list(range(1, len(periods) + 1)):
        yield f"the ledger has periods {periods}"
    for release in run.study.releases:
        kinds = [line.fields["type"] for line in run.records.synthetic(release.name)]
        if kinds and (kinds[0] != "contract" or "contract" in kinds[1:]):
            yield f"{release.name}: {kinds.count('contract')} contracts"
        next_period, next_row = 1, 0
        for line in run.records.synthetic(release.name)[1:]:
            period, first = line.fields["period"], line.fields["first"]
            if (period, first) != (next_period, next_row):
                yield f"{release.name}: period {period}, row {first} instead of {next_period}, {next_row}"
                return
            next_row += line.fields["rows"]
            if next_row == line.fields["total"]:
                next_period, next_row = next_period + 1, 0
        promised = 0 if run.released < _first_column(release) else run.released
        if (next_period - 1, next_row) != (promised, 0):
            yield f"{release.name}: {next_period - 1} columns and {next_row} rows, the ledger has {promised}"


def one_draw_leaves(run: FinalState) -> Problems:
    """3. Of every part of a period only one version was ever sent, aborted transactions included, and only after its intent.

    Each loss whose cost the steward accepted allows one more version.
    """
    accepted, announced = run.cluster.accepted, run.announced
    for period, digests in announced.items():
        if len(digests) > 1 + accepted[period]:
            yield f"period {period}: {len(digests)} draws were announced, {accepted[period]} losses accepted"
    for (topic, period, part), seen in _versions(run).items():
        if len(seen) > len(announced[period]):
            yield f"{topic}, period {period}, {part}: {len(seen)} versions left, {len(announced[period])} announced"
    known: set[bytes] = set()
    committed = {line.offset for line in run.ledger}
    for line in run.records.ledger(committed=False):
        if line.fields["type"] == "intent" and line.offset in committed:
            known.add(line.fields["digest"])
        elif line.fields["type"] == "period" and hashlib.sha256(line.value or b"").digest() not in known:
            yield f"period {line.fields['period']}: its record left before it was announced"


def _first_column(release: Release) -> int:
    """The period with whose draw the first columns leave; for windows as in the paper, the first `k` leave together."""
    return release.k if isinstance(release, WindowRelease) and release.measure == "paper" else 1


def _versions(run: FinalState) -> Mapping[tuple[str, int, str], set[bytes]]:
    """All versions of each part of each draw that were ever sent, by topic, period and part."""
    versions: dict[tuple[str, int, str], set[bytes]] = defaultdict(set)
    for release in run.study.releases:
        for line in run.records.synthetic(release.name, committed=False):
            if line.fields["type"] == "column":
                period, first = line.fields["period"], line.fields["first"]
                drawn = max(period, _first_column(release))
                versions[release.name, drawn, f"column {period} row {first}"].add(line.value or b"")
    for line in run.records.ledger(committed=False):
        if line.fields["type"] == "measurement":
            part = f"{line.fields['release']} {line.fields['first']}"
            versions["measurements", line.fields["period"], part].add(line.value or b"")
        elif line.fields["type"] == "period":
            versions["ledger", line.fields["period"], "record"].add(line.value or b"")
    return versions


def spending_is_the_cost_of_the_draws(run: FinalState) -> Problems:
    """4. The ledger's spending is the mechanisms' cost of every draw announced, and above the budget only for losses."""
    for line in run.ledger:
        if line.fields["type"] != "period":
            continue
        period = line.fields["period"]
        again = [Period(each) for each in range(1, period + 1) for _ in range(len(run.announced[each]) - 1)]
        for name, contract in run.contracts.items():
            said = line.fields["releases"][name]["rho_spent"]
            cost = float_up(contract.mechanism.cost(Period(period), again))
            if said != cost:
                yield f"{name}, period {period}: the ledger says {said}, with {len(again)} draws repeated it is {cost}"
            if not again and said > contract.rho:
                yield f"{name}, period {period}: {said} is spent, above {contract.rho}"


def tallies_are_those_of_the_model(run: FinalState) -> Problems:
    """5. Every tally equals the one that the reference model computes from the log and the cuts."""
    for line in run.records.tallies():
        fields = line.fields
        where = f"partition {fields['partition']}, period {fields['period']}"
        expected = run.tallies.get((fields["partition"], fields["period"]))
        if expected is None:
            yield f"{where}: a tally, but it is not closed"
            continue
        data = np.frombuffer(fields["counts"], dtype=">i8").tolist()
        wanted = expected.counts[fields["release"]][fields["first"] : fields["first"] + len(data)]
        if (fields["people"], data) != (expected.people, wanted):
            yield f"{where}: {data} of {fields['people']}, not {wanted} of {expected.people}"


def silent_columns_are_the_data(run: FinalState) -> Problems:
    """6. Without noise the releases equal the exact counts, and reports that were acknowledged before the cut count."""
    yield from _acknowledged_reports_count(run)
    if not run.workload.silent:
        return
    for name, contract in run.contracts.items():
        release, columns = run.study.release(name), run.columns[name]
        people = histories_in(run.study, release, np.transpose([columns[period] for period in sorted(columns)]).tolist())
        for period in range(_first_column(release), len(columns) + 1):
            found = tally_of(run.study, release, people, period) - _padding(run, release, contract.n_pad, period)
            parts = [closed.counts[name] for (_, closing), closed in run.tallies.items() if closing == period]
            reported = np.sum(parts, axis=0)
            if not np.array_equal(found, reported):
                yield f"{name}, period {period}: {found.tolist()}, but {reported.tolist()} was reported"


def _padding(run: FinalState, release: Release, n_pad: int, period: int) -> IntArray:
    """The synthetic people that stand for nobody: `n_pad` with each window of `k` symbols, however much of it is over."""
    if not isinstance(release, WindowRelease):
        return np.zeros(1, dtype=np.int64)
    q, left = run.study.q, release.k - min(period, release.k)
    windows = q ** (release.k - left)
    return np.array([n_pad * q**left] * windows + [0] * (q**release.k - windows))


def _acknowledged_reports_count(run: FinalState) -> Problems:
    said: dict[tuple[str, int], set[str]] = defaultdict(set)
    for client in run.workload.clients:
        for words in client:
            said[words.individual, words.period].add(words.symbol)
    for at, individual, period, symbol in run.cluster.acknowledged:
        in_time = 1 <= period <= len(run.cuts) and at < run.cluster.cut_asked.get(period, 0.0)
        if in_time and said[individual, period] == {symbol} and symbol in run.study.alphabet:
            counted = [model.counted(individual, period) for model in run.models if individual in model.members]
            # Without a roster an individual with a report for period 1 is in the study.
            must_count = counted or (run.workload.roster is None and period == 1)
            # Reports that precede the one which admits their id, or that came too early for the limit, do not count.
            must_count = must_count and not any(
                _of(model.too_soon | model.too_early, individual, period) for model in run.models
            )
            if must_count and [each and each.symbol for each in counted] != [symbol]:
                yield f"a report of period {period} was acknowledged before its cut, and does not count"


def _of(said: Iterable[Said], individual: str, period: int) -> bool:
    return any((each.individual, each.period) == (individual, period) for each in said)


def other_reports_change_nothing(run: FinalState) -> Problems:
    """7. Late, repeated, foreign and malformed reports do not change the tallies, and are rejected with a correct reason."""
    for partition, model in enumerate(run.models):
        kept = {said.offset for each in model.members for said in _what_matters(model, each, len(run.cuts))}
        clean = [(offset, value) for offset, value in run.records.reports(partition) if offset in kept]
        if run.model(partition, clean).tallies() != model.tallies():
            yield f"partition {partition}: without the reports that do not count, its tallies are others"
    yield from _rejects_are_written_once(run)
    if run.released == run.study.last_period:
        yield from _rejects_are_what_does_not_count(run)


def _what_matters(model: Model, individual: str, closed: int) -> Iterator[Said]:
    yield from (said for period in range(1, closed + 1) if (said := model.counted(individual, period)) is not None)
    # The first report for period 1 admits its id, whatever the symbol.
    yield from [said for said in model.home if said.individual == individual and said.period == 1][:1]


_AT_ONCE = ("effect lands later", "zombie", "pause", "rebalance")
"""Faults after which two processes may write rejects of a partition at the same moment."""


def _rejects_are_written_once(run: FinalState) -> Problems:
    """Each reject is written once, unless two gatherers of a partition wrote at the same time."""
    apart = all(run.workload.gatherers) or len(run.workload.gatherers) == 1
    if not apart or any(run.cluster.history.faults[kind] for kind in _AT_ONCE):
        return
    written = Counter((line.fields["partition"], line.fields["offset"]) for line in run.records.rejects())
    for (partition, offset), times in written.items():
        if times > 1:
            yield f"partition {partition}, offset {offset}: rejected {times} times"


def _rejects_are_what_does_not_count(run: FinalState) -> Problems:
    found: dict[int, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    for line in run.records.rejects():
        found[line.fields["partition"]][line.fields["offset"]] |= {line.fields["reason"], *line.fields.get("counts", ())}
    for partition, model in enumerate(run.models):
        # Gatherers need not read the records beyond the last cut.
        wanted = {offset for offset in model.rejected() if offset < model.ends[-1]}
        there = {offset for offset in found[partition] if offset < model.ends[-1]}
        if wanted != there:
            yield f"partition {partition}: {sorted(wanted - there)} not rejected, {sorted(there - wanted)} wrongly"
        true = model.true_reasons()
        for offset, reasons in found[partition].items():
            if not reasons <= {str(reason) for reason in true[offset]}:
                yield f"partition {partition}, offset {offset}: rejected as {sorted(reasons)}"


_HARMLESS = re.compile(
    r"in [0-9.]+ s\b|version \d+ is unknown|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d|'(rho|epsilon)_spent': [0-9.e+-]+"
)
"""Numbers that say nothing about people: pauses, a damaged file's version, the schedule, what the ledger says."""


def nothing_secret_is_said(run: FinalState) -> Problems:
    """11. Public topics and rejects contain no id and no foreign symbol; process output also no symbol and no count."""
    ids = {words.individual for client in run.workload.clients for words in client} | set(run.workload.roster or ())
    secrets = [each.encode() for each in (*ids, STRANGE_SYMBOL)]
    for topic, value in run.records.public():
        if any(secret in value for secret in secrets):
            yield f"a record of {topic} holds an id or a symbol"
    for line in run.records.rejects():
        if any(secret in (line.value or b"") for secret in (*secrets, *map(str.encode, SYMBOLS))):
            yield "a reject holds an id or a symbol"
    largest = max(run.study.last_period, run.study.broker.partitions, 3)
    for said in dict.fromkeys(run.cluster.history.said):
        if any(secret.decode() in said for secret in secrets) or any(symbol in said for symbol in SYMBOLS):
            yield f"an id or a symbol is said: {said}"
        if any(int(number) > largest for number in re.findall(r"\d+", _HARMLESS.sub("", said))):
            yield f"a count is said: {said}"


def nothing_leaves_before_its_release_time(run: FinalState) -> Problems:
    """12. No public record arrives before its release time by the fastest clock, and its timestamp is the planned one."""
    schedule, ahead = run.study.schedule, run.cluster.furthest_ahead.total_seconds()
    for topic, stored in run.records.public_stored():
        period = _published_with(run, msgpack.unpackb(stored.value or b""))
        planned = None
        if period and schedule is not None and schedule.release_after is not None:
            planned = schedule.release_of(period).timestamp()
        if stored.timestamp != round(1000 * (planned or 0)):
            yield f"{topic}, period {period}: a record is stamped {stored.timestamp}, its release time is {planned}"
        if planned is not None and stored.arrived + ahead < planned - 0.001:
            yield f"{topic}, period {period}: a record left {planned - stored.arrived:.2f} s before its release time"


def _published_with(run: FinalState, fields: Mapping[str, Any]) -> int:
    """The period with which a record leaves; 0 for the study record."""
    match fields["type"]:
        case "study":
            return 0
        case "contract":
            return _first_column(run.study.release(fields["release"]))
        case "column":
            return max(_first_column(run.study.release(fields["release"])), int(fields["period"]))
    return int(fields["period"])


CHECKS: Mapping[int, Callable[[FinalState], Problems]] = {
    1: columns_never_change,
    2: columns_come_once_and_in_order,
    3: one_draw_leaves,
    4: spending_is_the_cost_of_the_draws,
    5: tallies_are_those_of_the_model,
    6: silent_columns_are_the_data,
    7: other_reports_change_nothing,
    11: nothing_secret_is_said,
    12: nothing_leaves_before_its_release_time,
}


def check_invariants(cluster: Cluster, observed: ObservedColumns, *, no_people: bool) -> None:
    """Add all violations to the history of the run; `no_people` says that the study ended because it has no individuals."""
    run = FinalState(cluster, observed)
    for number, check in CHECKS.items():
        for problem in check(run):
            cluster.history.violated(number, problem)
    if no_people and run.people:
        cluster.history.violated(9, "the study ended for want of people, but has some")
