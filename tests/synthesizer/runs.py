"""A short study for a synthesizer to run, with tallies to be had, and ways to run it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from streamproc.synthesizer.checkpoint import read_checkpoint
from tests.stream_model.fault_points import Crash, DoomedConnection, Moment, WatchedDisk
from tests.stream_model.memory_folder import MemoryDisk
from tests.stream_model.simulated_study import FreshEntropy, StudyWorld, at_random
from tests.studies import build_study

STUDY = build_study(rho=50.0)
HISTORIES = at_random(STUDY, people=20)


async def begun() -> StudyWorld:
    return await StudyWorld(STUDY).begin()


async def fed(world: StudyWorld, work: Coroutine[Any, Any, None]) -> None:
    """Do it, while tallies can be had as soon as the study has begun."""
    feeder = asyncio.create_task(world.feed(HISTORIES))
    try:
        await work
        await feeder
    finally:
        feeder.cancel()


async def doomed(world: StudyWorld, fatal: Callable[[int, Moment], bool], *, life: int = 0) -> list[Moment]:
    """Synthesize until a fatal moment, or to the end; no two lives draw alike. Answers with the moments passed."""
    log = DoomedConnection(world.broker, fatal)
    disk = WatchedDisk(world.disk, log.moments)
    with suppress(Crash):
        await world.synthesizer(log=log, disk=disk, entropy=FreshEntropy(1000 * life)).run()
    return log.moments.passed


@dataclass
class Past:
    """A study after two of three periods, and its disk as it was after each I/O of the way there."""

    world: StudyWorld
    disks: dict[str, MemoryDisk]

    @property
    def disk(self) -> MemoryDisk:
        return self.world.disk


async def two_periods() -> Past:
    world = await begun()
    disks: dict[str, MemoryDisk] = {}

    async def live() -> None:
        for period in (1, 2):
            for moment in ("after disk.write synthesizer.state", "after disk.write synthesizer.settled"):
                await doomed(world, lambda number, reached, last=moment: str(reached) == last)  # type: ignore[misc]
                kept = read_checkpoint(world.disk, world.fingerprint)
                assert kept is not None and kept.synthesis.period == period
                disks[f"{moment.split('.')[-1]} {period}"] = world.disk.copy()

    await fed(world, live())
    assert world.ledger().period == 2
    return Past(world, disks)
