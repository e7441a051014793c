"""What happened in one run: every fault by its name, every violation, and on demand a line for every call."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from streamproc.client.subscribe import ReleasedColumn


@dataclass(frozen=True)
class Violation:
    """A promise that was broken."""

    invariant: int
    """Its number in the list of invariants."""
    what: str

    def __str__(self) -> str:
        return f"invariant {self.invariant}: {self.what}"


@dataclass
class History:
    """Owned by one run; written to inside its loop."""

    tracing: bool
    faults: Counter[str] = field(default_factory=Counter)
    violations: list[Violation] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    """Whatever anybody could read of the processes: log lines, troubles, errors."""
    _lines: list[tuple[float, str, str]] = field(default_factory=list)

    def fault(self, kind: str, process: str, where: str = "") -> None:
        """It happens now."""
        self.faults[kind] += 1
        self.note(process, f"*** {kind} {where}".rstrip())

    def note(self, process: str, what: str) -> None:
        """A line of the trace."""
        if self.tracing:
            self._lines.append((asyncio.get_running_loop().time(), process, what))

    def violated(self, invariant: int, what: str) -> None:
        """Said once, however often it is seen."""
        violation = Violation(invariant, what)
        if violation not in self.violations:
            self.violations.append(violation)
            self.note("checker", f"!!! {violation}")

    def trace(self) -> Iterator[str]:
        """Virtual seconds, process, what it did or suffered."""
        for time, process, what in self._lines:
            yield f"{time:9.3f}  {process:18} {what}"


@dataclass
class ObservedColumns:
    """All that was ever seen of each column, held to invariants 1 and 2 as it is seen."""

    history: History
    columns: dict[tuple[str, int], bytes] = field(default_factory=dict)
    given: dict[str, set[tuple[str, int]]] = field(default_factory=dict)
    """What each subscriber was given in all of its lives."""

    def see(self, who: str, given: dict[str, int], published: ReleasedColumn) -> None:
        """`given`: the last period of each release that this subscriber was given."""
        release, period = published.release, int(published.period)
        column = published.column.tobytes()
        if self.columns.setdefault((release, period), column) != column:
            self.history.violated(1, f"{release}, period {period}: {who} reads another column than was read before")
        if period != given.get(release, 0) + 1:
            self.history.violated(2, f"{release}: {who} is given period {period} after {given.get(release, 0)}")
        given[release] = period
        self.given.setdefault(who.partition("#")[0], set()).add((release, period))
