"""What the columns of a release add up to, period by period, kept without the columns."""

from __future__ import annotations

from dataclasses import dataclass

from streamproc.privacy.types import FloatArray, IntArray, Period
from streamproc.releases.kind import Contract
from streamproc.releases.step import Column, Measurements


@dataclass(frozen=True, eq=False)
class History:
    """A release as far as it is published."""

    contract: Contract
    rows: int
    """Synthetic people."""
    period: Period
    """The last period whose column is released."""
    counts: tuple[IntArray, ...]
    """The released counts, padding included, of periods `contract.first_column`, `contract.first_column + 1`, ..."""
    estimates: tuple[FloatArray | None, ...] = ()
    """The estimates before clamping, in people, of the same periods; None where the released counts are the estimates."""

    def place_of(self, period: int) -> int:
        """The place of a period in `counts`; of the first columns, which come out together, that of the last of them."""
        return max(period - self.contract.first_column, 0)


class HistoryBuilder:
    """Adds up the columns of a release. Remembers a small number for each synthetic person, and what was measured."""

    def __init__(self, contract: Contract) -> None:
        self._contract = contract
        self._counter = contract.new_counter()
        self._estimator = contract.new_estimator()
        self._period = Period(0)
        self._counts: list[IntArray] = []
        self._estimates: list[FloatArray | None] = []

    def add(self, column: Column, measured: Measurements) -> tuple[IntArray, FloatArray | None] | None:
        """Take the next period's column and the noisy integers behind it.

        Returns the counts and the estimates of the period; None if it has no counts yet.
        """
        self._period = Period(self._period + 1)
        if self._estimator is not None:
            self._estimator.add(measured)
        counts = self._counter.add(column)
        if counts is None:
            return None
        self._counts.append(counts)
        self._estimates.append(None if self._estimator is None else self._estimator.estimates())
        return counts, self._estimates[-1]

    def history(self) -> History:
        """The history so far."""
        return History(self._contract, len(self._counter.codes), self._period, tuple(self._counts), tuple(self._estimates))
