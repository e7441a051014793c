"""A short chaos run: a few of each fault, on a real broker. `make chaos` is the long one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.broker import missing_programs
from tests.chaos.fault_plan import GATHERERS, ROLES, SYNTHESIZER, Aim, Amount, Fault, FaultPlan, Kind, draw_fault_plan
from tests.chaos.processes import RunLog
from tests.chaos.run import MISSES, chaos, judge
from tests.chaos.study import ChaosStudy

AMOUNT = Amount(kills=50, stops=20, broker_faults=6, takeovers=4)


@pytest.mark.kafka
async def test_a_study_survives_kills_of_every_role_a_stop_past_the_time_outs_and_a_broker_that_dies(tmp_path: Path) -> None:
    if (missing := missing_programs()) is not None:
        pytest.skip(missing)
    few = Amount(kills=2, stops=1, broker_faults=1, takeovers=0)

    outcome = await chaos(ChaosStudy(seed=3, reports=1500, horizon=3), few, tmp_path / "run")

    assert outcome.violations == [], (tmp_path / "run" / "events.txt").read_text()
    assert {"every fault of the plan struck", MISSES} <= outcome.report["invariants"].keys()
    assert sum(score["struck"] for score in outcome.report["in time"].values()) == 8
    assert outcome.last_line == "chaos seed 3: 1500 reports, 6 kills, 1 stops, 1 broker faults, 0 violations"


def test_a_seed_decides_the_whole_plan() -> None:
    assert draw_fault_plan(1, 10, AMOUNT) == draw_fault_plan(1, 10, AMOUNT)
    assert draw_fault_plan(1, 10, AMOUNT) != draw_fault_plan(2, 10, AMOUNT)


def test_a_plan_has_what_was_asked_for_and_leaves_the_last_period_alone() -> None:
    plan = draw_fault_plan(1, 10, AMOUNT)
    assert plan.count(Kind.KILL) == 3 * AMOUNT.kills
    assert plan.count(Kind.STOP) == AMOUNT.stops
    assert plan.count(Kind.TAKEOVER) == AMOUNT.takeovers
    assert plan.count(Kind.BROKER_KILL) + plan.count(Kind.BROKER_RESTART) == AMOUNT.broker_faults
    for faults in plan.tracks.values():
        assert [fault.period for fault in faults] == sorted(fault.period for fault in faults)
        assert all(1 <= fault.period <= 9 for fault in faults)


def plan_of(*faults: Fault, gatherer: Sequence[Fault] = ()) -> FaultPlan:
    tracks: dict[str, list[Fault]] = {track: [] for track in ROLES}
    return FaultPlan(tracks | {SYNTHESIZER: [*faults], GATHERERS[0]: [*gatherer]})


def test_a_period_is_closed_only_when_its_release_can_still_be_aimed_at() -> None:
    early, aimed = Fault(2, Kind.STOP, Aim.AFTER_START, 1.0), Fault(2, Kind.KILL, Aim.AT_COLUMN, 0.0)
    takeover = Fault(2, Kind.TAKEOVER, Aim.AFTER_START, 0.0)
    assert not plan_of(early, aimed).lets_close(2)
    assert plan_of(aimed).lets_close(2)
    assert plan_of(takeover, early).lets_close(2), "a takeover ends only after the cut"
    assert plan_of(gatherer=[early]).lets_close(2)
    assert plan_of(aimed).lets_close(1)
    for left in (plan_of(aimed), plan_of(gatherer=[early])):
        assert not left.lets_close(3)


def test_a_run_in_which_fewer_faults_struck_than_planned_is_a_violation(tmp_path: Path) -> None:
    run_log, short = RunLog(tmp_path / "events.txt"), "every fault of the plan struck"
    for track, faults in draw_fault_plan(1, 10, AMOUNT).tracks.items():
        for fault in faults:
            run_log.fault(ROLES[track], fault)
    assert judge(run_log, draw_fault_plan(1, 10, AMOUNT))[short] == []

    run_log.injected.remove(next(each for each in run_log.injected if (each.kind, each.role) == (Kind.KILL, "gatherer")))
    run_log.injected = [each for each in run_log.injected if each.kind is not Kind.TAKEOVER]

    assert sorted(judge(run_log, draw_fault_plan(1, 10, AMOUNT))[short]) == [
        "kill -9 (gatherer): 49 of 50 struck",
        "second synthesizer on a copied folder while the first is stopped (synthesizer): 0 of 4 struck",
    ]


def test_the_people_of_a_study_send_as_many_reports_as_asked_for() -> None:
    study = ChaosStudy(seed=1, reports=1234, horizon=5)
    assert sum(symbol is not None for person_history in study.histories for symbol in person_history) == 1234
    assert len(set(study.people)) == len(study.people) == len(study.histories)
