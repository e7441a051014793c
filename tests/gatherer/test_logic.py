"""Whatever a partition holds and however it is met, the tallies are those of a plain model of the rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given, settings

from streamproc.gatherer.logic import GathererLogic, PartitionContext
from streamproc.gatherer.reject_collector import RejectCollector
from streamproc.privacy.types import Period
from streamproc.protocol.control import Cut
from streamproc.protocol.rejects import Reason, Reject
from streamproc.protocol.reports import ReportBatch, encode_report, home_partition
from streamproc.protocol.state_file import pack_arrays, unpack_arrays
from streamproc.protocol.tallies import Tally
from streamproc.study import Missing, Population, WindowRelease
from tests.stream_model.reference_model import Closed, Model, rejected_reports
from tests.stream_model.report_sequences import (
    ALPHABET,
    IDS,
    LogRecord,
    ReportSequence,
    large_report_sequence,
    report_sequences,
)
from tests.studies import build_study

KEY = bytes(range(32))


class SequenceRunner:
    """Runs the logic on a report sequence like a gatherer that is stopped and resumed, and may learn of cuts late."""

    def __init__(self, sequence: ReportSequence) -> None:
        self.sequence = sequence
        self.context = PartitionContext(sequence.study, sequence.partition, KEY, sequence.roster)
        self.logic = GathererLogic(self.context)
        self.tallies: list[Tally] = []
        self.rejects: list[Reject] = []
        self._read = 0
        self._known = 0

    @property
    def position(self) -> int:
        done = self._read == len(self.sequence.records)
        return self.sequence.position if done else self.sequence.records[self._read].offset

    def run(self) -> None:
        for action, amount in (
            *self.sequence.actions,
            ("learn", len(self.sequence.ends)),
            ("ingest", len(self.sequence.records)),
        ):
            match action:
                case "ingest":
                    self.logic.ingest(self.sequence.records[self._read : self._read + amount])
                    self._read = min(self._read + amount, len(self.sequence.records))
                case "learn":
                    self._learn(amount)
                case "settle":
                    self.tallies += self.logic.close_periods(self.position)
                case "resume":
                    self._resume(known=amount % 2 == 0)
            if self.sequence.eager:
                self.tallies += self.logic.close_periods(self.position)
            self.rejects += self.logic.drain_rejects()
        self.tallies += self.logic.close_periods(self.position)
        self.rejects += self.logic.drain_rejects()

    def _learn(self, amount: int) -> None:
        for end in self.sequence.ends[self._known : self._known + amount]:
            self._known += 1
            ends = [0] * self.sequence.study.broker.partitions
            ends[self.sequence.partition] = end
            self.logic.add_cut(Cut(Period(self._known), tuple(ends)))

    def _resume(self, *, known: bool) -> None:
        state = unpack_arrays(pack_arrays(self.logic.arrays()))
        self.logic = GathererLogic.restored(self.context, state)
        amount, self._known = self._known - self.logic.period, int(self.logic.period)
        self._learn(amount if known else 0)


def run_sequence(sequence: ReportSequence) -> SequenceRunner:
    runner = SequenceRunner(sequence)
    runner.run()
    return runner


def model_of(sequence: ReportSequence) -> Model:
    records = [(record.offset, record.value) for record in sequence.records]
    return Model(sequence.study, sequence.partition, sequence.roster, records, sequence.ends)


def closed(tallies: Sequence[Tally]) -> list[Closed]:
    return [Closed(tally.people, {name: counts.tolist() for name, counts in tally.counts.items()}) for tally in tallies]


def check_tallies(sequence: ReportSequence) -> None:
    runner = run_sequence(sequence)
    assert closed(runner.tallies) == model_of(sequence).tallies()
    assert [(tally.partition, tally.period) for tally in runner.tallies] == [
        (sequence.partition, period) for period in range(1, len(sequence.ends) + 1)
    ]


def check_rejects(sequence: ReportSequence) -> None:
    runner, model = run_sequence(sequence), model_of(sequence)
    if len(sequence.ends) == sequence.study.last_period:
        assert rejected_reports(runner.rejects) == model.rejected()
    assert len({reject.offset for reject in runner.rejects}) == len(runner.rejects)
    true = model.true_reasons()
    for reject in runner.rejects:
        assert reject.partition == sequence.partition
        assert set(reject.by_reason) <= true[reject.offset]


@settings(max_examples=3 * settings().max_examples)
@given(report_sequences())
def test_tallies_are_those_of_the_model(sequence: ReportSequence) -> None:
    check_tallies(sequence)


@given(report_sequences())
def test_every_report_is_counted_or_rejected_once_with_a_true_reason(sequence: ReportSequence) -> None:
    check_rejects(sequence)


@pytest.mark.parametrize("seed", range(60))
def test_tallies_of_a_crowd_are_those_of_the_model(seed: int) -> None:
    check_tallies(large_report_sequence(seed))


@pytest.mark.parametrize("seed", range(60, 75))
def test_every_report_of_a_crowd_is_counted_or_rejected_once_with_a_true_reason(seed: int) -> None:
    check_rejects(large_report_sequence(seed))


class Partition:
    """A partition written down record by record, and the gathering that reads it."""

    def __init__(self, population: Population | None = None) -> None:
        self.study = build_study(WindowRelease("w", 1), horizon=3, population=population, partitions=1, alphabet="abc")
        self.logic = GathererLogic(PartitionContext(self.study, 0, KEY))
        self.end = 0

    def say(self, *reports: tuple[str, int, str]) -> None:
        records = [LogRecord(self.end + index, encode_report(*report)) for index, report in enumerate(reports)]
        self.end += len(records)
        self.logic.ingest(records)

    def cut(self, period: int, end: int | None = None) -> list[Tally]:
        self.logic.add_cut(Cut(Period(period), (self.end if end is None else end,)))
        return self.logic.close_periods(self.end)

    def reasons(self) -> list[Reason]:
        rejects = sorted(self.logic.drain_rejects(), key=lambda reject: reject.offset)
        return [reject.reason for reject in rejects]


def counts(tallies: list[Tally]) -> list[list[int]]:
    return [tally.counts["w"].tolist() for tally in tallies]


def test_a_period_is_not_settled_one_record_before_its_cut() -> None:
    partition = Partition()
    partition.say(("p", 1, "b"))

    assert partition.cut(1, end=2) == []
    assert partition.logic.next_cut_offset() == 2
    partition.say(("q", 1, "c"))
    assert counts(partition.logic.close_periods(2)) == [[0, 1, 1]]
    assert partition.logic.next_cut_offset() is None


def test_a_partition_without_a_record_closes_with_nobody() -> None:
    partition = Partition()

    assert [tally.people for tally in partition.cut(1)] == [0]
    assert counts(partition.cut(2)) == [[0, 0, 0]]


def test_a_cut_at_0_makes_everything_late() -> None:
    partition = Partition()
    partition.say(("p", 1, "b"), ("q", 1, "c"))

    assert counts(partition.cut(1, end=0)) == [[0, 0, 0]]
    assert partition.reasons() == [Reason.UNKNOWN_PERSON] * 2


def test_with_a_roster_a_cut_at_0_leaves_everybody_at_the_initial_symbol() -> None:
    study = build_study(WindowRelease("w", 1), partitions=1, alphabet="abc")
    logic = GathererLogic(PartitionContext(study, 0, KEY, IDS))
    logic.ingest([LogRecord(0, encode_report("p0", 1, "c"))])
    logic.add_cut(Cut(Period(1), (0,)))

    assert counts(logic.close_periods(1)) == [[len(IDS), 0, 0]]
    assert [reject.reason for reject in logic.drain_rejects()] == [Reason.LATE]


def test_several_periods_may_close_at_once() -> None:
    partition = Partition()
    partition.say(("p", 1, "b"), ("p", 2, "c"), ("q", 1, "a"))
    partition.logic.add_cut(Cut(Period(1), (3,)))
    partition.logic.add_cut(Cut(Period(2), (3,)))

    assert counts(partition.logic.close_periods(3)) == [[1, 1, 0], [1, 0, 1]]


def test_a_report_for_a_later_period_waits_for_it() -> None:
    partition = Partition()
    partition.say(("p", 1, "b"), ("p", 3, "c"))

    assert counts(partition.cut(1)) == [[0, 1, 0]]
    assert counts(partition.cut(2)) == [[0, 1, 0]]
    assert counts(partition.cut(3)) == [[0, 0, 1]]


def test_without_a_roster_only_a_report_for_period_1_admits_an_id() -> None:
    partition = Partition(Population(initial="a", size=1_000))
    partition.say(*[(f"stranger-{number}", 2, "b") for number in range(2_000)])
    assert partition.reasons() == [Reason.UNKNOWN_PERSON] * 2_000
    partition.say(*[(f"person-{number}", 1, "b") for number in range(1_000)])

    assert [tally.people for tally in partition.cut(1)] == [1_000]
    assert partition.reasons() == []


@pytest.mark.parametrize("packed", [False, True])
def test_without_a_roster_reports_for_later_periods_count_from_the_admitting_report_on(packed: bool) -> None:
    partition = Partition()
    said = [("p", 2, "b"), ("p", 1, "a"), ("p", 2, "c"), ("q", 1, "b"), ("q", 2, "a")]
    if packed:
        names, times, symbols = zip(*said, strict=True)
        places = np.array([ALPHABET.index(symbol) for symbol in symbols], dtype=np.uint8)
        partition.logic.ingest([LogRecord(0, ReportBatch(names, np.array(times, dtype=np.uint16), places).encode())])
        partition.end = 1
    else:
        partition.say(*said)

    assert counts([*partition.cut(1), *partition.cut(2)]) == [[1, 1, 0], [1, 0, 1]]
    assert partition.reasons() == [Reason.UNKNOWN_PERSON]


def test_who_says_something_wrong_in_period_1_is_a_member_all_the_same() -> None:
    partition = Partition(Population(initial="a", missing=Missing("b")))
    partition.say(("p", 1, "?"))

    assert [tally.people for tally in partition.cut(1)] == [1]
    assert partition.reasons() == [Reason.UNKNOWN_SYMBOL]


def test_after_the_last_period_every_report_is_late() -> None:
    partition = Partition()
    partition.say(("p", 1, "b"))
    for period in (1, 2, 3):
        partition.cut(period)
    partition.say(("p", 3, "c"), ("p", 4, "c"))

    assert partition.logic.close_periods(partition.end) == []
    assert partition.reasons() == [Reason.LATE, Reason.PERIOD_OUT_OF_RANGE]


def test_a_partition_admits_twice_the_size_and_no_more() -> None:
    partition = Partition(Population(initial="a", size=2))
    partition.say(*[(name, 1, "b") for name in "abcdef"])

    assert partition.logic.people == 4
    assert partition.reasons() == [Reason.NOT_ADMITTED] * 2
    assert [tally.people for tally in partition.cut(1)] == [4]


def test_every_kind_of_reject_says_why() -> None:
    study = build_study(WindowRelease("w", 1), partitions=2, alphabet="abc")
    at_home = [name for name in IDS if home_partition(name, 2) == 0]
    abroad = [name for name in IDS if home_partition(name, 2) == 1]
    logic = GathererLogic(PartitionContext(study, 0, KEY, at_home[:-1]))
    wrong = {
        b"no report": Reason.UNDECODABLE,
        encode_report(at_home[0], 1, "?"): Reason.UNKNOWN_SYMBOL,
        encode_report(at_home[-1], 1, "a"): Reason.UNKNOWN_PERSON,
        encode_report(at_home[0], 4, "a"): Reason.PERIOD_OUT_OF_RANGE,
        encode_report(abroad[0], 4, "a"): Reason.PERIOD_OUT_OF_RANGE,
        encode_report(abroad[0], 1, "a"): Reason.FOREIGN_PARTITION,
    }
    logic.ingest([LogRecord(offset, value) for offset, value in enumerate(wrong)])

    rejects = sorted(logic.drain_rejects(), key=lambda reject: reject.offset)
    assert rejects == [Reject(0, offset, reason) for offset, reason in enumerate(wrong.values())]
    assert logic.drain_rejects() == []


def test_reports_sent_before_the_study_begins_do_not_fix_later_periods() -> None:
    """One writer claims every period of everybody first; with a limit the true reports count."""
    people = [f"person-{number}" for number in range(1_000)]
    partition = Partition(Population(initial="a", ahead=1))
    partition.say(*[(name, period, "c") for period in (1, 2, 3) for name in people])
    tallies = partition.cut(1)
    assert partition.reasons() == [Reason.TOO_EARLY] * 2_000
    for period in (2, 3):
        partition.say(*[(name, period, "b") for name in people])
        tallies += partition.cut(period)

    assert counts(tallies) == [[0, 0, 1_000], [0, 1_000, 0], [0, 1_000, 0]]
    assert partition.reasons() == []


def test_a_report_that_seems_too_early_waits_until_a_cut_beyond_it_is_known() -> None:
    partition = Partition(Population(initial="a", ahead=1))
    partition.say(("p", 1, "a"), ("p", 2, "b"), ("p", 3, "c"), ("p", 2, "c"), ("p", 3, "b"))
    assert partition.reasons() == []

    assert counts(partition.cut(1, end=3)) == [[1, 0, 0]]
    assert partition.reasons() == [Reason.TOO_EARLY] * 2
    assert counts(partition.cut(2, end=4)) == [[0, 0, 1]]
    assert counts(partition.cut(3, end=5)) == [[0, 1, 0]]
    assert partition.reasons() == []


def test_too_many_reports_that_wait_for_a_cut_pause_the_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamproc.gatherer.partition_logic.MAX_UNDECIDED", 100)
    partition = Partition(Population(initial="a", ahead=1))
    partition.say(("p", 1, "a"), *[("p", 3, "c")] * 100)
    before = partition.logic.paused
    partition.say(("p", 3, "c"))
    then = partition.logic.paused
    partition.cut(1)
    assert (before, then, partition.logic.paused) == (False, True, False)
    assert partition.reasons() == [Reason.TOO_EARLY] * 101


def test_rejects_carry_neither_id_nor_symbol() -> None:
    partition = Partition()
    partition.say(("secret-person", 9, "b"), ("secret-person", 1, "secret-symbol"))

    encoded = b"".join(reject.encode() for reject in partition.logic.drain_rejects())
    assert encoded
    assert b"secret" not in encoded


def test_a_checkpoint_holds_no_id() -> None:
    partition = Partition()
    partition.say(("secret-person", 1, "b"), ("secret-person", 2, "b"))
    partition.cut(1)

    assert b"secret" not in pack_arrays(partition.logic.arrays())


@pytest.mark.parametrize("rule", ["first", "last"])
def test_a_batch_follows_the_rule_within_itself(rule: Literal["first", "last"]) -> None:
    partition = Partition(Population(initial="a", duplicates=rule))
    batch = ReportBatch(["p", "p", "q"], np.array([1, 1, 1], dtype=np.uint16), np.array([1, 2, 0], dtype=np.uint8))
    partition.logic.ingest([LogRecord(0, batch.encode())])
    partition.end = 1

    assert counts(partition.cut(1)) == [[1, 1, 0] if rule == "first" else [1, 0, 1]]
    assert partition.reasons() == [Reason.DUPLICATE]


def test_alphabet_indices_of_a_batch_are_those_of_the_study() -> None:
    partition = Partition()
    batch = ReportBatch(["p", "q", "r"], np.array([1] * 3, dtype=np.uint16), np.array([0, 2, 3], dtype=np.uint8))
    partition.logic.ingest([LogRecord(0, batch.encode())])
    partition.end = 1

    assert len(ALPHABET) == 3
    assert counts(partition.cut(1)) == [[2, 0, 1]]
    assert partition.reasons() == [Reason.UNKNOWN_SYMBOL]


def test_a_batch_with_many_distinct_periods_is_sorted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The work for a batch must not grow with the product of its reports and the periods that they claim."""
    filed: list[int] = []
    original = GathererLogic._buffer_period

    def file_period(self: GathererLogic, period: int, *reports: Any) -> None:
        filed.append(period)
        original(self, period, *reports)

    monkeypatch.setattr(GathererLogic, "_buffer_period", file_period)
    partition = Partition()
    periods = np.arange(65_536).astype(np.uint16)
    batch = ReportBatch(["p"] * len(periods), np.roll(periods, -1), np.zeros(len(periods), dtype=np.uint8))
    partition.logic.ingest([LogRecord(0, batch.encode())])
    partition.end = 1

    assert filed == [1, 2, 3]
    for period in (1, 2, 3):
        assert counts(partition.cut(period)) == [[1, 0, 0]]
    [reject] = partition.logic.drain_rejects()
    assert reject.by_reason == {Reason.PERIOD_OUT_OF_RANGE: 65_533}


def test_rejected_reports_are_counted_before_the_reject_of_their_batch_is_final() -> None:
    """One report of the batch is open until period 3 is settled."""
    partition = Partition()
    batch = ReportBatch(["p"] * 4, np.array([1, 3, 9, 9], dtype=np.uint16), np.zeros(4, dtype=np.uint8))
    partition.logic.ingest([LogRecord(0, batch.encode())])
    partition.end = 1

    assert partition.logic.drain_reject_counts() == {Reason.PERIOD_OUT_OF_RANGE: 2}
    for period in (1, 2):
        partition.cut(period)
        assert partition.logic.drain_rejects() == []
    partition.cut(3)
    [reject] = partition.logic.drain_rejects()
    assert reject.by_reason == {Reason.PERIOD_OUT_OF_RANGE: 2}
    assert partition.logic.drain_reject_counts() == {}


def test_a_reject_does_not_go_through_all_open_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    collector = RejectCollector(0)
    for offset in range(1_000):
        collector.expect_batch(offset, 3)
    with monkeypatch.context() as patched:
        patched.setattr("streamproc.gatherer.reject_collector.np.bincount", None)
        collector.reject(np.array([7, 7, 8]), Reason.LATE)
        collector.count(np.array([8, 9, 7]))
    collector.reject(np.repeat(np.arange(1_000), 2)[18:], Reason.DUPLICATE)
    assert [(reject.offset, reject.by_reason) for reject in collector.drain()] == [
        (7, {Reason.LATE: 2}),
        (9, {Reason.DUPLICATE: 2}),
    ]
    collector.reject(np.arange(10, 1_000), Reason.LATE)
    collector.reject_one(1_000, Reason.UNDECODABLE)
    rejects = collector.drain()
    assert [reject.offset for reject in rejects] == list(range(10, 1_001))
    assert all(reject.by_reason == {Reason.LATE: 1, Reason.DUPLICATE: 2} for reject in rejects[:-1])
