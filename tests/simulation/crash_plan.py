"""A fault plan with crashes at given points only, which also lists all points at which a process could crash.

Two crashes are alike if the same process crashes in the same way at the same virtual time and, from the one point to the
other, nothing had an effect on the log, a group or a disk, and no other process did anything. Then they differ only in the
lost memory of that process. The log, the disks, the memory of all other processes and the time are the same, and so is
everything that follows, including other crashes.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from tests.simulation.fault_plan import CHANGES, CallFault, FileStepFault, When

Way = Literal["crash", "power cut"]


@dataclass(frozen=True, order=True)
class Crash:
    """A crash at the point with this number, counted from the start of the run or from the crash before it."""

    point: int
    way: Way

    def __str__(self) -> str:
        return f"{self.point}:{self.way}"


READS = ("status", "names", "read")
"""Steps on files without an effect."""

MEMBERSHIP = ("membership", "assigned")
"""Calls that have an effect on a group but not on a topic: joining, and asking for the assignment, which is a heartbeat."""


@dataclass(frozen=True)
class CrashPoint:
    """A point at which a process can crash."""

    ways: tuple[Way, ...]
    different: tuple[Way, ...]
    """The ways in which a crash here is not like any earlier one."""


@dataclass
class CrashPlan:
    """Injects the given crashes, and records every point."""

    crashes: Sequence[Crash] = ()
    points: list[CrashPoint] = field(default_factory=list)
    """The points since the last crash."""
    injected: int = 0
    _last: tuple[str, float] = ("", 0.0)
    """The process at the last point, and the virtual time of that point."""
    _seen_ways: set[Way] = field(default_factory=set)
    """The ways in which that process could crash at this time since the last effect or action of another process."""
    _course: hashlib.blake2b = field(default_factory=hashlib.blake2b)
    _crashed_at: float = 0.0

    def at_call(self, process: str, when: When, call: str, topic: str | None) -> CallFault | None:
        # A client that crashes skips the report it was about to send, which changes the workload.
        effect = call in (*CHANGES, *MEMBERSHIP) and (when != "before" or process.startswith("client"))
        return "crash" if self._reach(process, f"{when} {call} {topic}", on_file=False, effect=effect) else None

    def at_step(self, process: str, when: When, step: str, file: str) -> FileStepFault | None:
        # Temporary files are numbered, and a number taken is not given again.
        what = f"{when} {step} {re.sub('[0-9a-f]{8}', '', file)}"
        return self._reach(process, what, on_file=True, effect=when != "before" and step not in READS)

    def seconds(self, low: float, high: float) -> float:
        return low

    def stop(self) -> None:
        """Do nothing: only the given crashes are injected."""

    @property
    def course(self) -> str:
        """A digest of all actions since the last crash: the process, the action, and the virtual seconds since the crash."""
        return self._course.hexdigest()

    def _reach(self, process: str, what: str, *, on_file: bool, effect: bool) -> Way | None:
        if process.startswith("subscriber"):
            return None
        now = asyncio.get_running_loop().time()
        self._course.update(f"{now - self._crashed_at:.6f} {process} {what}\n".encode())
        if effect or (process, now) != self._last:
            self._seen_ways.clear()
        ways: tuple[Way, ...] = ("crash", "power cut") if on_file else ("crash",)
        self.points.append(CrashPoint(ways, tuple(way for way in ways if way not in self._seen_ways)))
        self._seen_ways.update(ways)
        self._last = (process, now)
        if self.injected == len(self.crashes) or len(self.points) <= self.crashes[self.injected].point:
            return None
        crash = self.crashes[self.injected]
        self.injected += 1
        self.points.clear()
        self._last, self._course, self._crashed_at = ("", 0.0), hashlib.blake2b(), now
        return crash.way

    def next_crashes(self) -> list[list[Crash]]:
        """Return every possible next crash since the last one, grouped into lists of crashes that are alike."""
        alike: list[list[Crash]] = []
        last: dict[Way, list[Crash]] = {}
        for number, point in enumerate(self.points):
            for way in point.ways:
                if way in point.different:
                    last[way] = []
                    alike.append(last[way])
                last[way].append(Crash(number, way))
        return alike
