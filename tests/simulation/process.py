"""Simulated machines and processes: their access to the log and the disk, with the faults of the fault plan."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from streamproc.errors import LogUnavailable, OutcomeUnknown, StreamprocError
from streamproc.testing import Faults, Killed, ManualClock, SimulatedBroker, SimulatedLog
from tests.simulated_filesystem.faults import FileFaults, Step
from tests.simulated_filesystem.filesystem import SimulatedFileSystem, SimulatedMachine
from tests.simulated_filesystem.storage import StoredFolder
from tests.simulation.fault_plan import CHANGES, FaultPlan
from tests.simulation.history import History

EMPTY = StoredFolder(0, 0o755)
"""A new disk."""

OFFSET_CALLS = ("start_offset", "high_watermark", "last_stable_offset")
"""Calls of the log that return an offset. Closing a period begins with such a call on the reports topic."""


@dataclass
class Network:
    """The connection of all processes to the broker."""

    broker: SimulatedBroker
    away_until: float = 0.0
    """The virtual time at which an outage of the broker ends."""


class Machine:
    """A machine with a disk, a clock and processes."""

    def __init__(self, name: str, storage: SimulatedMachine) -> None:
        self.name = name
        self.storage = storage
        self.clock = ManualClock()
        self.processes: list[Process] = []
        self.backup = EMPTY
        """The content of its disk before the last draw of the synthesizer."""
        self.spoilt = False
        """Whether its disk was lost, replaced or damaged, ignored a sync, or is not the only one of its study.

        On any other machine no state file ever has to be rebuilt or deleted, whichever process crashes at which point.
        """

    def power_cut(self) -> None:
        """End every process, and lose some of what was not synced."""
        for process in tuple(self.processes):
            process.kill()
        self.storage.power_cut()


@dataclass(frozen=True)
class End:
    """How a process ended: `refusal` is its error message if it exited with one."""

    killed: bool = False
    unreachable: bool = False
    """Whether it exited because the broker was unavailable."""
    refusal: str | None = None
    failure: BaseException | None = None
    """An exception that indicates a bug."""

    @property
    def done(self) -> bool:
        return not (self.killed or self.unreachable or self.refusal or self.failure)

    def __str__(self) -> str:
        if self.failure is not None:
            return repr(self.failure)
        return self.refusal or ("killed" if self.killed else "broker away" if self.unreachable else "well")


class Process:
    """One process of a program on a machine."""

    def __init__(self, name: str, machine: Machine, network: Network, fault_plan: FaultPlan, history: History) -> None:
        self.name = name
        self.machine = machine
        self.network = network
        self.fault_plan = fault_plan
        self.history = history
        self.alive = True
        self.paused_until = 0.0
        self.changed: list[str] = []
        """The calls it made that change the log."""
        self.started = False
        """Whether its start was not refused: it has read tallies or reports, or has committed."""
        self.on_closing: Callable[[], None] = lambda: None
        """Called before it asks for an offset of the reports topic, with which closing a period begins."""
        self.log = SimulatedLog(network.broker, _CallFaults(self), name=name)
        self.files: SimulatedFileSystem = machine.storage.process(name, _StepFaults(self))
        self._task: asyncio.Task[None] | None = None
        machine.processes.append(self)

    async def run(self, program: Coroutine[Any, Any, None]) -> End:
        """Run a program to its end, and return how it ended."""
        self.history.note(self.name, "starts")
        self._task = asyncio.create_task(program)
        try:
            await asyncio.wait([self._task])
        except asyncio.CancelledError:
            self.kill()
            await asyncio.gather(self._task, return_exceptions=True)
            raise
        was_killed = not self.alive
        self._end()
        end = _end_of(self._task)
        if was_killed:
            end = End(killed=True)
        self.history.note(self.name, f"ends: {end}")
        if end.refusal is not None:
            self.history.said.append(end.refusal)
        return end

    def kill(self) -> None:
        """End the process as `kill -9` does."""
        if self.alive:
            self._end()
            self.history.note(self.name, "is killed")
            if self._task is not None and self._task is not asyncio.current_task():
                self._task.cancel()

    def pause(self, seconds: float) -> None:
        """Stop the process for some seconds; then it continues with its next call."""
        self.paused_until = max(self.paused_until, asyncio.get_running_loop().time() + seconds)

    def _end(self) -> None:
        self.alive = False
        self.files.kill()
        if self in self.machine.processes:
            self.machine.processes.remove(self)

    def check_alive(self) -> None:
        if not self.alive:
            raise Killed(self.name)


def _end_of(task: asyncio.Task[None]) -> End:
    if task.cancelled():
        return End(killed=True)
    error = task.exception()
    if error is None:
        return End()
    leaves = list(_leaves(error))
    if any(isinstance(leaf, Killed) for leaf in leaves):
        return End(killed=True)
    strange = [leaf for leaf in leaves if not isinstance(leaf, StreamprocError)]
    if strange:
        return End(failure=strange[0])
    if all(isinstance(leaf, LogUnavailable | OutcomeUnknown) for leaf in leaves):
        return End(unreachable=True)
    return End(refusal=str(next(leaf for leaf in leaves if not isinstance(leaf, LogUnavailable | OutcomeUnknown))))


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _leaves(each)
    else:
        yield error


class _CallFaults(Faults):
    def __init__(self, process: Process) -> None:
        self._process = process
        self._late: float | None = None

    async def before(self, connection: str, call: str, topic: str | None) -> None:
        process = self._process
        process.check_alive()
        if call in OFFSET_CALLS and topic is not None and topic.endswith(".reports"):
            process.on_closing()
        if process.paused_until:
            await self._awake()
        fault = process.fault_plan.at_call(process.name, "before", call, topic)
        if fault is not None:
            await self._inject(fault, "before", call, topic)
        if process.network.away_until and process.network.away_until > asyncio.get_running_loop().time():
            raise LogUnavailable(f"{call}: no connection")
        if call == "read" and topic is not None and topic.endswith(".tallies"):
            process.machine.backup = process.machine.storage.image()
        if call in CHANGES:
            process.started |= call == "commit"
            process.changed.append(call)
            process.history.note(process.name, f"{call} {topic or ''}".rstrip())

    def inside(self, connection: str, call: str, topic: str | None, done: int) -> None:
        process = self._process
        match process.fault_plan.at_call(process.name, "inside", call, topic):
            case "crash":
                process.history.fault("crash inside an append", process.name, f"to {topic} after {done}")
                process.kill()
                raise Killed(process.name)
            case "unknown":
                process.history.fault("append cut short", process.name, f"to {topic} after {done}")
                raise OutcomeUnknown(f"{call}: the connection broke")

    def lands_later(self, connection: str, call: str, topic: str | None) -> float | None:
        late, self._late = self._late, None
        return late

    async def after(self, connection: str, call: str, topic: str | None) -> None:
        process = self._process
        process.started |= call == "reader" and topic is not None and topic.endswith((".tallies", ".reports"))
        fault = process.fault_plan.at_call(process.name, "after", call, topic)
        if fault is not None:
            await self._inject(fault, "after", call, topic)
        process.check_alive()
        if process.paused_until:
            await self._awake()

    async def _inject(self, fault: str, when: str, call: str, topic: str | None) -> None:
        process, history, fault_plan = self._process, self._process.history, self._process.fault_plan
        where = f"{when} {call} {topic or ''}".rstrip()
        match fault:
            case "crash":
                within = call == "commit" or call == "send"
                history.fault("crash inside a transaction" if within else f"crash {when} a call", process.name, where)
                process.kill()
                raise Killed(process.name)
            case "disaster" | "backup":
                back = fault == "backup"
                history.fault(
                    "disk rolled back with the process" if back else "disk lost with the process", process.name, where
                )
                process.kill()
                process.machine.storage.put_back(process.machine.backup if back else EMPTY)
                process.machine.spoilt = True
                raise Killed(process.name)
            case "unavailable":
                history.fault("call fails", process.name, where)
                raise LogUnavailable(f"{call}: no connection")
            case "unknown":
                history.fault("lost acknowledgement", process.name, where)
                raise OutcomeUnknown(f"{call}: no answer")
            case "later":
                history.fault("effect lands later", process.name, where)
                self._late = fault_plan.seconds(0.01, 2.0)
            case "slow":
                history.fault("late acknowledgement" if when == "after" else "slow call", process.name, where)
                await asyncio.sleep(fault_plan.seconds(0.01, 1.0))
            case "pause":
                history.fault("zombie", process.name, where)
                process.pause(fault_plan.seconds(0.5, 6.0))
                await self._awake()

    async def _awake(self) -> None:
        process, loop = self._process, asyncio.get_running_loop()
        while process.paused_until > loop.time():
            await asyncio.sleep(process.paused_until - loop.time())
            process.check_alive()


class _StepFaults(FileFaults):
    def __init__(self, process: Process) -> None:
        self._process = process

    def before(self, files: SimulatedFileSystem, step: Step, path: Path) -> None:
        self._inject("before", step, path)

    def inside(self, files: SimulatedFileSystem, step: Step, path: Path) -> None:
        self._inject("inside", step, path)

    def after(self, files: SimulatedFileSystem, step: Step, path: Path) -> None:
        self._inject("after", step, path)

    def _inject(self, when: Any, step: Step, path: Path) -> None:
        process, storage = self._process, self._process.machine.storage
        where = f"{when} {step} {path.name}"
        match process.fault_plan.at_step(process.name, when, step, path.name):
            case "crash":
                process.history.fault("torn write" if when == "inside" else "crash inside a write", process.name, where)
                process.kill()
                raise Killed(process.name)
            case "power cut":
                process.history.fault("power cut", process.name, where)
                process.machine.power_cut()
                raise Killed(process.name)
            case "disk full":
                process.history.fault("disk full", process.name, where)
                storage.capacity = storage.storage.used + 16
            case "read error":
                process.history.fault("read error", process.name, where)
                raise OSError(errno.EIO, "Input/output error")
