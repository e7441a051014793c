"""Fault points of a single role: before and after every call of the log and of the state folder, numbered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Literal

from streamproc.storage.state_folder import StateFolder
from streamproc.testing import Faults, SimulatedBroker, SimulatedLog

When = Literal["before", "after"]


class Crash(BaseException):
    """Stands for the end of the process. It is no `Exception`, so no handler of the program catches it."""


@dataclass(frozen=True)
class FaultPoint:
    when: When
    call: str
    topic: str | None = None

    @property
    def changes(self) -> bool:
        """Whether the call has an effect on the log or the disk."""
        return self.call in ("fence", "begin", "send", "commit", "abort", "append", "append_many", "folder.write")

    def __str__(self) -> str:
        return f"{self.when} {self.call}" + (f" {self.topic}" if self.topic else "")


@dataclass
class FaultPoints(Faults):
    """Records the fault points of one process; `strike` is called with the number and the point, and may raise."""

    strike: Callable[[int, FaultPoint], None] = lambda number, point: None
    passed: list[FaultPoint] = field(default_factory=list)

    async def before(self, connection: str, call: str, topic: str | None) -> None:
        self.reach(FaultPoint("before", call, topic))

    async def after(self, connection: str, call: str, topic: str | None) -> None:
        self.reach(FaultPoint("after", call, topic))

    def reach(self, point: FaultPoint) -> None:
        self.passed.append(point)
        self.strike(len(self.passed) - 1, point)


@dataclass
class Slow(Faults):
    """Delays each call of one kind on one topic."""

    call: str
    topic: str
    seconds: float

    async def before(self, connection: str, call: str, topic: str | None) -> None:
        if (call, topic) == (self.call, self.topic):
            await asyncio.sleep(self.seconds)


class FaultPointStateFolder:
    """A state folder whose calls are fault points too."""

    def __init__(self, state_folder: StateFolder, fault_points: FaultPoints) -> None:
        self._state_folder, self._fault_points = state_folder, fault_points

    def read(self, name: str) -> bytes | None:
        self._fault_points.reach(FaultPoint("before", "folder.read", name))
        content = self._state_folder.read(name)
        self._fault_points.reach(FaultPoint("after", "folder.read", name))
        return content

    def write(self, name: str, content: bytes) -> None:
        self._fault_points.reach(FaultPoint("before", "folder.write", name))
        self._state_folder.write(name, content)
        self._fault_points.reach(FaultPoint("after", "folder.write", name))

    def reserve_space(self, name: str, size: int) -> None:
        self._fault_points.reach(FaultPoint("before", "folder.reserve_space", name))
        self._state_folder.reserve_space(name, size)

    def lock(self, name: str) -> bool:
        return self._state_folder.lock(name)

    def clear(self) -> None:
        self._state_folder.clear()


class CrashingConnection(SimulatedLog):
    """A connection whose process crashes at the points that are `fatal`; no later call reaches the broker."""

    def __init__(self, broker: SimulatedBroker, fatal: Callable[[int, FaultPoint], bool]) -> None:
        def strike(number: int, point: FaultPoint) -> None:
            if fatal(number, point):
                self.crash()
                raise Crash(str(point))

        self.fault_points = FaultPoints(strike)
        super().__init__(broker, self.fault_points, name="crashing")


def failing(error: Exception, chosen: Callable[[int, FaultPoint], bool]) -> FaultPoints:
    """Return faults that raise `error` at the chosen points."""

    def strike(number: int, point: FaultPoint) -> None:
        if chosen(number, point):
            raise error

    return FaultPoints(strike)


class SlowNetwork(Faults):
    """Delays every call at random in both directions, so that two processes interleave in every order."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    async def before(self, connection: str, call: str, topic: str | None) -> None:
        await asyncio.sleep(self._random.choice([0, 0, 0.01, 0.1, 1.0]))

    async def after(self, connection: str, call: str, topic: str | None) -> None:
        await asyncio.sleep(self._random.choice([0, 0, 0.01, 0.1, 1.0]))
