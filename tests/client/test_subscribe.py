"""A subscriber survives broker outages, receives every column once, and sees what it waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress

import pytest

from streamproc.client.subscribe import subscribe
from streamproc.errors import LogUnavailable
from streamproc.testing import Faults, in_virtual_time
from tests.stream_model.simulated_study import SimulatedStudy
from tests.synthesizer.study_runs import STUDY, begin_study, run_two_periods, run_with_tallies

ALL = [(release.name, period) for release in STUDY.releases for period in range(1, STUDY.last_period + 1)]


class Away(Faults):
    """After a number of questions the broker is away for some seconds."""

    def __init__(self, questions: int, seconds: float) -> None:
        self._questions, self._seconds = questions, seconds
        self.until: float | None = None

    async def before(self, connection: str, call: str, topic: str | None) -> None:
        now = asyncio.get_running_loop().time()
        self._questions -= 1
        if self._questions < 0 and self.until is None:
            self.until = now + self._seconds
        if self.until is not None and now < self.until:
            raise LogUnavailable("nobody is there")


async def followed(away: Away, timeout: float) -> list[tuple[str, int]]:
    simulated = await begin_study()
    columns = []

    async def follow() -> None:
        async for column in subscribe(simulated.connection("analyst", away), STUDY, timeout=timeout):
            columns.append((column.release, int(column.period)))

    await asyncio.gather(run_with_tallies(simulated, simulated.synthesizer().run()), follow())
    return columns


@pytest.mark.parametrize("questions", [0, 1, 4, 8, 12])
def test_a_broker_that_comes_back_in_time_costs_nothing(questions: int) -> None:
    away = Away(questions, seconds=8)
    columns = in_virtual_time(followed(away, timeout=10))
    assert away.until is not None
    assert sorted(columns) == sorted(ALL)


def test_a_broker_that_stays_away_is_an_error_after_the_time_allowed() -> None:
    with pytest.raises(LogUnavailable, match="nobody is there"):
        in_virtual_time(followed(Away(4, seconds=100), timeout=10))


async def waited_for(simulated: SimulatedStudy, release: str | None = None) -> list[Mapping[str, int]]:
    """What was said within a minute."""
    said: list[Mapping[str, int]] = []

    async def follow() -> None:
        async for _ in subscribe(simulated.log, STUDY, release, waits=said.append):
            assert not said

    with suppress(TimeoutError):
        await asyncio.wait_for(follow(), timeout=60)
    return said


def test_a_wait_is_reported_once_with_the_awaited_periods() -> None:
    async def scenario() -> None:
        assert await waited_for(await begin_study()) == [{"w": 1, "c": 1}]
        assert await waited_for((await run_two_periods()).simulated) == [{"w": 3, "c": 3}]
        assert await waited_for((await run_two_periods()).simulated, "c") == [{"c": 3}]

    in_virtual_time(scenario())


def test_nothing_is_awaited_of_a_study_that_is_over() -> None:
    async def scenario() -> None:
        simulated = await begin_study()
        await run_with_tallies(simulated, simulated.synthesizer().run())
        assert await waited_for(simulated) == []

    in_virtual_time(scenario())
