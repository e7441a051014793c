"""What subscribers have been given, by whom and whenever."""

from __future__ import annotations

from dataclasses import dataclass, field

from streamproc.client.subscribe import ReleasedColumn
from tests.simulation.journal import Journal


@dataclass
class Sights:
    """All that was ever seen of each column, held to invariants 1 and 2 as it is seen."""

    journal: Journal
    columns: dict[tuple[str, int], bytes] = field(default_factory=dict)
    given: dict[str, set[tuple[str, int]]] = field(default_factory=dict)
    """What each subscriber was given in all of its lives."""

    def see(self, who: str, given: dict[str, int], published: ReleasedColumn) -> None:
        """`given`: the last period of each release that this subscriber was given."""
        release, period = published.release, int(published.period)
        column = published.column.tobytes()
        if self.columns.setdefault((release, period), column) != column:
            self.journal.violated(1, f"{release}, period {period}: {who} reads another column than was read before")
        if period != given.get(release, 0) + 1:
            self.journal.violated(2, f"{release}: {who} is given period {period} after {given.get(release, 0)}")
        given[release] = period
        self.given.setdefault(who.partition("#")[0], set()).add((release, period))
