"""Which cuts count: a sequence that only ever grows, the same for everybody who reads the control topic."""

from __future__ import annotations

from streamproc.privacy.quantities import Period
from streamproc.wire.control import Cut


class CutSequence:
    """The valid cuts of a study, in order.

    The first cut of a period counts. One that is not of the next period, lacks a partition, or ends a period before the one
    before it ended, is ignored.
    """

    def __init__(self, partitions: int, horizon: int) -> None:
        self._partitions = partitions
        self._horizon = horizon
        self._cuts: list[Cut] = []

    @property
    def period(self) -> Period:
        """The last period closed."""
        return Period(len(self._cuts))

    @property
    def cuts(self) -> tuple[Cut, ...]:
        """All of them, of periods 1, 2, ..."""
        return tuple(self._cuts)

    def offer(self, cut: Cut) -> bool:
        """Take the cut if it counts; whether it does."""
        before = self._cuts[-1].ends if self._cuts else (0,) * self._partitions
        counts = (
            cut.period == self.period + 1
            and cut.period <= self._horizon
            and len(cut.ends) == self._partitions
            and all(end >= start for start, end in zip(before, cut.ends, strict=True))
        )
        if counts:
            self._cuts.append(cut)
        return counts
