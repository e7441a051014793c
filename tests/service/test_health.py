"""What a process shows of itself is true now, not of a past that it reads again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from streamproc.ports.log import LogUnavailable, Offset, Record
from streamproc.ports.simulated import Faults, SimulatedLog
from streamproc.ports.simulated.parts import SimulatedReader
from streamproc.service.deployment import Deployment
from streamproc.service.roles import Health, gather
from streamproc.wire.chain import VerifiedLedger
from tests.actor.runs import two_periods
from tests.service.test_gather import deployment_in
from tests.world.virtual_time import in_virtual_time


@dataclass
class Away(Faults):
    """Nobody reads the ledger while it is away."""

    topic: str
    away: bool = False

    async def before(self, connection: str, call: str, topic: str | None) -> None:
        if self.away and call == "read" and topic == self.topic:
            raise LogUnavailable("nobody is there")


class SmallFetch(SimulatedReader):
    async def read(self, *, max_records: int = 10_000, timeout: float = 0.5) -> Sequence[Record]:
        return await super().read(max_records=1, timeout=timeout)


class SmallFetches(SimulatedLog):
    """A log that answers with one record at a time, as one does with records that are too large for more."""

    async def reader(self, topic: str, partition: int, offset: Offset, *, committed: bool = True) -> SimulatedReader:
        opened = self.broker.partition(topic, partition)
        return SmallFetch(self, topic, partition, opened, offset, committed=committed)


class Witness(Health):
    def __init__(self, deployment: Deployment) -> None:
        self.released_so_far: list[float | None] = []
        super().__init__(deployment)

    def recorded(self, ledger: VerifiedLedger | None) -> None:
        super().recorded(ledger)
        self.released_so_far.append(self.public.registry.get_sample_value("streamproc_periods_released"))


def test_what_is_shown_does_not_go_back_while_the_ledger_is_read_again(tmp_path: Path) -> None:
    async def story() -> None:
        world = (await two_periods()).world
        deployment, fault = deployment_in(tmp_path, world.clock), Away(world.topics.ledger)
        health, log = Witness(deployment), SmallFetches(world.broker, fault)
        gathering = asyncio.create_task(gather(deployment, log, health))
        for away in (False, True, False):
            fault.away = away
            await asyncio.sleep(60.0)
        gathering.cancel()
        assert health.released_so_far == [0, 2, 2]

    in_virtual_time(story())
