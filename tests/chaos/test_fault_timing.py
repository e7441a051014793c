"""A fault that came when its moment was over is no hit, and a plan of many faults demands hits and cut publications."""

from __future__ import annotations

from collections import Counter

import msgpack

from tests.chaos.fault_plan import SYNTHESIZER, Aim, Amount, Fault, FaultPlan, Kind, draw_fault_plan
from tests.chaos.fault_timing import (
    LONGEST_WAY,
    Aimed,
    InjectedFault,
    Score,
    cut_off,
    fault_scores,
    missed_faults,
    release_times,
)
from tests.chaos.history import History, Record

FULL = Amount(kills=50, stops=20, broker_faults=6, takeovers=4)
FEW = Amount(kills=2, stops=1, broker_faults=1, takeovers=0)
MID_PUBLISH = (Aim.AT_INTENT, Aim.AT_COLUMN)


def injected_fault(aim: Aim, period: int | None, at: float) -> InjectedFault:
    return InjectedFault(Kind.KILL, SYNTHESIZER, aim, period, at)


def record(offset: int, kind: str, period: int) -> Record:
    return Record(offset, msgpack.packb({"type": kind, "period": period}))


def history(ledger: list[Record], columns: list[Record], *, aborted: list[Record], aborted_columns: list[Record]) -> History:
    return History(
        reports=[], control=[], tallies=[], rejects=[], asked={},
        ledger=ledger, ledger_uncommitted=[*ledger, *aborted],
        synthetic={"ever": columns}, synthetic_uncommitted={"ever": [*columns, *aborted_columns]},
    )  # fmt: skip


def test_a_strike_is_in_time_if_what_is_released_was_made_after_it() -> None:
    releases = {1: 100.0}
    for aim in (Aim.AFTER_CUT, *MID_PUBLISH):
        assert injected_fault(aim, 1, 99.9).in_time(releases)
        assert not injected_fault(aim, 1, 100.1).in_time(releases)
        assert injected_fault(aim, 2, 100.1).in_time(releases)
        assert not injected_fault(aim, None, 99.9).in_time(releases)
    assert injected_fault(Aim.AFTER_START, None, 100.1).in_time(releases)


def test_scores_tell_who_was_planned_struck_and_hit_by_aim() -> None:
    fault = Fault(1, Kind.KILL, Aim.AT_COLUMN, 0.0)
    plan = FaultPlan({SYNTHESIZER: [fault] * 3, "gatherer-1": [Fault(1, Kind.STOP, Aim.AFTER_START, 0.0)]})
    injected = [injected_fault(Aim.AT_COLUMN, 1, 5.0), injected_fault(Aim.AT_COLUMN, 1, 7.0)]

    assert fault_scores(plan, injected, {1: 6.0}) == {
        (Aim.AT_COLUMN, SYNTHESIZER): Score(planned=3, injected_count=2, in_time=1),
        (Aim.AFTER_START, "gatherer"): Score(planned=1, injected_count=0, in_time=0),
    }


def perfect(amount: Amount, horizon: int) -> dict[Aimed, Score]:
    plan = draw_fault_plan(1, horizon, amount)
    return {aimed: Score(each.planned, each.planned, each.planned) for aimed, each in fault_scores(plan, [], {}).items()}


def test_a_full_run_must_hit_the_synthesizer_at_every_moment_and_cut_columns_off() -> None:
    timing = perfect(FULL, 10)
    assert missed_faults(timing, {"column": 10}) == []

    for aim in Aim:
        missed = timing | {(aim, SYNTHESIZER): Score(timing[aim, SYNTHESIZER].planned, 20, 0)}
        (line,) = missed_faults(missed, {"column": 10})
        assert line.startswith(f"{aim} (synthesizer): 0 of ")
    for aborted in ({}, {"intent": 10}):
        (line,) = missed_faults(timing, aborted)
        assert line.startswith("columns seen but never committed: 0, at least ")


def test_every_full_plan_demands_hits_in_mid_publication() -> None:
    for seed in range(1, 101):
        timing = fault_scores(draw_fault_plan(seed, 10, FULL), [], {})
        assert all(timing[aim, SYNTHESIZER].needed >= 1 for aim in MID_PUBLISH)


def test_a_plan_of_few_faults_demands_no_hits() -> None:
    assert missed_faults(fault_scores(draw_fault_plan(3, 3, FEW), [], {}), {}) == []


def test_what_can_be_aimed_at_in_mid_publication_is_still_to_come() -> None:
    for seed in range(1, 101):
        faults = draw_fault_plan(seed, 10, FULL).tracks[SYNTHESIZER]
        doubled = {fault.period for fault in faults if fault.kind is Kind.TAKEOVER}
        assert all(fault.aim is Aim.AFTER_START for fault in faults if fault.period in doubled)
        assert max(Counter(fault.period for fault in faults if fault.aim is Aim.AT_INTENT).values()) == 1


def test_only_what_no_committed_reader_sees_is_cut_off() -> None:
    found = history(
        [record(0, "intent", 1), record(5, "period", 1), record(7, "intent", 2), record(9, "period", 2)],
        [record(4, "column", 1)],
        aborted=[record(2, "period", 1)],
        aborted_columns=[record(0, "column", 1), record(1, "column", 1)],
    )
    assert cut_off(found) == {"period": 1, "column": 2}
    assert release_times(found, {0: 1.0, 2: 2.5, 5: 3.5, 7: 4.5}) == {1: 3.5 - LONGEST_WAY, 2: 0.0}
    assert not cut_off(history(found.ledger, found.synthetic["ever"], aborted=[], aborted_columns=[]))  # type: ignore[arg-type]
