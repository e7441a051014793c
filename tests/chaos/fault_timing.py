"""Which faults were injected in time, and which publications they interrupted: a run that missed its aims tests little."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tests.chaos.fault_plan import ROLES, SYNTHESIZER, Aim, FaultPlan, Kind
from tests.chaos.history import History

ONE_IN = 4
"""One in this many faults with the same aim and role must be in time; a short plan requires none."""

LONGEST_WAY = 0.2
"""Assumed maximum delay in seconds from the sender of a record to a reader. It is shorter than the start of a process, which
must happen before an interrupted publication is repeated."""

Aimed = tuple[Aim, str]
"""An aim and the role of the target."""


@dataclass(frozen=True)
class InjectedFault:
    """A fault that was injected."""

    kind: Kind
    role: str
    aim: Aim
    period: int | None
    """The period before whose release it was to be injected; None if it aimed at no release or was too late."""
    at: float
    """Wall clock time in seconds, just after a fault of a process or just before a fault of a broker."""

    def in_time(self, releases: Mapping[int, float]) -> bool:
        """Whether it was injected in time; `releases` says when the committed record of each period was sent.

        That record is the last of its publication. If it was sent after the fault, the publication was interrupted, or
        continued only after the stop.
        """
        if self.aim is Aim.AFTER_START:
            return True
        return self.period is not None and releases.get(self.period, float("inf")) > self.at

    def lateness(self, releases: Mapping[int, float]) -> str:
        """Describe how late a fault was that was not in time."""
        late = "nothing was left to aim at" if self.period is None else f"{self.at - releases[self.period]:.3f} s late"
        return f"{self.kind} ({self.role}) {self.aim}: {late}"


@dataclass(frozen=True)
class Score:
    """The number of faults with one aim: planned, injected and in time."""

    planned: int
    injected_count: int
    in_time: int

    @property
    def needed(self) -> int:
        """The number of faults that must be in time."""
        return self.planned // ONE_IN


def fault_scores(plan: FaultPlan, injected: Iterable[InjectedFault], releases: Mapping[int, float]) -> dict[Aimed, Score]:
    """Return the score of each planned aim and role."""
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
    """Count the records of aborted transactions by type."""
    return Counter(record.fields["type"] for record in history.aborted)


def missed_faults(timing: Mapping[Aimed, Score], aborted: Mapping[str, int]) -> list[str]:
    """Describe the aims with too few faults in time."""
    short = [
        f"{aim} ({role}): {score.in_time} of {score.planned} in time, at least {score.needed} must be"
        for (aim, role), score in timing.items()
        if score.in_time < score.needed
    ]
    at_column = timing.get((Aim.AT_COLUMN, SYNTHESIZER))
    if at_column is not None and aborted.get("column", 0) < at_column.needed:
        short.append(f"columns seen but never committed: {aborted.get('column', 0)}, at least {at_column.needed} must be")
    return short
