"""A process of the simulation: what it reaches the log and its disk through, and how it dies, stops and wakes up again."""

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
"""Calls of the log that return an offset. Whoever closes a period asks for the end of the reports topic first."""


@dataclass
class Network:
    """The way to the broker."""

    broker: SimulatedBroker
    away_until: float = 0.0
    """Virtual seconds until nobody reaches it."""


class Machine:
    """A disk and a clock; processes that run on it come and go."""

    def __init__(self, name: str, storage: SimulatedMachine) -> None:
        self.name = name
        self.storage = storage
        self.clock = ManualClock()
        self.processes: list[Process] = []
        self.backup = EMPTY
        """What its disk held before the synthesizer last drew anything."""
        self.spoilt = False
        """Whether its disk was lost, swapped or damaged, lied about a sync, or is not the only one of its study.

        One that is not keeps what a role needs, whoever dies when: no state file has to be rebuilt or deleted.
        """

    def power_cut(self) -> None:
        """Every process ends, and what was not synced may be lost."""
        for process in tuple(self.processes):
            process.kill()
        self.storage.power_cut()


@dataclass(frozen=True)
class End:
    """How a process ended: `refusal` is its last line if it ended by itself and not well."""

    killed: bool = False
    unreachable: bool = False
    """Whether it gave up because the broker was away."""
    refusal: str | None = None
    failure: BaseException | None = None
    """What nobody expects: a mistake."""

    @property
    def done(self) -> bool:
        return not (self.killed or self.unreachable or self.refusal or self.failure)

    def __str__(self) -> str:
        if self.failure is not None:
            return repr(self.failure)
        return self.refusal or ("killed" if self.killed else "broker away" if self.unreachable else "well")


class Process:
    """One life of a program on a machine."""

    def __init__(self, name: str, machine: Machine, network: Network, fault_plan: FaultPlan, history: History) -> None:
        self.name = name
        self.machine = machine
        self.network = network
        self.fault_plan = fault_plan
        self.history = history
        self.alive = True
        self.paused_until = 0.0
        self.changed: list[str] = []
        """The calls with an effect on the log that it made."""
        self.started = False
        """Whether it was seen to be past its start: a role reads tallies or reports only then, and commits only then."""
        self.on_closing: Callable[[], None] = lambda: None
        """Called before it asks where the reports end, as whoever closes a period must."""
        self.log = SimulatedLog(network.broker, _CallFaults(self), name=name)
        self.files: SimulatedFileSystem = machine.storage.process(name, _StepFaults(self))
        self._task: asyncio.Task[None] | None = None
        machine.processes.append(self)

    async def run(self, program: Coroutine[Any, Any, None]) -> End:
        """Until it ends, however it does."""
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
        """As kill -9 does."""
        if self.alive:
            self._end()
            self.history.note(self.name, "is killed")
            if self._task is not None and self._task is not asyncio.current_task():
                self._task.cancel()

    def pause(self, seconds: float) -> None:
        """Nothing of it happens meanwhile; then it goes on with what it was about to do."""
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
