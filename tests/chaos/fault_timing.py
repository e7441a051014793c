"""Which faults struck at the moment they aimed at, and what was cut off: a run that missed has shown little."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tests.chaos.fault_plan import ROLES, SYNTHESIZER, Aim, FaultPlan, Kind
from tests.chaos.history import History

ONE_IN = 4
"""Of so many faults with the same aim at a role at least one must strike in time; so a short plan demands nothing."""

LONGEST_WAY = 0.2
"""Seconds that a record is taken to have needed from its sender to a reader. A publication that was cut off is repeated by a
process that has to start first, which takes longer."""

Aimed = tuple[Aim, str]
"""An aim, and the role it is at."""


@dataclass(frozen=True)
class InjectedFault:
    """A fault that happened."""

    kind: Kind
    role: str
    aim: Aim
    period: int | None
    """Before whose release it was to come; None if it aimed at no release, or only when that was over."""
    at: float
    """Seconds of the wall clock, just after a process was hit, or just before a broker is."""

    def in_time(self, releases: Mapping[int, float]) -> bool:
        """Whether it struck at its moment; `releases` says when the committed record of each period was sent.

        That record is the last of its publication. If it was sent after the strike, then the publication was cut off, or
        went on only when a stop was over.
        """
        if self.aim is Aim.AFTER_START:
            return True
        return self.period is not None and releases.get(self.period, float("inf")) > self.at

    def lateness(self, releases: Mapping[int, float]) -> str:
        """In words, of one that was not in time."""
        late = "nothing was left to aim at" if self.period is None else f"{self.at - releases[self.period]:.3f} s late"
        return f"{self.kind} ({self.role}) {self.aim}: {late}"


@dataclass(frozen=True)
class Score:
    """How the faults with one aim came off."""

    planned: int
    injected_count: int
    in_time: int

    @property
    def needed(self) -> int:
        """How many must strike in time."""
        return self.planned // ONE_IN


def fault_scores(plan: FaultPlan, injected: Iterable[InjectedFault], releases: Mapping[int, float]) -> dict[Aimed, Score]:
    """Of all that was planned."""
    planned = Counter((fault.aim, ROLES[track]) for track, faults in plan.tracks.items() for fault in faults)
    injected_count, in_time = Counter[Aimed](), Counter[Aimed]()
    for injected_fault in injected:
        injected_count[injected_fault.aim, injected_fault.role] += 1
        in_time[injected_fault.aim, injected_fault.role] += injected_fault.in_time(releases)
    return {aimed: Score(planned[aimed], injected_count[aimed], in_time[aimed]) for aimed in sorted(planned)}


def release_times(history: History, arrivals: Mapping[int, float]) -> dict[int, float]:
    """When the committed record of each period was sent, at the latest; 0 if nobody saw it come.

    `arrivals` says when a reader was given the record at each offset of the ledger, and `LONGEST_WAY` before that it had
    been sent.
    """
    return {
        record.fields["period"]: max(arrivals.get(record.offset, 0.0) - LONGEST_WAY, 0.0)
        for record in history.ledger
        if record.fields["type"] == "period"
    }


def cut_off(history: History) -> Counter[str]:
    """Records by type that could be seen and were never committed. Without any, uncommitted readers see nothing special."""
    return Counter(record.fields["type"] for record in history.aborted)


def missed_faults(timing: Mapping[Aimed, Score], aborted: Mapping[str, int]) -> list[str]:
    """Where a run was less rough than its plan."""
    short = [
        f"{aim} ({role}): {score.in_time} of {score.planned} in time, at least {score.needed} must be"
        for (aim, role), score in timing.items()
        if score.in_time < score.needed
    ]
    at_column = timing.get((Aim.AT_COLUMN, SYNTHESIZER))
    if at_column is not None and aborted.get("column", 0) < at_column.needed:
        short.append(f"columns seen but never committed: {aborted.get('column', 0)}, at least {at_column.needed} must be")
    return short
