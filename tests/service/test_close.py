"""A steward closes each period once and in order, and a waiting command shows what it waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from streamproc.cli.formatting import show_stages
from streamproc.client.reporter import Reporter
from streamproc.errors import InvalidInput, LogUnavailable, NotAllowed, OffsetLost, Refused
from streamproc.log.control_topic import append_cut
from streamproc.log.port import Log, Offset
from streamproc.offline import tallies_of
from streamproc.privacy.types import Period
from streamproc.protocol.tallies import Tally
from streamproc.protocol.topics import Topics
from streamproc.service.close import (
    Awaited,
    ClosedPeriods,
    CloseOutcome,
    Stage,
    close_period_now,
    read_closed_periods,
    until_released,
)
from streamproc.service.deployment import Deployment
from streamproc.study import Schedule, Study
from streamproc.testing import BEGINNING, Faults, in_virtual_time
from tests.stream_model.simulated_study import SimulatedStudy
from tests.studies import build_open_study
from tests.synthesizer.study_runs import HISTORIES, STUDY, begin_study, run_with_tallies


@dataclass(frozen=True)
class Steward(Deployment):
    """The deployment of a steward, on a simulated study."""

    simulated: SimulatedStudy = field(kw_only=True)

    def connect(self) -> Log:
        return self.simulated.connection("steward")


def steward_of(simulated: SimulatedStudy) -> Steward:
    return Steward(STUDY, STUDY.broker, Path("/"), Path("/state"), None, timeout=10.0, simulated=simulated)


def in_a_study(scenario: Callable[[SimulatedStudy, Steward], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        simulated = await begin_study()
        await scenario(simulated, steward_of(simulated))

    in_virtual_time(run())


async def report(simulated: SimulatedStudy, period: int = 1) -> None:
    await Reporter(simulated.log, STUDY).report("somebody", period, STUDY.alphabet[0])


def test_a_first_period_nobody_reported_to_is_not_closed() -> None:
    async def scenario(simulated: SimulatedStudy, steward: Steward) -> None:
        before = simulated.snapshot()
        with pytest.raises(Refused, match="without people; send first"):
            await close_period_now(steward, Period(1))
        assert simulated.snapshot() == before
        await report(simulated)
        assert await close_period_now(steward, Period(1)) is CloseOutcome.REPORTED

    in_a_study(scenario)


def test_a_period_is_closed_once_and_in_its_turn() -> None:
    async def scenario(simulated: SimulatedStudy, steward: Steward) -> None:
        await report(simulated)
        assert await close_period_now(steward, Period(1)) is CloseOutcome.REPORTED
        before = simulated.snapshot()
        assert await close_period_now(steward, Period(1)) is CloseOutcome.ALREADY
        with pytest.raises(InvalidInput, match="^period 3: period 2 must be closed first"):
            await close_period_now(steward, Period(3))
        assert simulated.snapshot() == before
        assert (await read_closed_periods(steward, simulated.log)).last == 1

    in_a_study(scenario)


@pytest.mark.parametrize("partition", range(STUDY.broker.partitions))
def test_closing_a_later_period_says_whether_any_partition_has_new_reports(partition: int) -> None:
    async def scenario(simulated: SimulatedStudy, steward: Steward) -> None:
        await report(simulated, period=1)
        await report(simulated, period=2)  # sent ahead: it belongs to period 2, but came before
        assert await close_period_now(steward, Period(1)) is CloseOutcome.REPORTED
        assert await close_period_now(steward, Period(2)) is CloseOutcome.SILENT
        await simulated.log.append(Topics(STUDY.name).reports, partition, b"whatever it is")
        assert await close_period_now(steward, Period(3)) is CloseOutcome.REPORTED

    in_a_study(scenario)


class ControlDenied(Faults):
    async def before(self, connection: str, call: str, topic: str | None) -> None:
        if topic is not None and topic.endswith(".control"):
            raise NotAllowed("not for a reporter")


def test_who_may_not_read_the_cuts_takes_every_period_for_open() -> None:
    async def scenario(simulated: SimulatedStudy, steward: Steward) -> None:
        await report(simulated)
        await close_period_now(steward, Period(1))
        assert (await read_closed_periods(steward, simulated.connection("reporter", ControlDenied()))).last == 0

    in_a_study(scenario)


OPEN = build_open_study(horizon=None)


def in_an_open_study(scenario: Callable[[SimulatedStudy, Steward], Coroutine[Any, Any, None]], study: Study = OPEN) -> None:
    async def run() -> None:
        simulated = await SimulatedStudy(study).begin()
        await scenario(simulated, replace(steward_of(simulated), study=study))

    in_virtual_time(run())


def test_a_study_that_is_not_open_cannot_be_ended_early() -> None:
    async def scenario(simulated: SimulatedStudy, steward: Steward) -> None:
        await report(simulated)
        before = simulated.snapshot()
        with pytest.raises(InvalidInput, match="^study study: it is not open, so it ends with period 3, its horizon; only"):
            await close_period_now(steward, Period(1), last=True)
        assert simulated.snapshot() == before

    in_a_study(scenario)


def test_a_first_period_of_an_open_study_is_closed_though_nobody_has_reported() -> None:
    async def scenario(simulated: SimulatedStudy, steward: Steward) -> None:
        assert await close_period_now(steward, Period(1)) is CloseOutcome.REPORTED
        assert await close_period_now(steward, Period(2)) is CloseOutcome.SILENT

    in_an_open_study(scenario)


@pytest.mark.parametrize("horizon", [None, 10])
def test_nothing_is_closed_after_the_last_period_of_an_open_study(horizon: int | None) -> None:
    async def scenario(simulated: SimulatedStudy, steward: Steward) -> None:
        await close_period_now(steward, Period(1))
        assert not (await read_closed_periods(steward, simulated.log)).is_over
        assert await close_period_now(steward, Period(2), last=True) is CloseOutcome.SILENT
        before = simulated.snapshot()
        assert await read_closed_periods(steward, simulated.log) == ClosedPeriods(Period(2), is_over=True)
        assert await close_period_now(steward, Period(1)) is CloseOutcome.ALREADY
        assert await close_period_now(steward, Period(2)) is CloseOutcome.ALREADY
        assert await close_period_now(steward, Period(2), last=True) is CloseOutcome.ALREADY
        for period, last in ((3, False), (3, True), (1, True)):
            with pytest.raises(InvalidInput, match=f"^period {period}: the study ended with period 2$"):
                await close_period_now(steward, Period(period), last=last)
        assert simulated.snapshot() == before

    in_an_open_study(scenario, replace(OPEN, horizon=horizon))


def test_the_horizon_of_an_open_study_is_its_last_period() -> None:
    async def scenario(simulated: SimulatedStudy, steward: Steward) -> None:
        for period in (1, 2):
            await close_period_now(steward, Period(period))
        assert await close_period_now(steward, Period(2), last=True) is CloseOutcome.ALREADY
        with pytest.raises(InvalidInput, match="^period 3: the study ended with period 2$"):
            await close_period_now(steward, Period(3))

    in_an_open_study(scenario, replace(OPEN, horizon=2))


def test_a_closed_period_does_not_become_the_last_one() -> None:
    async def scenario(simulated: SimulatedStudy, steward: Steward) -> None:
        await close_period_now(steward, Period(1))
        with pytest.raises(InvalidInput, match="not as the last period; the study can end with period 2 at the earliest$"):
            await close_period_now(steward, Period(1), last=True)

    in_an_open_study(scenario)


class ClosesFirst(Faults):
    """Another process closes period 1 just before the steward's cut."""

    def __init__(self, simulated: SimulatedStudy, *, last: bool) -> None:
        self._simulated, self._last = simulated, last

    async def before(self, connection: str, call: str, topic: str | None) -> None:
        if call == "append" and not self._simulated.cuts():
            await append_cut(self._simulated.log, OPEN, Period(1), last=self._last)


@pytest.mark.parametrize("last", [False, True])
def test_a_steward_who_comes_second_with_a_last_cut_is_told_so(last: bool) -> None:
    async def scenario(simulated: SimulatedStudy, steward: Steward) -> None:
        second = replace(faulty(steward, ClosesFirst(simulated, last=last)), study=OPEN)
        if last:
            await close_period_now(second, Period(1), last=True)
        else:
            with pytest.raises(InvalidInput, match="^period 1: is closed already, but not as the last period"):
                await close_period_now(second, Period(1), last=True)

    in_an_open_study(scenario)


async def stages_of(steward: Steward, meanwhile: Coroutine[Any, Any, None]) -> list[str]:
    """What somebody who waits for period 1 is shown, each stage once, while this happens."""
    shown: list[str] = []

    def show(stage: Stage) -> None:
        if shown[-1:] != [str(stage)]:
            shown.append(str(stage))

    waiting = asyncio.create_task(until_released(steward, Period(1), show=show))
    await meanwhile
    await asyncio.wait_for(waiting, timeout=60)
    return shown


async def send_tally(simulated: SimulatedStudy, partition: int) -> None:
    """Of period 1."""
    part = HISTORIES[partition :: STUDY.broker.partitions]
    await simulated.send_tally(Tally(partition, Period(1), len(part), tallies_of(STUDY, part)[0]))


@dataclass
class SlowCommits(Faults):
    async def before(self, connection: str, call: str, topic: str | None) -> None:
        if call == "commit":
            await asyncio.sleep(10)


def test_a_wait_for_a_release_shows_each_stage_of_it() -> None:
    async def scenario(simulated: SimulatedStudy, steward: Steward) -> None:
        async def meanwhile() -> None:
            await asyncio.sleep(5)
            log = simulated.connection("synthesizer", SlowCommits())
            synthesizing = asyncio.create_task(simulated.synthesizer(log=log).run())
            await asyncio.sleep(20)
            for partition in (1, 0):
                await send_tally(simulated, partition)
                await asyncio.sleep(5)
            while simulated.ledger().period < 1:
                await asyncio.sleep(1)
            synthesizing.cancel()

        assert await stages_of(steward, meanwhile()) == [
            "waiting for a synthesizer to begin the study",
            "waiting for gatherers to tally period 1 of partitions 0, 1",
            "waiting for gatherers to tally period 1 of partition 0",
            "every partition is tallied; waiting for the synthesizer to release period 1",
        ]

    in_a_study(scenario)


def test_a_release_that_comes_soon_is_waited_for_without_a_word() -> None:
    async def scenario(simulated: SimulatedStudy, steward: Steward) -> None:
        assert await stages_of(steward, run_with_tallies(simulated, simulated.synthesizer().run())) == []

    in_a_study(scenario)


def test_a_wait_for_the_release_time_shows_that_time() -> None:
    schedule = Schedule(BEGINNING, timedelta(minutes=1), release_after=timedelta(hours=2))

    async def scenario() -> None:
        simulated = await SimulatedStudy(replace(STUDY, schedule=schedule)).begin()
        steward = replace(steward_of(simulated), study=simulated.study, clock=simulated.clock, timeout=3 * 60 * 60)

        async def meanwhile() -> None:
            synthesizing = asyncio.create_task(
                simulated.synthesizer(log=simulated.connection("synthesizer", SlowCommits())).run()
            )
            for partition in (0, 1):
                await asyncio.sleep(30)
                await send_tally(simulated, partition)
            await asyncio.sleep(2 * 60 * 60 + 60)
            synthesizing.cancel()

        assert await stages_of(steward, meanwhile()) == [
            "waiting for a synthesizer to begin the study",
            "waiting for gatherers to tally period 1 of partitions 0, 1",
            "waiting for gatherers to tally period 1 of partition 1",
            "every partition is tallied; waiting for the release time of period 1, 2026-01-01 02:01:00 UTC",
            "every partition is tallied; waiting for the synthesizer to release period 1",
        ]

    in_virtual_time(scenario())


@dataclass(frozen=True)
class Faulty(Steward):
    """The same over a connection with faults."""

    faults: Faults = field(kw_only=True)

    def connect(self) -> Log:
        return self.simulated.connection("steward", self.faults)


def faulty(steward: Steward, faults: Faults) -> Faulty:
    return Faulty(
        STUDY, STUDY.broker, Path("/"), Path("/state"), None, timeout=10.0, simulated=steward.simulated, faults=faults
    )


class TalliesDenied(Faults):
    """A steward may know where the topic begins and ends, but not what it holds."""

    async def before(self, connection: str, call: str, topic: str | None) -> None:
        if topic is not None and topic.endswith(".tallies") and call == "read":
            raise NotAllowed("not for a steward")


def test_a_steward_without_the_right_to_read_tallies_sees_no_partition() -> None:
    async def scenario(simulated: SimulatedStudy, steward: Steward) -> None:
        async def meanwhile() -> None:
            synthesizing = asyncio.create_task(simulated.synthesizer().run())
            for partition in (0, 1):
                await asyncio.sleep(10)
                await send_tally(simulated, partition)
            await asyncio.sleep(10)
            synthesizing.cancel()

        assert await stages_of(faulty(steward, TalliesDenied()), meanwhile()) == [
            "waiting for gatherers to tally period 1 of partitions 0, 1",
            "waiting for the gatherers and the synthesizer to release period 1",
        ]

    in_a_study(scenario)


class TalliesLost(Faults):
    """The topic is created again while a steward reads it."""

    async def before(self, connection: str, call: str, topic: str | None) -> None:
        if topic is not None and topic.endswith(".tallies") and call == "read":
            raise OffsetLost(topic, 0, Offset(1), Offset(0), Offset(0))


def test_tallies_that_are_lost_do_not_end_a_wait_for_a_release() -> None:
    async def scenario(simulated: SimulatedStudy, steward: Steward) -> None:
        async def meanwhile() -> None:
            synthesizing = asyncio.create_task(simulated.synthesizer().run())
            for partition in (0, 1):
                await asyncio.sleep(10)
                await send_tally(simulated, partition)
            await asyncio.sleep(10)
            synthesizing.cancel()

        assert await stages_of(faulty(steward, TalliesLost()), meanwhile()) == [
            "waiting for gatherers to tally period 1 of partitions 0, 1",
            "waiting for the gatherers and the synthesizer to release period 1",
        ]

    in_a_study(scenario)


def test_a_steward_without_the_right_to_read_tallies_sees_the_release_time() -> None:
    stage = Stage(Awaited.RELEASE, Period(3), until=datetime(2026, 4, 2, 12, tzinfo=UTC))

    assert str(stage) == (
        "waiting for the gatherers and the synthesizer to release period 3, not before 2026-04-02 12:00:00 UTC"
    )


@dataclass
class Away(Faults):
    """The broker does not answer from one time of the event loop to another."""

    first: float
    last: float

    async def before(self, connection: str, call: str, topic: str | None) -> None:
        if self.first <= asyncio.get_running_loop().time() < self.last:
            raise LogUnavailable("nobody is there")


def test_a_broker_that_is_away_for_a_while_is_shown_and_waited_for() -> None:
    async def scenario(simulated: SimulatedStudy, steward: Steward) -> None:
        async def meanwhile() -> None:
            await asyncio.sleep(20)
            await run_with_tallies(simulated, simulated.synthesizer().run())

        now = asyncio.get_running_loop().time()
        beginning = "waiting for a synthesizer to begin the study"
        shown = await stages_of(faulty(steward, Away(now + 5, now + 10)), meanwhile())
        assert shown == [beginning, "waiting for the broker, which does not answer", beginning]

    in_a_study(scenario)


def test_many_missing_partitions_are_not_all_named() -> None:
    stage = Stage(Awaited.TALLIES, Period(3), range(100))

    assert str(stage) == "waiting for gatherers to tally period 3 of partitions 0, 1, 2, 3, 4, 5, 6, 7 and 92 more"


def test_lines_about_one_stage_are_paced(capsys: pytest.CaptureFixture[str]) -> None:
    async def scenario() -> None:
        with show_stages(3) as show:
            for missing in range(25, 0, -1):
                show(Stage(Awaited.TALLIES, Period(3), [missing]))
                await asyncio.sleep(1)
            show(Stage(Awaited.SYNTHESIZER, Period(3)))
            show(Stage(Awaited.SYNTHESIZER, Period(3)))

    in_virtual_time(scenario())
    *paced, last = capsys.readouterr().err.splitlines()
    assert [line.rpartition(" of ")[2] for line in paced] == ["partition 25", "partition 15", "partition 5"]
    assert last == "period 3 is closed; every partition is tallied; waiting for the synthesizer to release period 3"
