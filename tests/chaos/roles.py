"""Gatherers, which are restarted whenever they are killed, and the commands `watch` and `status`, which run all along."""

from __future__ import annotations

import asyncio
import json

from tests.chaos.fault_plan import GATHERERS
from tests.chaos.nemesis import inject
from tests.chaos.processes import KILLED, Process
from tests.chaos.run_context import RunContext

MAX_BAD_EXITS = 5
"""Number of unexpected exits after which a process is not restarted."""


class Gatherer:
    """One gatherer, restarted whenever it is killed. The third is not in the group and repeats some partitions."""

    def __init__(self, context: RunContext, name: str) -> None:
        self._context, self._name = context, name
        self._process: Process | None = None

    async def keep_running(self) -> None:
        """Keep the gatherer running until the study is over."""
        context, bad = self._context, 0
        while bad < MAX_BAD_EXITS:
            process = self._process = await self._start()
            code = await process.end()
            if process.killed:
                context.run_log.ended("gatherer", process.name, "kill -9", code, {KILLED})
                continue
            if code == 0:
                await context.until(lambda: context.over, f"the end of the study that {process.name} saw")
                context.run_log.ended("gatherer", process.name, "the end of the study", code, {0})
                return
            context.run_log.ended("gatherer", process.name, "nothing", code, {0})
            bad += 1
            await asyncio.sleep(1)
        context.give_up(f"{self._name} does not live on")

    async def _start(self) -> Process:
        number = GATHERERS.index(self._name)
        pinned: list[object] = ["--partition", 0, "--partition", self._context.study.partitions - 1] if number == 2 else []
        # One of the two in the group keeps its name when it comes back, as a process with a stable identity would.
        environ = {"STREAMPROC_KAFKA_INSTANCE": self._name} if number == 1 else {}
        state = ["--state", self._context.folder / f"{self._name}.state"]
        return await self._context.starter.start(
            self._name, "streamproc", "gather", self._context.file, *state, *pinned, "--debug", environ=environ
        )

    async def inject_faults(self) -> None:
        """Inject the planned faults of this gatherer, in order."""
        faults = self._context.plan.tracks[self._name]
        while faults and not self._context.given_up:
            await self._context.until(lambda: self._context.reporting >= faults[0].period, f"period {faults[0].period}")
            await self._context.until(lambda: self._process is not None, self._name)
            period = await self._context.wait_for_aim(faults[0], lambda: self._running.began)
            if await inject(self._context, self._running, "gatherer", faults[0], period):
                del faults[0]
            elif self._context.over:
                return

    @property
    def _running(self) -> Process:
        assert self._process is not None
        return self._process


async def watch(context: RunContext) -> None:
    """Run `watch` until the last column, and restart it after broker outages."""
    while True:
        process = await context.starter.start("watch", "streamproc", "watch", context.file, "--json")
        code = await process.end()
        context.run_log.ended("watch", process.name, "nothing", code, context.allowed(process))
        if code == 0 or code not in context.allowed(process):
            return


def watched(context: RunContext) -> list[list[tuple[str, int, str]]]:
    """Return the output of each run of `watch`. The last line of an interrupted run may be incomplete."""
    runs = []
    for path in sorted(context.starter.folder.glob("watch-*.out")):
        lines = [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]
        runs.append([(line["release"], line["period"], line["digest"]) for line in lines])
    return runs


async def ask_status(context: RunContext) -> None:
    """Record the output of `status` repeatedly until the study is over, and once after that."""
    last = False
    while not last:
        last = context.over or context.given_up
        process = await context.starter.start("status", "streamproc", "status", context.file, "--json")
        code = await process.end()
        context.run_log.ended("status", process.name, "nothing", code, context.allowed(process))
        if code == 0:
            said = json.loads((context.starter.folder / f"{process.name}.out").read_text())
            # There is no watermark if the tallies are invalid, which the checker reports.
            context.statuses.append((said["watermark"] or 0, said["released"]))
        await asyncio.sleep(0 if last else 10)
