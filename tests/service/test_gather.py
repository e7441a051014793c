"""A gathering process whose broker goes away as it leaves its group ends as it would have ended."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from streamproc.errors import Refused
from streamproc.ports.clock import Clock
from streamproc.ports.log import LogUnavailable
from streamproc.ports.simulated import Faults
from streamproc.service.deployment import Deployment
from streamproc.service.roles import Health, gather
from tests.actor.runs import STUDY, begun, fed, two_periods
from tests.world.virtual_time import in_virtual_time


@dataclass
class AwayAtTheEnd(Faults):
    left: list[str] = field(default_factory=list)

    async def before(self, connection: str, call: str, topic: str | None) -> None:
        if call == "leave":
            self.left.append(connection)
            raise LogUnavailable("nobody is there")


def deployment_in(folder: Path, clock: Clock) -> Deployment:
    return Deployment(STUDY, STUDY.broker, folder, folder / "state", None, clock=clock)


def test_a_refusal_is_not_hidden_by_a_group_that_cannot_be_left(tmp_path: Path) -> None:
    async def story() -> None:
        world, away = (await two_periods()).world, AwayAtTheEnd()
        deployment = deployment_in(tmp_path, world.clock)
        deployment.disk().write("gather-0.state", b"no checkpoint")
        with pytest.RaisesGroup(Refused, flatten_subgroups=True):
            await gather(deployment, world.connection("gatherer", away), Health(deployment))
        assert away.left == ["gatherer"]

    in_virtual_time(story())


def test_a_study_that_is_over_ends_well_though_the_group_cannot_be_left(tmp_path: Path) -> None:
    async def story() -> None:
        world, away = await begun(), AwayAtTheEnd()
        deployment = deployment_in(tmp_path, world.clock)
        gathering = gather(deployment, world.connection("gatherer", away), Health(deployment))
        await asyncio.gather(gathering, fed(world, world.synthesizer().run()))
        assert away.left == ["gatherer"]

    in_virtual_time(story())
