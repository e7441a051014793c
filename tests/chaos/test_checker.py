"""The checker finds nothing wrong with a study that went well, and finds whatever is changed in it afterwards."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgpack
import pytest

from streamproc.log.connect import connect
from streamproc.log.port import Log, Offset
from tests.chaos.automata import matrices
from tests.chaos.checker import checks, violations
from tests.chaos.history import History, Record
from tests.chaos.model import home
from tests.chaos.secret_checks import chance_of_noise
from tests.chaos.study import ID_MARK, RELEASES, SYMBOL_MARK, ChaosStudy
from tests.chaos.workload import draw_messages
from tests.log.uncommitted import read_uncommitted
from tests.stream.programs import call

STUDY = ChaosStudy(seed=7, reports=800, horizon=4)

Change = Callable[[History], History]


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> History:
    """A whole study without any fault: half of the people by the command, half by hand with all kinds of bad reports."""
    folder = tmp_path_factory.mktemp("study")
    file, panel, half = folder / "study.toml", folder / "panel.csv", len(STUDY.people) // 2
    file.write_text(STUDY.text("embedded:log"))
    STUDY.write_panel(panel, range(half, len(STUDY.people)))
    assert call("init", file).code == 0
    for period in range(1, STUDY.horizon + 1):
        asyncio.run(_send(folder, range(half), period))
        assert call("send", file, panel, "--period", period, "--close").code == 0
    assert call("run", file, "--until-done").code == 0
    reports = {
        (individual, period): symbol
        for person, individual in enumerate(STUDY.people)
        for period in range(1, STUDY.horizon + 1)
        if (symbol := STUDY.symbol(person, period)) is not None
    }
    found = asyncio.run(_read(folder))
    along = {"ledger": found.ledger, **found.synthetic}
    return replace(
        found,
        acknowledged=reports,
        secrets=(ID_MARK, SYMBOL_MARK),
        output={"gatherer-1": "tallied partition=1 period=1"},
        statuses=[(0, 0), (2, 1), (4, 4)],
        seen_along={name: {record.offset: record.value for record in topic} for name, topic in along.items()},
        watched=[_lines(found), _lines(found)[:3], []],
    )


async def _send(folder: Path, people: range, period: int) -> None:
    true, ignored = draw_messages(STUDY, people, period)
    async with connect("embedded:log", folder=folder) as log:
        for message in (*true, *ignored):
            partition = message.partition if message.partition >= 0 else home(message.key.decode(), STUDY.partitions)
            await log.append(f"{STUDY.name}.reports", partition, message.value, message.key)


async def _read(folder: Path) -> History:
    async with connect("embedded:log", folder=folder) as log:
        public = {"ledger": "ledger", **{release: f"synthetic.{release}" for release in RELEASES}}
        committed = {name: await _records(log, topic) for name, topic in public.items()}
        everything = {name: await _records(log, topic, committed=False) for name, topic in public.items()}
        return History(
            reports=[await _records(log, "reports", partition) for partition in range(STUDY.partitions)],
            control=await _records(log, "control"),
            tallies=await _records(log, "tallies"),
            rejects=await _records(log, "rejects"),
            ledger=committed.pop("ledger"),
            synthetic=committed,
            ledger_uncommitted=everything.pop("ledger"),
            synthetic_uncommitted=everything,
            asked=STUDY.public,
        )


async def _records(log: Log, name: str, partition: int = 0, *, committed: bool = True) -> list[Record]:
    topic = f"{STUDY.name}.{name}"
    if not committed:
        return [Record(record.offset, record.value or b"") for record in await read_uncommitted(log, topic, partition)]
    end = await log.high_watermark(topic, partition)
    reader = await log.reader(topic, partition, Offset(0))
    found: list[Record] = []
    while reader.position < end:
        found += [Record(record.offset, record.value or b"") for record in await reader.read(timeout=0.5)]
    return found


def _lines(history: History) -> list[tuple[str, int, str]]:
    return [
        (name, period, digest.hex())
        for record in history.periods
        for name in RELEASES
        for period, digest in record["releases"][name]["columns"]
    ]


def test_a_study_without_faults_is_found_in_order(history: History) -> None:
    found = violations(history)
    assert {name: lines for name, lines in found.items() if lines} == {}
    assert found.keys() == checks(history).keys()
    assert chance_of_noise(history) < 1e-9


def test_a_digest_that_was_announced_and_taken_back_is_forgiven_only_where_two_were_at_work(history: History) -> None:
    intent = next(record for record in history.ledger if record.fields["type"] == "intent" and record.fields["period"] == 3)
    two = _with(history.ledger_uncommitted, _changed(intent, digest=bytes(32)))
    changed = replace(history, ledger_uncommitted=two)

    assert list(checks(changed)[DRAW]())
    assert not list(checks(replace(changed, contested_periods=frozenset({3})))[DRAW]())


# changes


def _changed(record: Record, **fields: Any) -> Record:
    return Record(record.offset, msgpack.packb(record.fields | fields))


def _with(topic: Sequence[Record], *more: Record) -> list[Record]:
    last = max((record.offset for record in topic), default=0)
    return [*topic, *(Record(last + 1 + number, record.value) for number, record in enumerate(more))]


def _replaced(topic: Sequence[Record], index: int, record: Record) -> list[Record]:
    return [*topic[:index], record, *topic[index + 1 :]]


def in_ledger(kind: str, index: int, change: Callable[[Record], Record | None]) -> Change:
    """Change, or leave out, one of the ledger's records of a kind."""

    def apply(history: History) -> History:
        at = [number for number, record in enumerate(history.ledger) if record.fields["type"] == kind][index]
        new = change(history.ledger[at])
        ledger = [*history.ledger[:at], *([] if new is None else [new]), *history.ledger[at + 1 :]]
        return replace(history, ledger=ledger)

    return apply


def in_study(**values: Any) -> Change:
    return in_ledger("study", 0, lambda record: _changed(record, study=record.fields["study"] | values))


def in_release(name: str, change: Callable[[Sequence[Record]], Sequence[Record]]) -> Change:
    return lambda history: replace(history, synthetic={**history.synthetic, name: change(history.synthetic[name])})


def flip(record: Record) -> Record:
    """One row's symbol becomes another."""
    data = bytearray(record.fields["data"])
    data[0] ^= 0x40
    return _changed(record, data=bytes(data))


def invert(record: Record) -> Record:
    """Every row's symbol becomes the one at the other end of the alphabet."""
    bits, data = record.fields["bits"], record.fields["data"]
    other = {1: [1, 0], 2: [2, 1, 0, 3]}[bits]
    rows = [[byte >> shift & (2**bits - 1) for shift in range(8 - bits, -1, -bits)] for byte in data]
    inverted = bytes(sum(other[row] << 8 - bits * (at + 1) for at, row in enumerate(byte)) for byte in rows)
    return _changed(record, data=inverted)


def measured_otherwise(history: History) -> History:
    """The first measurement is moved by as much as ten people can move it."""
    row = matrices(history.synthetic["ever"][0].fields)[0][0]
    at = next(n for n, r in enumerate(history.ledger) if _is_first_measurement(r, "ever"))
    record = history.ledger[at]
    (number,) = struct.unpack(">q", record.fields["data"])
    moved = max(row, key=abs)
    changed = _changed(record, data=struct.pack(">q", number + (10 if moved > 0 else -10) * abs(moved)))
    return replace(history, ledger=_replaced(history.ledger, at, changed))


def _is_first_measurement(record: Record, release: str) -> bool:
    fields = record.fields
    return fields["type"] == "measurement" and (fields["release"], fields["period"]) == (release, 1)


def spend(factor: float) -> Callable[[Record], Record]:
    def change(record: Record) -> Record:
        releases = record.fields["releases"]
        releases["ever"]["rho_spent"] *= factor
        return _changed(record, releases=releases)

    return change


def uncommitted(name: str) -> Change:
    """Somebody saw another version of a release's last chunk."""

    def apply(history: History) -> History:
        topic = history.synthetic_uncommitted[name]
        seen = {**history.synthetic_uncommitted, name: _with(topic, flip(topic[-1]))}
        return replace(history, synthetic_uncommitted=seen)

    return apply


def another_measurement(history: History) -> History:
    chunk = next(record for record in history.ledger if record.fields["type"] == "measurement")
    other = _changed(chunk, data=bytes(len(chunk.fields["data"])))
    return replace(history, ledger_uncommitted=_with(history.ledger_uncommitted, other))


def of_reject(change: Callable[[History], Sequence[Record]]) -> Change:
    return lambda history: replace(history, rejects=change(history))


def counted_reject(history: History) -> Sequence[Record]:
    """The very first report of a partition counts."""
    return _with(history.rejects, _changed(history.rejects[0], partition=0, offset=history.reports[0][0].offset))


def another_count(history: History) -> History:
    last = history.tallies[-1]
    return replace(history, tallies=_with(history.tallies, _changed(last, counts=bytes(len(last.fields["counts"])))))


COLUMNS, LEDGER = (
    "2: every column comes once, in order, without a gap",
    "2: the ledger has every period, announced and chained",
)
REJECTS, NAMED = "7: what does not count is rejected, and only that", "11: nobody is named"
SAME, DRAW = (
    "1: every reader of a column reads the same bytes at any time",
    "3: one draw leaves, for uncommitted readers too",
)
SPENT, EXACT = "4: the spending is the exact cost, within the budget", "6: without noise the columns are the exact data"
TALLIES, KEPT = "5: tallies are a function of the log and the cuts", "6: acknowledged reports count"

LEDGERED = "1: every column is the one in the ledger"
ASKED = "the ledger begins with the study that was asked for"

CHANGES: list[tuple[str, str, Change]] = [
    (ASKED, "other symbols", in_study(alphabet=["a", "b", "c"])),
    (ASKED, "other rules", in_study(population={"missing": "carry", "initial": "a", "duplicates": "last"})),
    (ASKED, "other partitions", in_study(partitions=1)),
    (ASKED, "more than was asked for", in_study(more=1)),
    (SAME, "a record was other bytes before", lambda e: replace(e, seen_along={"ever": {2: b"x"}})),
    (SAME, "a record that was seen is gone", lambda e: replace(e, seen_along={"ledger": {10**6: e.ledger[0].value}})),
    (SAME, "watch showed another digest", lambda e: replace(e, watched=[[("ever", 1, "00")]])),
    (SAME, "watch left a column out", lambda e: replace(e, watched=[_lines(e)[2:]])),
    (LEDGERED, "a bit", in_release("ever", lambda t: [*t[:-1], flip(t[-1])])),
    (LEDGERED, "another contract", in_release("spells", lambda t: [_changed(t[0], sigma=1.0), *t[1:]])),
    (COLUMNS, "a column comes twice", in_release("recent", lambda t: [*t, t[-1]])),
    (COLUMNS, "a column is missing", in_release("recent", lambda t: [*t[:2], *t[3:]])),
    (COLUMNS, "two columns are swapped", in_release("recent", lambda t: [*t[:2], t[3], t[2], *t[4:]])),
    (COLUMNS, "the last column is missing", in_release("ever", lambda t: t[:-1])),
    (COLUMNS, "a second contract", in_release("ever", lambda t: [t[0], t[0], *t[1:]])),
    (LEDGER, "a period is missing", in_ledger("period", 1, lambda record: None)),
    (LEDGER, "the last period is missing", in_ledger("period", -1, lambda record: None)),
    (LEDGER, "never announced", in_ledger("intent", 2, lambda record: None)),
    (LEDGER, "announced otherwise", in_ledger("intent", 2, lambda record: _changed(record, digest=bytes(32)))),
    (LEDGER, "not chained", in_ledger("period", 1, lambda record: _changed(record, previous=bytes(32)))),
    (LEDGER, "other measurements", in_ledger("measurement", 1, lambda r: _changed(r, data=bytes(len(r.fields["data"]))))),
    (LEDGER, "a draw was given up", in_ledger("period", 1, lambda record: _changed(record, abandoned=[bytes(32)]))),
    (DRAW, "another column was seen", uncommitted("ever")),
    (DRAW, "another window column was seen", uncommitted("recent")),
    (DRAW, "another measurement was seen", another_measurement),
    (SPENT, "less than the draws cost", in_ledger("period", 2, spend(0.999))),
    (SPENT, "more than the draws cost", in_ledger("period", 2, spend(1.001))),
    (SPENT, "more than the budget", in_ledger("period", -1, spend(2.0))),
    (SPENT, "another total", in_ledger("period", 1, lambda record: _changed(record, rho_spent=1.0))),
    (TALLIES, "another count", another_count),
    (TALLIES, "a tally is missing", lambda e: replace(e, tallies=e.tallies[1:])),
    (TALLIES, "other people", lambda e: replace(e, tallies=_replaced(e.tallies, 3, _changed(e.tallies[3], people=1)))),
    (TALLIES, "a report is gone from the log", lambda e: replace(e, reports=[e.reports[0][1:], *e.reports[1:]])),
    (TALLIES, "a cut lies elsewhere", lambda e: replace(e, control=_moved(e))),
    (EXACT, "one window is another", in_release("recent", lambda t: [*t[:-1], flip(t[-1])])),
    (EXACT, "windows that are close are others", in_release("lately", lambda t: [*t[:-1], invert(t[-1])])),
    (EXACT, "others have had a one", in_release("ever", lambda t: [*t[:-1], invert(t[-1])])),
    (EXACT, "others are in a spell", in_release("spells", lambda t: [*t[:-1], invert(t[-1])])),
    (EXACT, "others have matched", in_release("left", lambda t: [*t[:-2], invert(t[-2]), invert(t[-1])])),
    (EXACT, "more people are measured", measured_otherwise),
    (EXACT, "another n", in_release("ever", lambda t: [_changed(t[0], n=1), *t[1:]])),
    (KEPT, "nobody has heard of it", lambda e: replace(e, acknowledged={("idmark-lost", 1): f"{SYMBOL_MARK}-low"})),
    (REJECTS, "one is missing", of_reject(lambda e: e.rejects[1:])),
    (REJECTS, "one that counts", of_reject(counted_reject)),
    (REJECTS, "says more", of_reject(lambda e: _with(e.rejects, _changed(e.rejects[0], why="x")))),
    ("8: the watermark never goes back", "it does", lambda e: replace(e, statuses=[(3, 2), (2, 2)])),
    ("8: the watermark never goes back", "it is overtaken", lambda e: replace(e, statuses=[(3, 4)])),
    ("8: the watermark never goes back", "a release does", lambda e: replace(e, statuses=[(3, 2), (3, 1)])),
    (NAMED, "an id in a log", lambda e: replace(e, output={"gatherer-1": f"rejected {e.secrets[0]}-00001"})),
    (NAMED, "a symbol in a log", lambda e: replace(e, output={"gatherer-1": f"unknown {SYMBOL_MARK}-none"})),
    (NAMED, "a symbol in the rejects", of_reject(lambda e: _with(e.rejects, _changed(e.rejects[0], s=SYMBOL_MARK)))),
    (NAMED, "an id in the ledger", lambda e: replace(e, ledger_uncommitted=[Record(0, ID_MARK.encode())])),
    ("no process met a bug", "a traceback", lambda e: replace(e, output={"x": "Traceback (most recent call last):\nBad"})),
]  # fmt: skip


def _moved(history: History) -> Sequence[Record]:
    at = next(number for number, record in enumerate(history.control) if record.fields.get("period") == 1)
    cut = history.control[at]
    return _replaced(history.control, at, _changed(cut, ends=[0, *cut.fields["ends"][1:]]))


@pytest.mark.parametrize(("invariant", "change"), [(i, c) for i, _, c in CHANGES], ids=[f"{i}: {n}" for i, n, _ in CHANGES])
def test_what_is_changed_is_found(history: History, invariant: str, change: Change) -> None:
    assert list(checks(change(history))[invariant]())


def test_every_invariant_has_a_change_that_breaks_it(history: History) -> None:
    assert {invariant for invariant, _, _ in CHANGES} == checks(history).keys()


def test_what_cannot_be_read_is_a_violation_too(history: History) -> None:
    assert any("cannot be judged" in line for lines in violations(replace(history, ledger=[])).values() for line in lines)
