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
class Moment:
    when: When
    call: str
    topic: str | None = None

    @property
    def changes(self) -> bool:
        """Whether the call has an effect on the log or the disk."""
        return self.call in ("fence", "begin", "send", "commit", "abort", "append", "append_many", "disk.write")

    def __str__(self) -> str:
        return f"{self.when} {self.call}" + (f" {self.topic}" if self.topic else "")


@dataclass
class Moments(Faults):
    """Records the fault points of one process; `strike` is called with the number and the point, and may raise."""

    strike: Callable[[int, Moment], None] = lambda number, moment: None
    passed: list[Moment] = field(default_factory=list)

    async def before(self, connection: str, call: str, topic: str | None) -> None:
        self.reach(Moment("before", call, topic))

    async def after(self, connection: str, call: str, topic: str | None) -> None:
        self.reach(Moment("after", call, topic))

    def reach(self, moment: Moment) -> None:
        self.passed.append(moment)
        self.strike(len(self.passed) - 1, moment)


@dataclass
class Slow(Faults):
    """Delays each call of one kind on one topic."""

    call: str
    topic: str
    seconds: float

    async def before(self, connection: str, call: str, topic: str | None) -> None:
        if (call, topic) == (self.call, self.topic):
            await asyncio.sleep(self.seconds)


class WatchedDisk:
    """A state folder whose calls are fault points too."""

    def __init__(self, disk: StateFolder, moments: Moments) -> None:
        self._disk, self._moments = disk, moments

    def read(self, name: str) -> bytes | None:
        self._moments.reach(Moment("before", "disk.read", name))
        content = self._disk.read(name)
        self._moments.reach(Moment("after", "disk.read", name))
        return content

    def write(self, name: str, content: bytes) -> None:
        self._moments.reach(Moment("before", "disk.write", name))
        self._disk.write(name, content)
        self._moments.reach(Moment("after", "disk.write", name))

    def reserve_space(self, name: str, size: int) -> None:
        self._moments.reach(Moment("before", "disk.reserve_space", name))
        self._disk.reserve_space(name, size)

    def lock(self, name: str) -> bool:
        return self._disk.lock(name)

    def clear(self) -> None:
        self._disk.clear()


class DoomedConnection(SimulatedLog):
    """A connection whose process crashes at the points that are `fatal`; no later call reaches the broker."""

    def __init__(self, broker: SimulatedBroker, fatal: Callable[[int, Moment], bool]) -> None:
        def strike(number: int, moment: Moment) -> None:
            if fatal(number, moment):
                self.crash()
                raise Crash(str(moment))

        self.moments = Moments(strike)
        super().__init__(broker, self.moments, name="doomed")


def failing(error: Exception, chosen: Callable[[int, Moment], bool]) -> Moments:
    """Return faults that raise `error` at the chosen points."""

    def strike(number: int, moment: Moment) -> None:
        if chosen(number, moment):
            raise error

    return Moments(strike)


class SlowNetwork(Faults):
    """Delays every call at random in both directions, so that two processes interleave in every order."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    async def before(self, connection: str, call: str, topic: str | None) -> None:
        await asyncio.sleep(self._random.choice([0, 0, 0.01, 0.1, 1.0]))

    async def after(self, connection: str, call: str, topic: str | None) -> None:
        await asyncio.sleep(self._random.choice([0, 0, 0.01, 0.1, 1.0]))
