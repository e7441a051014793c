"""A synthesizing process that has released the last period shows it, however slowly its follower reads the ledger."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

from streamproc.ports.simulated import Faults
from streamproc.service.roles import Health, synthesize
from tests.actor.runs import STUDY, begun, fed
from tests.service.test_gather import deployment_in
from tests.world.virtual_time import in_virtual_time


@dataclass
class SlowLedger(Faults):
    topic: str

    async def before(self, connection: str, call: str, topic: str | None) -> None:
        if call == "read" and topic == self.topic:
            await asyncio.sleep(5.0)


def test_the_last_period_is_shown_before_the_role_ends(tmp_path: Path) -> None:
    async def story() -> None:
        world = await begun()
        deployment = deployment_in(tmp_path, world.clock)
        health = Health(deployment)
        log = world.connection("synthesizer", SlowLedger(world.topics.ledger))
        await fed(world, synthesize(deployment, log, health, catch_up=False))
        assert world.ledger().period == STUDY.horizon
        assert health.public.registry.get_sample_value("streamproc_periods_released") == STUDY.horizon

    in_virtual_time(story())
