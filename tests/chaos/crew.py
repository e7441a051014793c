"""Those that live on: gatherers kept alive under kills and stops, the broker, and who watches from outside."""

from __future__ import annotations

import asyncio
import json
import time
from functools import partial

from tests.broker.cluster import KafkaCluster
from tests.chaos.plan import BROKER, GATHERERS, Fault, Kind
from tests.chaos.processes import KILLED, Process
from tests.chaos.stage import AFTER_BROKER, STOP, Stage

PATIENCE_BROKER = 240.0
"""Seconds for a broker to come back on a busy machine."""
GIVE_UP = 5
"""Ends that should not be, after which a process is not started again."""


class Gatherer:
    """One gatherer, started again whenever it is killed. The third is not in the group: it doubles some partitions."""

    def __init__(self, stage: Stage, name: str) -> None:
        self._stage, self._name = stage, name
        self._process: Process | None = None

    async def keep(self) -> None:
        """Until the study is over."""
        stage, bad = self._stage, 0
        while bad < GIVE_UP:
            process = self._process = await self._start()
            code = await process.end()
            if process.killed:
                stage.journal.ended("gatherer", process.name, "kill -9", code, {KILLED})
                continue
            if code == 0:
                await stage.until(lambda: stage.over, f"the end of the study that {process.name} saw")
                stage.journal.ended("gatherer", process.name, "the end of the study", code, {0})
                return
            stage.journal.ended("gatherer", process.name, "nothing", code, {0})
            bad += 1
            await asyncio.sleep(1)
        stage.give_up(f"{self._name} does not live on")

    async def _start(self) -> Process:
        number = GATHERERS.index(self._name)
        pinned: list[object] = ["--partition", 0, "--partition", self._stage.study.partitions - 1] if number == 2 else []
        # One of the two in the group keeps its name when it comes back, as a process with a stable identity would.
        environ = {"STREAMPROC_KAFKA_INSTANCE": self._name} if number == 1 else {}
        state = ["--state", self._stage.folder / f"{self._name}.state"]
        return await self._stage.starter.start(
            self._name, "streamproc", "gather", self._stage.file, *state, *pinned, "--debug", environ=environ
        )

    async def suffer(self) -> None:
        """Its faults, one after the other."""
        faults = self._stage.plan.tracks[self._name]
        while faults and not self._stage.hopeless:
            await self._stage.until(lambda: self._stage.reporting >= faults[0].period, f"period {faults[0].period}")
            await self._stage.until(lambda: self._process is not None, self._name)
            period = await self._stage.moment(faults[0], lambda: self._running.began)
            if await harm(self._stage, self._running, "gatherer", faults[0], period):
                del faults[0]
            elif self._stage.over:
                return

    @property
    def _running(self) -> Process:
        assert self._process is not None
        return self._process


async def harm(stage: Stage, process: Process, role: str, fault: Fault, period: int | None = None) -> bool:
    """Kill or stop one process, before the release of a period if one was aimed at; whether it was there.

    If not, the next one is about to be started.
    """
    if not (process.kill() if fault.kind is Kind.KILL else process.freeze()):
        await asyncio.sleep(0.05)
        return False
    stage.journal.fault(role, fault, period)
    if fault.kind is Kind.KILL:
        await process.end()
        return True
    await asyncio.sleep(STOP)
    process.thaw()
    return True


async def trouble_broker(stage: Stage) -> None:
    """Kill the broker or restart it, and wait until it answers; of several another one each time, once all are in step."""
    faults = stage.plan.tracks[BROKER]
    while faults and not stage.hopeless:
        fault = faults[0]
        await stage.until(lambda: stage.reporting >= faults[0].period, f"period {fault.period}")
        began = time.monotonic()
        period = await stage.moment(fault, partial(float, began))
        stage.journal.fault("broker", fault, period)
        stage.broker_trouble = float("inf")
        victim = stage.nodes[len(faults) % len(stage.nodes)]
        await asyncio.to_thread(victim.kill if fault.kind is Kind.BROKER_KILL else victim.stop)
        await asyncio.to_thread(victim.start, timeout=PATIENCE_BROKER)
        if isinstance(stage.broker, KafkaCluster):
            await asyncio.to_thread(stage.broker.wait_until_whole)
        stage.broker_trouble = time.monotonic() + AFTER_BROKER
        stage.journal.note("broker: answers")
        del faults[0]


async def watch(stage: Stage) -> None:
    """`watch` from the first column to the last, begun again when the broker went away."""
    while True:
        process = await stage.starter.start("watch", "streamproc", "watch", stage.file, "--json")
        code = await process.end()
        stage.journal.ended("watch", process.name, "nothing", code, stage.allowed(process))
        if code == 0 or code not in stage.allowed(process):
            return


def watched(stage: Stage) -> list[list[tuple[str, int, str]]]:
    """What each run of `watch` showed. The last line of one that ended early may be cut short."""
    runs = []
    for path in sorted(stage.starter.folder.glob("watch-*.out")):
        lines = [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]
        runs.append([(line["release"], line["period"], line["digest"]) for line in lines])
    return runs


async def ask_status(stage: Stage) -> None:
    """Note what `status` says, for as long as the study goes on and once more."""
    last = False
    while not last:
        last = stage.over or stage.hopeless
        process = await stage.starter.start("status", "streamproc", "status", stage.file, "--json")
        code = await process.end()
        stage.journal.ended("status", process.name, "nothing", code, stage.allowed(process))
        if code == 0:
            said = json.loads((stage.starter.folder / f"{process.name}.out").read_text())
            # Without a watermark the tallies make no sense, which is found elsewhere.
            stage.statuses.append((said["watermark"] or 0, said["released"]))
        await asyncio.sleep(0 if last else 10)
