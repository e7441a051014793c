"""Synthesizers under kills, stops and takeovers: of two on copies of one state folder, one is refused and one continues."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

from tests.chaos.fault_plan import SYNTHESIZER, Fault, Kind
from tests.chaos.nemesis import inject
from tests.chaos.processes import KILLED, Process
from tests.chaos.roles import MAX_BAD_EXITS
from tests.chaos.run_context import STOP_DURATION_S, RunContext

REFUSED = 3


class RestartedSynthesizer:
    """A synthesizer on one state folder, started again whenever it is killed."""

    def __init__(self, context: RunContext, group: asyncio.TaskGroup, folder: Path) -> None:
        self._context, self.folder = context, folder
        self.process: Process | None = None
        self.task = group.create_task(self._keep_running())

    async def _keep_running(self) -> int:
        """Restart it until it exits without being killed; returns its exit code."""
        while True:
            process = self.process = await start(self._context, "synthesizer", self.folder)
            code = await process.end()
            if not process.killed:
                return code
            self._context.run_log.ended(SYNTHESIZER, process.name, "kill -9", code, {KILLED})

    @property
    def running(self) -> Process:
        assert self.process is not None
        return self.process

    @property
    def holds_its_folder(self) -> bool:
        """Whether it holds the lock of its folder, which it takes only when the broker is available."""
        lock = self.folder / "synthesizer.lock"
        if self.process is None or not lock.exists():
            return False
        held = [line.split() for line in Path("/proc/locks").read_text().splitlines() if " FLOCK " in line]
        mine = (str(self.process.process.pid), str(lock.stat().st_ino))
        return any((fields[4], fields[5].split(":")[-1]) == mine for fields in held if len(fields) > 5)

    def last_error_line(self) -> str:
        """The last line of its error output."""
        text = (self._context.starter.folder / f"{self.running.name}.err").read_text()
        return text.strip().splitlines()[-1] if text.strip() else ""


async def start(context: RunContext, name: str, folder: Path) -> Process:
    """`streamproc synthesize`."""
    return await context.starter.start(name, "streamproc", "synthesize", context.file, "--state", folder, "--debug")


def state_in(folder: Path) -> dict[str, bytes]:
    """The state files in a folder, which a refused start must not change."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix in (".state", ".settled")}


class Synthesizers:
    """The current synthesizer, and at times a second one on a copy of its state folder."""

    def __init__(self, context: RunContext, group: asyncio.TaskGroup) -> None:
        self._context, self._group = context, group
        self._folders = 1
        self._current = RestartedSynthesizer(context, group, context.folder / "synthesizer-1.state")
        self._rival: RestartedSynthesizer | None = None
        self._beaten: Path | None = None
        """A folder whose synthesizer gave up a fight, though its draw may be the one that binds."""

    async def keep_running(self) -> None:
        """Keep a synthesizer running until the study is over."""
        context, bad = self._context, 0
        while bad < MAX_BAD_EXITS:
            current = self._current
            done, _ = await asyncio.wait([current.task], timeout=0.1)
            if not done or self._rival is not None or current is not self._current:
                continue
            code, process = current.task.result(), current.running
            if code == 0:
                await context.until(lambda: context.over, "the end of the study that the synthesizer saw")
                context.run_log.ended(SYNTHESIZER, process.name, "the end of the study", code, {0})
                return
            if code == REFUSED and self._beaten is not None:
                context.run_log.ended(SYNTHESIZER, process.name, "another's draw that binds", code, {REFUSED})
                self._current, self._beaten = RestartedSynthesizer(context, self._group, self._beaten), None
                continue
            context.run_log.ended(SYNTHESIZER, process.name, "nothing", code, {0})
            bad += 1
            await asyncio.sleep(1)
            self._current = RestartedSynthesizer(context, self._group, current.folder)
        context.give_up("the synthesizer does not live on")

    async def inject_faults(self) -> None:
        """Inject the planned faults of the synthesizer, in order."""
        faults = self._context.plan.tracks[SYNTHESIZER]
        while faults and not self._context.given_up:
            await self._context.until(lambda: self._context.reporting >= faults[0].period, f"period {faults[0].period}")
            await self._context.until(lambda: self._current.process is not None, "a synthesizer")
            if faults[0].kind is Kind.TAKEOVER:
                done = await self._takeover(faults[0])
            else:
                period = await self._context.wait_for_aim(faults[0], lambda: self._current.running.began)
                done = await inject(self._context, self._current.running, SYNTHESIZER, faults[0], period)
            if done:
                del faults[0]
            elif self._context.over:
                return

    async def _takeover(self, fault: Fault) -> bool:
        """The first is stopped as if dead; another is refused its folder, then works on a copy; then the first wakes up."""
        context, first = self._context, self._current
        await context.until(lambda: self._current.holds_its_folder, "a synthesizer to take its folder")
        if not first.running.freeze():
            await asyncio.sleep(0.05)
            return False
        begun = context.subscriber.released
        context.run_log.fault(SYNTHESIZER, fault)
        held = state_in(first.folder)
        intruder = await start(context, "intruder", first.folder)
        self._folders += 1
        copy = context.folder / f"synthesizer-{self._folders}.state"
        await asyncio.to_thread(shutil.copytree, first.folder, copy)
        second = self._rival = RestartedSynthesizer(context, self._group, copy)
        await self._is_refused(intruder, "intruder", "a folder in use", first.folder, held)
        await asyncio.sleep(STOP_DURATION_S)
        first.running.thaw()
        await context.until(lambda: first.task.done() or second.task.done(), "one of two synthesizers to be refused")
        loser, winner = (first, second) if first.task.done() else (second, first)
        if loser.task.done():
            cause = "two synthesizers on copies of one folder"
            context.run_log.ended(SYNTHESIZER, loser.running.name, cause, loser.task.result(), {REFUSED})
            await self._start_again(loser)
        self._current, self._rival = winner, None
        context.contested_periods.update(range(begun + 1, context.subscriber.released + 2))
        return True

    async def _start_again(self, loser: RestartedSynthesizer) -> None:
        """A folder that lags behind the ledger is always refused; one whose owner was only fenced is not."""
        if "fenced" in loser.last_error_line():
            self._context.run_log.note(f"{loser.running.name} gave up the fight")
            self._beaten = loser.folder
            return
        held = state_in(loser.folder)
        again = await start(self._context, "left-behind", loser.folder)
        await self._is_refused(again, "left-behind", "an old folder", loser.folder, held)

    async def _is_refused(self, process: Process, role: str, cause: str, folder: Path, held: dict[str, bytes]) -> None:
        """And the folder that it must not use is as it was."""
        self._context.run_log.ended(role, process.name, cause, await process.end(), {REFUSED})
        if state_in(folder) != held:
            self._context.run_log.violation(f"10: {process.name} was refused, and changed {folder.name}")
