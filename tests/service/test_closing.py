"""A period is closed once, in its turn, by a steward's word; and whoever waits for it is told what it waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from streamproc.errors import InvalidInput, Refused
from streamproc.ports.log import Log, NotAllowed
from streamproc.ports.simulated import Faults
from streamproc.privacy.quantities import Period
from streamproc.service.closing import Closing, close_by_word, closed_so_far, until_released
from streamproc.service.deployment import Deployment
from streamproc.service.reporter import Reporter
from streamproc.wire.topics import Topics
from tests.actor.runs import STUDY, begun, fed
from tests.world.study_world import StudyWorld
from tests.world.virtual_time import in_virtual_time


@dataclass(frozen=True)
class Steward(Deployment):
    """The study as a steward has it, in a world."""

    world: StudyWorld = field(kw_only=True)

    def connect(self) -> Log:
        return self.world.connection("steward")


def steward_of(world: StudyWorld) -> Steward:
    return Steward(STUDY, STUDY.broker, Path("/"), Path("/state"), None, timeout=10.0, world=world)


def in_a_study(story: Callable[[StudyWorld, Steward], Coroutine[Any, Any, None]]) -> None:
    async def told() -> None:
        world = await begun()
        await story(world, steward_of(world))

    in_virtual_time(told())


async def report(world: StudyWorld, period: int = 1) -> None:
    await Reporter(world.log, STUDY).report("somebody", period, STUDY.alphabet[0])


def test_a_first_period_nobody_reported_to_is_not_closed() -> None:
    async def story(world: StudyWorld, steward: Steward) -> None:
        before = world.snapshot()
        with pytest.raises(Refused, match="without people; send first"):
            await close_by_word(steward, Period(1))
        assert world.snapshot() == before
        await report(world)
        assert await close_by_word(steward, Period(1)) is Closing.REPORTED

    in_a_study(story)


def test_a_period_is_closed_once_and_in_its_turn() -> None:
    async def story(world: StudyWorld, steward: Steward) -> None:
        await report(world)
        assert await close_by_word(steward, Period(1)) is Closing.REPORTED
        before = world.snapshot()
        assert await close_by_word(steward, Period(1)) is Closing.ALREADY
        with pytest.raises(InvalidInput, match="^period 3: period 2 must be closed first"):
            await close_by_word(steward, Period(3))
        assert world.snapshot() == before
        assert await closed_so_far(steward, world.log) == 1

    in_a_study(story)


@pytest.mark.parametrize("partition", range(STUDY.broker.partitions))
def test_who_closes_a_later_period_is_told_whether_anything_came_to_any_partition_since(partition: int) -> None:
    async def story(world: StudyWorld, steward: Steward) -> None:
        await report(world, period=1)
        await report(world, period=2)  # sent ahead: it belongs to period 2, but came before
        assert await close_by_word(steward, Period(1)) is Closing.REPORTED
        assert await close_by_word(steward, Period(2)) is Closing.SILENT
        await world.log.append(Topics(STUDY.name).reports, partition, b"whatever it is")
        assert await close_by_word(steward, Period(3)) is Closing.REPORTED

    in_a_study(story)


class ControlDenied(Faults):
    async def before(self, connection: str, call: str, topic: str | None) -> None:
        if topic is not None and topic.endswith(".control"):
            raise NotAllowed("not for a reporter")


def test_who_may_not_read_the_cuts_takes_every_period_for_open() -> None:
    async def story(world: StudyWorld, steward: Steward) -> None:
        await report(world)
        await close_by_word(steward, Period(1))
        assert await closed_so_far(steward, world.connection("reporter", ControlDenied())) == 0

    in_a_study(story)


def test_a_release_that_is_late_is_said_once_and_still_waited_for() -> None:
    said: list[float] = []

    async def story(world: StudyWorld, steward: Steward) -> None:
        now = asyncio.get_running_loop().time
        waiting = asyncio.create_task(until_released(steward, Period(1), late=lambda: said.append(now())))
        await asyncio.sleep(60)
        assert not waiting.done()
        await fed(world, world.synthesizer().run())
        await asyncio.wait_for(waiting, timeout=10)

    in_a_study(story)
    assert len(said) == 1
    assert 10 < said[0] < 12
