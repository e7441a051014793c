"""Weather in which processes die at given moments and at no others, and which knows at what other moments they could.

Two crashes are alike if the same process dies in the same way at the same instant and, from the one moment to the other,
nothing had an effect on the log, a group or a disk, and no other process did anything. Then they differ only in what dies
with the process. What is left is the same (the log, the disks, the memory of all others, the time), and so is all that
follows, other crashes included.
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
    """At the moment with this number, counted from the start of the run or from the crash before it."""

    point: int
    way: Way

    def __str__(self) -> str:
        return f"{self.point}:{self.way}"


READS = ("status", "names", "read")
"""Steps on files without an effect."""

MEMBERSHIP = ("membership", "assigned")
"""Calls that have an effect on a group, though none on a topic: who joins it or asks what it was given is alive."""


@dataclass(frozen=True)
class CrashPoint:
    """Where a crash can strike."""

    ways: tuple[Way, ...]
    different: tuple[Way, ...]
    """Those in which no crash before it is like one now."""


@dataclass
class CrashPlan:
    """Weather that strikes at the given moments only, and counts all."""

    crashes: Sequence[Crash] = ()
    points: list[CrashPoint] = field(default_factory=list)
    """Since the last crash."""
    injected: int = 0
    _last: tuple[str, float] = ("", 0.0)
    """The process whose moment it was, and the instant."""
    _seen_ways: set[Way] = field(default_factory=set)
    """In which ways it could die at this instant since anything had an effect, or another process did anything."""
    _course: hashlib.blake2b = field(default_factory=hashlib.blake2b)
    _crashed_at: float = 0.0

    def at_call(self, process: str, when: When, call: str, topic: str | None) -> CallFault | None:
        # A client that dies forgets what it was about to say, and goes on with the next: that changes what is said.
        effect = call in (*CHANGES, *MEMBERSHIP) and (when != "before" or process.startswith("client"))
        return "crash" if self._reach(process, f"{when} {call} {topic}", on_file=False, effect=effect) else None

    def at_step(self, process: str, when: When, step: str, file: str) -> FileStepFault | None:
        # Temporary files are numbered, and a number taken is not given again.
        what = f"{when} {step} {re.sub('[0-9a-f]{8}', '', file)}"
        return self._reach(process, what, on_file=True, effect=when != "before" and step not in READS)

    def seconds(self, low: float, high: float) -> float:
        return low

    def stop(self) -> None:
        """Nothing strikes but what was given."""

    @property
    def course(self) -> str:
        """A digest of all that happened since the last crash: who did what, and how many virtual seconds after it."""
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
        """Every way in which one more process could die in what has happened since the last crash; those alike together."""
        alike: list[list[Crash]] = []
        last: dict[Way, list[Crash]] = {}
        for number, point in enumerate(self.points):
            for way in point.ways:
                if way in point.different:
                    last[way] = []
                    alike.append(last[way])
                last[way].append(Crash(number, way))
        return alike
