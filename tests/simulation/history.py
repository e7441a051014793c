"""The history of one run: its faults, its violations, the output of its processes, and a trace on request."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from streamproc.client.subscribe import ReleasedColumn


@dataclass(frozen=True)
class Violation:
    """An invariant that does not hold."""

    invariant: int
    """Its number in the list of invariants."""
    what: str

    def __str__(self) -> str:
        return f"invariant {self.invariant}: {self.what}"


@dataclass
class History:
    """Everything that is recorded during one run."""

    tracing: bool
    faults: Counter[str] = field(default_factory=Counter)
    violations: list[Violation] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    """All output of the processes: log lines, problems and errors."""
    _lines: list[tuple[float, str, str]] = field(default_factory=list)

    def fault(self, kind: str, process: str, where: str = "") -> None:
        """Count a fault that is injected now."""
        self.faults[kind] += 1
        self.note(process, f"*** {kind} {where}".rstrip())

    def note(self, process: str, what: str) -> None:
        """Add a line to the trace."""
        if self.tracing:
            self._lines.append((asyncio.get_running_loop().time(), process, what))

    def violated(self, invariant: int, what: str) -> None:
        """Record a violation, once if it occurs several times."""
        violation = Violation(invariant, what)
        if violation not in self.violations:
            self.violations.append(violation)
            self.note("checker", f"!!! {violation}")

    def trace(self) -> Iterator[str]:
        """Return the lines of the trace: virtual seconds, process, and the call or fault."""
        for time, process, what in self._lines:
            yield f"{time:9.3f}  {process:18} {what}"


@dataclass
class ObservedColumns:
    """The columns that subscribers received, checked against invariants 1 and 2 as they arrive."""

    history: History
    columns: dict[tuple[str, int], bytes] = field(default_factory=dict)
    given: dict[str, set[tuple[str, int]]] = field(default_factory=dict)
    """For each subscriber the columns it received, over all of its processes."""

    def see(self, who: str, given: dict[str, int], published: ReleasedColumn) -> None:
        """Record a received column; `given` holds the last period of each release that this subscriber received."""
        release, period = published.release, int(published.period)
        column = published.column.tobytes()
        if self.columns.setdefault((release, period), column) != column:
            self.history.violated(1, f"{release}, period {period}: {who} reads another column than was read before")
        if period != given.get(release, 0) + 1:
            self.history.violated(2, f"{release}: {who} is given period {period} after {given.get(release, 0)}")
        given[release] = period
        self.given.setdefault(who.partition("#")[0], set()).add((release, period))
