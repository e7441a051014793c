"""What the columns of a release add up to, period by period, kept without the columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from streamproc.privacy.types import FloatArray, IntArray, Period
from streamproc.releases.contract import Contract, CumulativeContract, WindowContract
from streamproc.releases.cumulative import estimates
from streamproc.releases.measured import measurements_of
from streamproc.releases.step import Column


@dataclass(frozen=True, eq=False)
class History:
    """A release as far as it is published."""

    contract: Contract
    rows: int
    """Synthetic people."""
    period: Period
    """The last one whose column is out."""
    counts: tuple[IntArray, ...]
    """Released counts, padding included. Window: of each bin, at periods `k, k+1, ...`; cumulative: of synthetic people with
    at least `1..t` ones, at periods `t = 1, 2, ...`."""
    unclamped: tuple[FloatArray, ...] = ()
    """Cumulative: the estimates in the ledger's measurements, in people, in the same shape."""

    @property
    def first(self) -> Period:
        """The period of the first counts."""
        return Period(self.contract.mechanism.k if isinstance(self.contract, WindowContract) else 1)

    def counts_at(self, period: int) -> IntArray:
        """Those of a period; of the first `k` periods, whose columns come together, those of period `k`."""
        return self.counts[max(period - self.first, 0)]


class WindowCounting:
    """Adds up a window release. Remembers the last window of every synthetic person."""

    def __init__(self, contract: WindowContract) -> None:
        self._contract = contract
        self._period = 0
        self._codes: IntArray | None = None
        self._counts: list[IntArray] = []

    def add(self, column: Column, measured: IntArray) -> None:
        """The next period's column."""
        mechanism = self._contract.mechanism
        if self._codes is None:
            self._codes = np.zeros(len(column), dtype=np.int64)
        self._codes %= mechanism.bins // mechanism.q
        self._codes *= mechanism.q
        self._codes += column
        self._period += 1
        if self._period >= mechanism.k:
            self._counts.append(np.bincount(self._codes, minlength=mechanism.bins).astype(np.int64))

    def latest_counts(self) -> IntArray | None:
        """Those of the last period, as in `History.counts`; None if there are none yet."""
        return self._counts[-1] if self._counts else None

    def history(self) -> History:
        """So far."""
        rows = 0 if self._codes is None else len(self._codes)
        return History(self._contract, rows, Period(self._period), tuple(self._counts))


class CumulativeCounting:
    """Adds up a cumulative release. Remembers the ones of every synthetic person, and what was measured."""

    def __init__(self, contract: CumulativeContract) -> None:
        self._contract = contract
        self._weights: IntArray | None = None
        self._measured: list[IntArray] = []
        """For each stream that has begun, all its rows."""
        self._counts: list[IntArray] = []
        self._unclamped: list[FloatArray] = []

    def add(self, column: Column, measured: IntArray) -> None:
        """The next period's column, and the noisy integers behind it."""
        if self._weights is None:
            self._weights = np.zeros(len(column), dtype=np.int64)
        self._weights += column
        period = Period(len(self._counts) + 1)
        exact = np.bincount(self._weights, minlength=period + 1)
        self._counts.append(np.cumsum(exact[::-1])[::-1][1:].astype(np.int64))
        fresh = measurements_of(self._contract, measured, period)
        self._measured.append(np.zeros(0, dtype=np.int64))
        self._measured = [np.concatenate(rows) for rows in zip(self._measured, fresh, strict=True)]
        self._unclamped.append(estimates(self._contract.mechanism, tuple(self._measured), period))

    def latest_counts(self) -> IntArray | None:
        """Those of the last period, as in `History.counts`; None if there are none yet."""
        return self._counts[-1] if self._counts else None

    def history(self) -> History:
        """So far."""
        period = Period(len(self._counts))
        return History(self._contract, self._contract.n, period, tuple(self._counts), tuple(self._unclamped))


Counting = WindowCounting | CumulativeCounting


def counting(contract: Contract) -> Counting:
    """Before the first column."""
    return WindowCounting(contract) if isinstance(contract, WindowContract) else CumulativeCounting(contract)
