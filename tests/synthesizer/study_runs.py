"""A short study for a synthesizer to run, with tallies to be had, and ways to run it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from streamproc.synthesizer.checkpoint import read_checkpoint
from tests.stream_model.fault_points import Crash, CrashingConnection, FaultPoint, FaultPointStateFolder
from tests.stream_model.memory_folder import MemoryStateFolder
from tests.stream_model.simulated_study import FreshEntropy, SimulatedStudy, random_histories
from tests.studies import build_study

STUDY = build_study(rho=50.0)
HISTORIES = random_histories(STUDY, people=20)


async def begin_study() -> SimulatedStudy:
    return await SimulatedStudy(STUDY).begin()


async def run_with_tallies(simulated: SimulatedStudy, work: Coroutine[Any, Any, None]) -> None:
    """Do it, while tallies can be had as soon as the study has begun."""
    feeder = asyncio.create_task(simulated.feed(HISTORIES))
    try:
        await work
        await feeder
    finally:
        feeder.cancel()


async def run_until_crash(
    simulated: SimulatedStudy, fatal: Callable[[int, FaultPoint], bool], *, run_number: int = 0
) -> list[FaultPoint]:
    """Run a synthesizer until a fatal fault point or to the end, with its own noise. Returns the fault points passed."""
    log = CrashingConnection(simulated.broker, fatal)
    state_folder = FaultPointStateFolder(simulated.state_folder, log.fault_points)
    with suppress(Crash):
        await simulated.synthesizer(log=log, state_folder=state_folder, entropy=FreshEntropy(1000 * run_number)).run()
    return log.fault_points.passed


@dataclass
class PartialRun:
    """A study after two of three periods, and its disk as it was after each I/O of the way there."""

    simulated: SimulatedStudy
    state_folders: dict[str, MemoryStateFolder]

    @property
    def state_folder(self) -> MemoryStateFolder:
        return self.simulated.state_folder


async def run_two_periods() -> PartialRun:
    simulated = await begin_study()
    state_folders: dict[str, MemoryStateFolder] = {}

    async def run_periods() -> None:
        for period in (1, 2):
            for point in ("after folder.write synthesizer.state", "after folder.write synthesizer.settled"):
                await run_until_crash(simulated, lambda number, reached, last=point: str(reached) == last)  # type: ignore[misc]
                kept = read_checkpoint(simulated.state_folder, simulated.fingerprint)
                assert kept is not None and kept.synthesis.period == period
                state_folders[f"{point.split('.')[-1]} {period}"] = simulated.state_folder.copy()

    await run_with_tallies(simulated, run_periods())
    assert simulated.ledger().period == 2
    return PartialRun(simulated, state_folders)
