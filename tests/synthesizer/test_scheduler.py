"""Cuts by the clock: in time, once, never more than was asked for."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from datetime import timedelta

import pytest

from streamproc.errors import PeriodsOverdue, Refused
from streamproc.log.control_topic import append_cut
from streamproc.privacy.types import Period
from streamproc.study import Schedule
from streamproc.study.releases import MAX_PERIOD
from streamproc.synthesizer.scheduler import Scheduler
from streamproc.testing import BEGINNING, Faults, in_virtual_time
from tests.stream_model.simulated_study import SimulatedStudy
from tests.studies import build_open_study
from tests.synthesizer.study_runs import STUDY

HOURLY = Schedule(start=BEGINNING, every=timedelta(hours=1), grace=timedelta(minutes=5))


async def scheduled(schedule: Schedule = HOURLY, *, reports: int = 1) -> SimulatedStudy:
    simulated = await SimulatedStudy(replace(STUDY, schedule=schedule)).begin()
    for _ in range(reports):
        await simulated.log.append(simulated.topics.reports, 1, b"a report")
    return simulated


def scheduler(simulated: SimulatedStudy, *, catch_up: bool = False) -> Scheduler:
    assert simulated.study.schedule is not None
    return Scheduler(simulated.study, simulated.study.schedule, simulated.log, simulated.clock, catch_up=catch_up)


def closed(simulated: SimulatedStudy) -> list[int]:
    return [int(cut.period) for cut in simulated.cuts()]


def test_each_period_is_closed_when_its_end_and_grace_have_passed_and_not_before() -> None:
    async def run() -> None:
        simulated = await scheduled()
        running = asyncio.create_task(scheduler(simulated).run())
        await simulated.clock.sleep(3600 + 299)
        assert closed(simulated) == []
        await simulated.clock.sleep(2)
        assert closed(simulated) == [1]
        await simulated.clock.sleep(3600)
        assert closed(simulated) == [1, 2]
        await running
        assert closed(simulated) == [1, 2, 3]
        assert timedelta(hours=3, minutes=5) <= simulated.clock.now() - BEGINNING <= timedelta(hours=3, minutes=6)

    in_virtual_time(run())


def test_a_cut_says_where_the_partitions_end() -> None:
    async def run() -> None:
        simulated = await scheduled(reports=7)
        await scheduler(simulated).run()
        assert [cut.ends for cut in simulated.cuts()] == [(0, 7)] * 3

    in_virtual_time(run())


def test_a_period_that_the_steward_closed_is_not_closed_again() -> None:
    async def run() -> None:
        simulated = await scheduled()
        running = asyncio.create_task(scheduler(simulated).run())
        await simulated.clock.sleep(10)
        await simulated.close_period(1)
        await running
        assert closed(simulated) == [1, 2, 3]

    in_virtual_time(run())


def test_a_new_study_whose_first_cut_is_overdue_is_refused() -> None:
    async def run() -> None:
        simulated = await scheduled(replace(HOURLY, start=BEGINNING - timedelta(hours=2)))
        with pytest.raises(Refused, match="period 1 ended at 2025-12-31 23:05:00 UTC, before the study began.*--catch-up"):
            await scheduler(simulated).run()
        assert closed(simulated) == []

    in_virtual_time(run())


@pytest.mark.parametrize("catch_up", [False, True])
def test_a_first_period_that_nobody_reported_to_is_closed_once_somebody_has(catch_up: bool) -> None:
    async def run() -> None:
        simulated = await scheduled(reports=0)
        with pytest.raises(Refused, match="holds no report, so closing period 1 would leave the study without people"):
            await scheduler(simulated, catch_up=catch_up).run()
        with pytest.raises(Refused, match="holds no report"):
            await scheduler(simulated, catch_up=True).check()
        assert closed(simulated) == []

        await simulated.log.append(simulated.topics.ledger, 0, b"the study has begun")
        await simulated.log.append(simulated.topics.reports, 0, b"a report")
        running = asyncio.create_task(scheduler(simulated).run())
        await simulated.clock.sleep(1)
        assert closed(simulated) == [1]
        running.cancel()

    in_virtual_time(run())


def test_a_first_cut_that_failed_is_made_up_for_when_the_schedule_is_run_again() -> None:
    async def run() -> None:
        simulated = await scheduled()
        same = scheduler(simulated)
        failed = asyncio.create_task(same.run())
        await simulated.clock.sleep(3600)
        failed.cancel()
        simulated.clock.jump(timedelta(minutes=6))
        running = asyncio.create_task(same.run())
        await simulated.clock.sleep(1)
        assert closed(simulated) == [1]
        running.cancel()

    in_virtual_time(run())


def test_a_cut_that_cannot_count_is_appended_once() -> None:
    async def run() -> None:
        simulated = await scheduled()
        reports = simulated.topics.reports
        await simulated.close_period(1)
        settings = await simulated.log.settings_of(reports)
        await simulated.log.delete_topic(reports)
        await simulated.log.create_topic(reports, settings)
        before = len(simulated.committed(simulated.topics.control))
        with pytest.raises(Refused, match="period 2: its cut does not count"):
            await scheduler(simulated).run()
        assert len(simulated.committed(simulated.topics.control)) == before + 1

    in_virtual_time(run())


def test_more_than_one_missed_cut_is_refused_without_being_asked_for() -> None:
    async def run() -> None:
        simulated = await scheduled()
        await simulated.close_period(1)
        simulated.clock.jump(timedelta(hours=3, minutes=6))
        with pytest.raises(Refused, match=r"periods 2\.\.3 ended and nobody closed them.*--catch-up"):
            await scheduler(simulated).run()
        assert closed(simulated) == [1]
        await scheduler(simulated, catch_up=True).run()
        assert closed(simulated) == [1, 2, 3]

    in_virtual_time(run())


def test_one_missed_cut_is_made_up_for() -> None:
    async def run() -> None:
        simulated = await scheduled()
        await simulated.close_period(1)
        simulated.clock.jump(timedelta(hours=2, minutes=6))
        running = asyncio.create_task(scheduler(simulated).run())
        await simulated.clock.sleep(1)
        assert closed(simulated) == [1, 2]
        running.cancel()

    in_virtual_time(run())


def test_clock_set_back_closes_nothing_and_clock_set_forward_is_noticed_within_a_minute() -> None:
    async def run() -> None:
        simulated = await scheduled()
        running = asyncio.create_task(scheduler(simulated).run())
        await simulated.clock.sleep(60)
        simulated.clock.jump(-timedelta(minutes=30))
        await simulated.clock.sleep(3600 + 300)
        assert closed(simulated) == []
        simulated.clock.jump(timedelta(minutes=30))
        await simulated.clock.sleep(60)
        assert closed(simulated) == [1]
        running.cancel()

    in_virtual_time(run())


def test_a_finished_study_is_left_alone() -> None:
    async def run() -> None:
        simulated = await scheduled()
        for period in (1, 2, 3):
            await simulated.close_period(period)
        await scheduler(simulated).run()
        assert closed(simulated) == [1, 2, 3]

    in_virtual_time(run())


def test_leave_to_catch_up_ends_when_what_was_missed_is_closed() -> None:
    async def run() -> None:
        simulated = await scheduled(replace(HOURLY, start=BEGINNING - timedelta(hours=1, minutes=30)))
        running = asyncio.create_task(scheduler(simulated, catch_up=True).run())
        await simulated.clock.sleep(10)
        assert closed(simulated) == [1]
        simulated.clock.jump(timedelta(days=365))
        with pytest.raises(Refused, match=r"periods 2\.\.3 ended and nobody closed them"):
            await running
        assert closed(simulated) == [1]

    in_virtual_time(run())


OPEN = build_open_study(horizon=None)


async def open_scheduled(schedule: Schedule = HOURLY) -> SimulatedStudy:
    return await SimulatedStudy(replace(OPEN, schedule=schedule)).begin()


def test_the_schedule_of_a_study_without_a_horizon_ends_with_the_period_that_the_steward_closes_as_the_last() -> None:
    async def run() -> None:
        simulated = await open_scheduled()
        running = asyncio.create_task(scheduler(simulated).run())
        await simulated.clock.sleep(3 * 3600 + 400)
        assert closed(simulated) == [1, 2, 3]
        await append_cut(simulated.log, simulated.study, Period(4), last=True)
        await running
        assert closed(simulated) == [1, 2, 3, 4]
        await scheduler(simulated).check()
        await scheduler(simulated).run()
        assert closed(simulated) == [1, 2, 3, 4]

    in_virtual_time(run())


class EndsFirst(Faults):
    """A steward ends the study with the period that the schedule is about to close."""

    def __init__(self, simulated: SimulatedStudy) -> None:
        self._simulated = simulated

    async def before(self, connection: str, call: str, topic: str | None) -> None:
        if call == "append" and not self._simulated.cuts():
            await append_cut(self._simulated.log, self._simulated.study, Period(1), last=True)


def test_a_schedule_that_loses_against_the_steward_s_last_cut_ends() -> None:
    async def run() -> None:
        simulated = await open_scheduled()
        log = simulated.connection("schedule", EndsFirst(simulated))
        await Scheduler(simulated.study, HOURLY, log, simulated.clock, catch_up=False).run()
        assert next((cut.period, cut.last) for cut in simulated.cuts()) == (1, True)

    in_virtual_time(run())


def test_overdue_periods_are_counted_without_looking_at_each_of_a_million() -> None:
    async def run() -> None:
        simulated = await open_scheduled(Schedule(BEGINNING - timedelta(days=3650), timedelta(seconds=1)))
        await append_cut(simulated.log, simulated.study, Period(1))
        began = time.perf_counter()
        with pytest.raises(PeriodsOverdue) as overdue:
            await scheduler(simulated).check()
        assert (overdue.value.first, overdue.value.last) == (2, MAX_PERIOD)
        assert time.perf_counter() - began < 2.0

    in_virtual_time(run())


def test_a_first_period_of_an_open_study_is_closed_though_nobody_has_reported() -> None:
    async def run() -> None:
        simulated = await open_scheduled()
        running = asyncio.create_task(scheduler(simulated).run())
        await simulated.clock.sleep(3600 + 301)
        assert closed(simulated) == [1]
        running.cancel()

    in_virtual_time(run())
