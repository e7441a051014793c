"""Whatever a partition of an open study holds and however it is met, the tallies are those of a plain model of the rules."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from streamproc.gatherer.open_logic import OpenGathererLogic
from streamproc.gatherer.partition_logic import PartitionContext
from streamproc.privacy.types import Period
from streamproc.protocol.control import Cut
from streamproc.protocol.rejects import Reason
from streamproc.protocol.reports import encode_report, home_partition
from streamproc.protocol.state_file import pack_arrays
from streamproc.protocol.tallies import Tally
from streamproc.study import Population, WindowRelease
from tests.gatherer.open_sequences import KEY, OpenRunner, OpenSequence, large_open_sequence, open_sequences, open_study
from tests.gatherer.test_logic import closed
from tests.stream_model.reference_model import rejected_reports
from tests.stream_model.report_sequences import IDS, Action, LogRecord


def check(sequence: OpenSequence) -> None:
    runner, model = OpenRunner(sequence).run(), sequence.model()
    assert closed(runner.tallies) == model.tallies()
    assert [(tally.partition, tally.period) for tally in runner.tallies] == [
        (sequence.partition, period) for period in range(1, len(sequence.ends) + 1)
    ]
    last = len(sequence.ends) if sequence.ended else None
    assert [tally.period for tally in runner.tallies if tally.last] == ([] if last is None else [last])
    check_people(sequence)
    check_rejects(sequence, runner)


def check_people(sequence: OpenSequence) -> None:
    tenure = sequence.study.population.tenure
    assert tenure is not None
    assert all(len(person.symbols) <= tenure for person in sequence.model().people.values())


def check_rejects(sequence: OpenSequence, runner: OpenRunner) -> None:
    model = sequence.model()
    if sequence.is_over:
        assert rejected_reports(runner.rejects) == model.rejected()
    assert len({reject.offset for reject in runner.rejects}) == len(runner.rejects)
    true = model.true_reasons()
    for reject in runner.rejects:
        assert reject.partition == sequence.partition
        assert set(reject.by_reason) <= true[reject.offset]


@settings(max_examples=4 * settings().max_examples)
@given(open_sequences())
def test_tallies_and_rejects_are_those_of_the_model(sequence: OpenSequence) -> None:
    check(sequence)


@pytest.mark.parametrize("seed", range(80))
def test_tallies_and_rejects_of_a_crowd_are_those_of_the_model(seed: int) -> None:
    check(large_open_sequence(seed))


@given(open_sequences())
def test_segments_and_tallies_do_not_depend_on_how_the_log_is_read(sequence: OpenSequence) -> None:
    whole = OpenRunner(replace(sequence, actions=()))
    parts = OpenRunner(
        replace(sequence, actions=[*sequence.actions, ("learn", 9), ("ingest", 99), ("settle", 0), ("resume", 0)])
    )
    whole.run()
    parts.run()
    assert whole.tallies == parts.tallies
    whole_again = OpenRunner(replace(sequence, actions=[("ingest", 99), ("learn", 9), ("settle", 0), ("resume", 0)])).run()
    assert whole_again.folder.files == parts.folder.files


@given(open_sequences())
def test_the_tallies_are_the_sum_of_those_of_each_person_alone(sequence: OpenSequence) -> None:
    """So one person's reports change nothing but that person's contribution."""
    everybody = OpenRunner(sequence).run().tallies
    for individual in sorted({said.individual for said in sequence.model().said})[:3]:
        alone = OpenRunner(sequence.only(individual)).run().tallies
        others = OpenRunner(sequence.without(individual)).run().tallies
        for whole, one, rest in zip(everybody, alone, others, strict=True):
            assert whole.people == one.people + rest.people
            assert one.people <= 1
            for name, counts in whole.counts.items():
                assert (counts == one.counts[name] + rest.counts[name]).all()
                assert one.counts[name].sum() <= 1


@pytest.mark.parametrize("early", [False, True])
def test_people_who_leave_are_ordered_whatever_the_order_of_their_rows(early: bool) -> None:
    """If the cut is known early, the late report of `p` makes no row, so `q` has the first one."""
    study = open_study(Population(initial="a", open=True, tenure=1), releases=[WindowRelease("w", 1)])
    for late, other in (("p", "q"), ("q", "p")):
        reports = [(late, 1, "a"), (other, 2, "a"), (late, 2, "a")]
        records = [LogRecord(offset, encode_report(*report)) for offset, report in enumerate(reports)]
        actions: list[tuple[Action, int]] = [("learn", 3), ("ingest", 3)] if early else [("ingest", 3), ("learn", 3)]
        sequence = OpenSequence(study, 0, None, records, [0, 3, 3], 3, ended=False, actions=actions)
        runner = OpenRunner(sequence).run()
        hashes = runner.logic.departed.arrays()["departed/hashes"].tobytes()
        assert hashes == b"".join(sorted((hashes[:16], hashes[16:])))
        assert len(hashes) == 32


class OpenPartition:
    """A partition that is written record by record, and the logic that reads it."""

    def __init__(self, roster: tuple[str, ...] | None = None, **values: object) -> None:
        population = Population(initial="a", open=True, **{"tenure": 3, **values})  # type: ignore[arg-type]
        self.study = open_study(population, releases=[WindowRelease("w", 1)])
        self.context = PartitionContext(self.study, 0, KEY, roster)
        self.logic = OpenGathererLogic(self.context)
        self.end = 0

    def say(self, *reports: tuple[str, int, str]) -> None:
        records = [LogRecord(self.end + index, encode_report(*report)) for index, report in enumerate(reports)]
        self.end += len(records)
        self.logic.ingest(records)

    def cut(self, period: int, *, last: bool = False) -> list[Tally]:
        self.logic.add_cut(Cut(Period(period), (self.end,), last))
        return self.logic.close_periods(self.end)

    def people(self, period: int) -> int:
        [tally] = self.cut(period)
        return tally.people

    def reasons(self) -> list[Reason]:
        return [reject.reason for reject in self.logic.drain_rejects()]


def test_a_person_enters_is_present_for_the_tenure_and_never_comes_back() -> None:
    partition = OpenPartition()
    present = []
    for period in range(1, 9):
        partition.say(("p", period, "b"))
        present.append(partition.people(period))
    assert present == [1, 1, 1, 0, 0, 0, 0, 0]
    assert partition.reasons() == [Reason.TENURE_OVER] * 5
    assert len(partition.logic.departed) == 1


def test_who_misses_too_many_reports_has_left_and_the_reports_that_came_early_do_not_count() -> None:
    partition = OpenPartition(tenure=9, absent_after=2)
    partition.say(("p", 1, "b"), ("p", 4, "b"), ("p", 5, "b"))
    assert [partition.people(period) for period in (1, 2, 3)] == [1, 1, 0]
    assert partition.reasons() == [Reason.LEFT] * 2
    partition.say(("p", 4, "b"), ("p", 3, "b"))
    assert partition.people(4) == 0
    assert partition.reasons() == [Reason.LEFT, Reason.LATE]


def test_a_report_for_a_later_period_makes_a_person_enter_in_that_period() -> None:
    partition = OpenPartition()
    partition.say(("p", 3, "b"))
    assert [partition.people(period) for period in range(1, 8)] == [0, 0, 1, 1, 1, 0, 0]


def test_a_late_report_admits_nobody_and_leaves_no_row() -> None:
    partition = OpenPartition()
    partition.say(("p", 1, "b"))
    partition.logic.add_cut(Cut(Period(1), (0,)))
    assert [tally.people for tally in partition.logic.close_periods(1)] == [0]
    assert partition.reasons() == [Reason.LATE]
    assert len(partition.logic._present) == 0
    partition.say(("p", 2, "b"), ("q", 1, "b"))
    assert len(partition.logic._present) == 1
    assert partition.people(2) == 1
    assert partition.reasons() == [Reason.LATE]


def test_only_reports_that_may_count_make_a_row() -> None:
    study = open_study(
        Population(initial="a", open=True, tenure=3, sample=0.5, ahead=1), partitions=2, releases=[WindowRelease("w", 1)]
    )
    home = [f"p{number}" for number in range(200) if home_partition(f"p{number}", 2) == 0]
    abroad = next(each for each in (f"p{number}" for number in range(200)) if home_partition(each, 2) == 1)
    model = OpenSequence(study, 0, None, [], [], 0, ended=False).model()
    inside = [each for each in home if model._place(each) < 0.5]
    outside = next(each for each in home if model._place(each) >= 0.5)
    abroad = next(f"p{n}" for n in range(200) if home_partition(f"p{n}", 2) == 1 and model._place(f"p{n}") < 0.5)
    logic = OpenGathererLogic(PartitionContext(study, 0, KEY, (inside[0], outside, abroad)))
    wrong = {
        (outside, 1, "a"): Reason.NOT_SAMPLED,
        (inside[1], 1, "a"): Reason.UNKNOWN_PERSON,
        (abroad, 1, "a"): Reason.FOREIGN_PARTITION,
        (inside[0], 1, "?"): Reason.UNKNOWN_SYMBOL,
        (inside[0], 0, "a"): Reason.PERIOD_OUT_OF_RANGE,
        (inside[0], 1_000_001, "a"): Reason.PERIOD_OUT_OF_RANGE,
    }
    logic.ingest([LogRecord(offset, encode_report(*report)) for offset, report in enumerate(wrong)])
    assert [reject.reason for reject in logic.drain_rejects()] == list(wrong.values())
    assert len(logic._present) == 0
    logic.ingest([LogRecord(9, encode_report(inside[0], 1, "a"))])
    assert len(logic._present) == 1


@pytest.mark.parametrize(("sample", "admitted"), [(0.1, 400), (1e-9, 0), (1, 4_000)])
def test_a_sample_admits_about_its_share_of_ids(sample: float, admitted: int) -> None:
    """Off by more than 4 standard deviations, of 19 people, once in 16,000 keys; the key is fixed."""
    partition = OpenPartition(sample=sample)
    partition.say(*[(f"person-{number}", 1, "a") for number in range(4_000)])
    assert abs(partition.people(1) - admitted) <= (4 * 19 if admitted == 400 else 0)
    assert set(partition.reasons()) <= {Reason.NOT_SAMPLED}


def test_with_a_roster_people_enter_when_they_report() -> None:
    partition = OpenPartition(roster=("p", "q"))
    partition.say(("p", 1, "a"), ("r", 1, "a"))
    assert partition.people(1) == 1
    partition.say(("q", 2, "a"))
    assert partition.people(2) == 2
    assert partition.reasons() == [Reason.UNKNOWN_PERSON]


def test_there_is_no_limit_on_people_but_those_of_the_study() -> None:
    partition = OpenPartition(size=2)
    partition.say(*[(each, 1, "a") for each in IDS])
    assert partition.people(1) == len(IDS)


def test_after_the_last_cut_no_report_for_a_later_period_is_kept() -> None:
    partition = OpenPartition()
    partition.say(("p", 1, "b"), ("p", 2, "b"), ("p", 700_000, "b"))
    [tally] = partition.cut(1, last=True)
    assert tally.last
    assert partition.reasons() == [Reason.PERIOD_OUT_OF_RANGE] * 2
    assert len(partition.logic._present) == 1


def test_a_study_reaches_period_a_million() -> None:
    partition = OpenPartition(ahead=3)
    partition.say(("p", 1, "b"))
    partition.cut(1)
    state = {**partition.logic.arrays(), "period": np.array([999_997])}
    state["ages"] = np.array([1], dtype=np.uint16)
    partition.logic = OpenGathererLogic.restored(partition.context, state, [])
    partition.say(("p", 999_999, "a"), ("q", 1_000_000, "a"), ("q", 999_998, "b"))
    state = partition.logic.arrays()
    assert state["sparse/periods"].tolist() == [999_999, 1_000_000]
    partition.logic = OpenGathererLogic.restored(partition.context, state, [])
    assert [partition.people(period) for period in (999_998, 999_999, 1_000_000)] == [2, 2, 1]


def test_a_checkpoint_holds_no_id() -> None:
    partition = OpenPartition()
    partition.say(("secret-person", 1, "b"), ("secret-person", 2, "b"))
    partition.cut(1)
    assert b"secret" not in pack_arrays(partition.logic.arrays())


def test_printing_the_logic_shows_no_id() -> None:
    partition = OpenPartition()
    partition.say(("secret-person", 1, "b"))
    assert "secret" not in repr(vars(partition.logic))
