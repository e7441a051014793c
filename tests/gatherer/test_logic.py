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
from tests.stream_model.report_sequences import ALPHABET, IDS, Line, Story, crowded_story, stories
from tests.studies import build_study

KEY = bytes(range(32))


class Told:
    """Drives a gathering through a story, as a gatherer would that is stopped, resumed and kept in the dark."""

    def __init__(self, story: Story) -> None:
        self.story = story
        self.place = PartitionContext(story.study, story.partition, KEY, story.roster)
        self.gathering = GathererLogic(self.place)
        self.tallies: list[Tally] = []
        self.rejects: list[Reject] = []
        self._read = 0
        self._known = 0

    @property
    def position(self) -> int:
        done = self._read == len(self.story.lines)
        return self.story.position if done else self.story.lines[self._read].offset

    def tell(self) -> None:
        for action, amount in (*self.story.actions, ("learn", len(self.story.ends)), ("ingest", len(self.story.lines))):
            match action:
                case "ingest":
                    self.gathering.ingest(self.story.lines[self._read : self._read + amount])
                    self._read = min(self._read + amount, len(self.story.lines))
                case "learn":
                    self._learn(amount)
                case "settle":
                    self.tallies += self.gathering.close_periods(self.position)
                case "resume":
                    self._resume(known=amount % 2 == 0)
            if self.story.eager:
                self.tallies += self.gathering.close_periods(self.position)
            self.rejects += self.gathering.drain_rejects()
        self.tallies += self.gathering.close_periods(self.position)
        self.rejects += self.gathering.drain_rejects()

    def _learn(self, amount: int) -> None:
        for end in self.story.ends[self._known : self._known + amount]:
            self._known += 1
            ends = [0] * self.story.study.broker.partitions
            ends[self.story.partition] = end
            self.gathering.add_cut(Cut(Period(self._known), tuple(ends)))

    def _resume(self, *, known: bool) -> None:
        state = unpack_arrays(pack_arrays(self.gathering.arrays()))
        self.gathering = GathererLogic.restored(self.place, state)
        amount, self._known = self._known - self.gathering.period, int(self.gathering.period)
        self._learn(amount if known else 0)


def told(story: Story) -> Told:
    teller = Told(story)
    teller.tell()
    return teller


def model_of(story: Story) -> Model:
    records = [(line.offset, line.value) for line in story.lines]
    return Model(story.study, story.partition, story.roster, records, story.ends)


def closed(tallies: Sequence[Tally]) -> list[Closed]:
    return [Closed(tally.people, {name: counts.tolist() for name, counts in tally.counts.items()}) for tally in tallies]


def check_tallies(story: Story) -> None:
    teller = told(story)
    assert closed(teller.tallies) == model_of(story).tallies()
    assert [(tally.partition, tally.period) for tally in teller.tallies] == [
        (story.partition, period) for period in range(1, len(story.ends) + 1)
    ]


def check_rejects(story: Story) -> None:
    teller, model = told(story), model_of(story)
    if len(story.ends) == story.study.horizon:
        assert rejected_reports(teller.rejects) == model.rejected()
    assert len({reject.offset for reject in teller.rejects}) == len(teller.rejects)
    true = model.true_reasons()
    for reject in teller.rejects:
        assert reject.partition == story.partition
        assert set(reject.by_reason) <= true[reject.offset]


@settings(max_examples=3 * settings().max_examples)
@given(stories())
def test_tallies_are_those_of_the_model(story: Story) -> None:
    check_tallies(story)


@given(stories())
def test_every_report_is_counted_or_rejected_once_with_a_true_reason(story: Story) -> None:
    check_rejects(story)


@pytest.mark.parametrize("seed", range(60))
def test_tallies_of_a_crowd_are_those_of_the_model(seed: int) -> None:
    check_tallies(crowded_story(seed))


@pytest.mark.parametrize("seed", range(60, 75))
def test_every_report_of_a_crowd_is_counted_or_rejected_once_with_a_true_reason(seed: int) -> None:
    check_rejects(crowded_story(seed))


class Partition:
    """A partition written down record by record, and the gathering that reads it."""

    def __init__(self, population: Population | None = None) -> None:
        self.study = build_study(WindowRelease("w", 1), horizon=3, population=population, partitions=1, alphabet="abc")
        self.gathering = GathererLogic(PartitionContext(self.study, 0, KEY))
        self.end = 0

    def say(self, *reports: tuple[str, int, str]) -> None:
        lines = [Line(self.end + place, encode_report(*report)) for place, report in enumerate(reports)]
        self.end += len(lines)
        self.gathering.ingest(lines)

    def cut(self, period: int, end: int | None = None) -> list[Tally]:
        self.gathering.add_cut(Cut(Period(period), (self.end if end is None else end,)))
        return self.gathering.close_periods(self.end)

    def reasons(self) -> list[Reason]:
        told = sorted(self.gathering.drain_rejects(), key=lambda reject: reject.offset)
        return [reject.reason for reject in told]


def counts(tallies: list[Tally]) -> list[list[int]]:
    return [tally.counts["w"].tolist() for tally in tallies]


def test_a_period_is_not_settled_one_record_before_its_cut() -> None:
    partition = Partition()
    partition.say(("p", 1, "b"))

    assert partition.cut(1, end=2) == []
    assert partition.gathering.next_cut_offset() == 2
    partition.say(("q", 1, "c"))
    assert counts(partition.gathering.close_periods(2)) == [[0, 1, 1]]
    assert partition.gathering.next_cut_offset() is None


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
    gathering = GathererLogic(PartitionContext(study, 0, KEY, IDS))
    gathering.ingest([Line(0, encode_report("p0", 1, "c"))])
    gathering.add_cut(Cut(Period(1), (0,)))

    assert counts(gathering.close_periods(1)) == [[len(IDS), 0, 0]]
    assert [reject.reason for reject in gathering.drain_rejects()] == [Reason.LATE]


def test_several_periods_may_close_at_once() -> None:
    partition = Partition()
    partition.say(("p", 1, "b"), ("p", 2, "c"), ("q", 1, "a"))
    partition.gathering.add_cut(Cut(Period(1), (3,)))
    partition.gathering.add_cut(Cut(Period(2), (3,)))

    assert counts(partition.gathering.close_periods(3)) == [[1, 1, 0], [1, 0, 1]]


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
        partition.gathering.ingest([Line(0, ReportBatch(names, np.array(times, dtype=np.uint16), places).encode())])
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

    assert partition.gathering.close_periods(partition.end) == []
    assert partition.reasons() == [Reason.LATE, Reason.PERIOD_OUT_OF_RANGE]


def test_a_partition_admits_twice_the_size_and_no_more() -> None:
    partition = Partition(Population(initial="a", size=2))
    partition.say(*[(name, 1, "b") for name in "abcdef"])

    assert partition.gathering.people == 4
    assert partition.reasons() == [Reason.NOT_ADMITTED] * 2
    assert [tally.people for tally in partition.cut(1)] == [4]


def test_every_kind_of_reject_says_why() -> None:
    study = build_study(WindowRelease("w", 1), partitions=2, alphabet="abc")
    at_home = [name for name in IDS if home_partition(name, 2) == 0]
    abroad = [name for name in IDS if home_partition(name, 2) == 1]
    gathering = GathererLogic(PartitionContext(study, 0, KEY, at_home[:-1]))
    wrong = {
        b"no report": Reason.UNDECODABLE,
        encode_report(at_home[0], 1, "?"): Reason.UNKNOWN_SYMBOL,
        encode_report(at_home[-1], 1, "a"): Reason.UNKNOWN_PERSON,
        encode_report(at_home[0], 4, "a"): Reason.PERIOD_OUT_OF_RANGE,
        encode_report(abroad[0], 4, "a"): Reason.PERIOD_OUT_OF_RANGE,
        encode_report(abroad[0], 1, "a"): Reason.FOREIGN_PARTITION,
    }
    gathering.ingest([Line(offset, value) for offset, value in enumerate(wrong)])

    told = sorted(gathering.drain_rejects(), key=lambda reject: reject.offset)
    assert told == [Reject(0, offset, reason) for offset, reason in enumerate(wrong.values())]
    assert gathering.drain_rejects() == []


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
    monkeypatch.setattr("streamproc.gatherer.logic.MAX_UNDECIDED", 100)
    partition = Partition(Population(initial="a", ahead=1))
    partition.say(("p", 1, "a"), *[("p", 3, "c")] * 100)
    before = partition.gathering.paused
    partition.say(("p", 3, "c"))
    then = partition.gathering.paused
    partition.cut(1)
    assert (before, then, partition.gathering.paused) == (False, True, False)
    assert partition.reasons() == [Reason.TOO_EARLY] * 101


def test_rejects_carry_neither_id_nor_symbol() -> None:
    partition = Partition()
    partition.say(("secret-person", 9, "b"), ("secret-person", 1, "secret-symbol"))

    told = b"".join(reject.encode() for reject in partition.gathering.drain_rejects())
    assert told
    assert b"secret" not in told


def test_a_checkpoint_holds_no_id() -> None:
    partition = Partition()
    partition.say(("secret-person", 1, "b"), ("secret-person", 2, "b"))
    partition.cut(1)

    assert b"secret" not in pack_arrays(partition.gathering.arrays())


@pytest.mark.parametrize("rule", ["first", "last"])
def test_a_batch_follows_the_rule_within_itself(rule: Literal["first", "last"]) -> None:
    partition = Partition(Population(initial="a", duplicates=rule))
    batch = ReportBatch(["p", "p", "q"], np.array([1, 1, 1], dtype=np.uint16), np.array([1, 2, 0], dtype=np.uint8))
    partition.gathering.ingest([Line(0, batch.encode())])
    partition.end = 1

    assert counts(partition.cut(1)) == [[1, 1, 0] if rule == "first" else [1, 0, 1]]
    assert partition.reasons() == [Reason.DUPLICATE]


def test_alphabet_indices_of_a_batch_are_those_of_the_study() -> None:
    partition = Partition()
    batch = ReportBatch(["p", "q", "r"], np.array([1] * 3, dtype=np.uint16), np.array([0, 2, 3], dtype=np.uint8))
    partition.gathering.ingest([Line(0, batch.encode())])
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
    partition.gathering.ingest([Line(0, batch.encode())])
    partition.end = 1

    assert filed == [1, 2, 3]
    for period in (1, 2, 3):
        assert counts(partition.cut(period)) == [[1, 0, 0]]
    [reject] = partition.gathering.drain_rejects()
    assert reject.by_reason == {Reason.PERIOD_OUT_OF_RANGE: 65_533}


def test_rejected_reports_are_counted_before_the_reject_of_their_batch_is_final() -> None:
    """One report of the batch is open until period 3 is settled."""
    partition = Partition()
    batch = ReportBatch(["p"] * 4, np.array([1, 3, 9, 9], dtype=np.uint16), np.zeros(4, dtype=np.uint8))
    partition.gathering.ingest([Line(0, batch.encode())])
    partition.end = 1

    assert partition.gathering.drain_reject_counts() == {Reason.PERIOD_OUT_OF_RANGE: 2}
    for period in (1, 2):
        partition.cut(period)
        assert partition.gathering.drain_rejects() == []
    partition.cut(3)
    [reject] = partition.gathering.drain_rejects()
    assert reject.by_reason == {Reason.PERIOD_OUT_OF_RANGE: 2}
    assert partition.gathering.drain_reject_counts() == {}


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
