"""The synthetic panel as an analyst holds it: columns that only ever grow, and answers with honest error bars."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from streamproc.errors import UnsupportedQuery
from streamproc.panel.accuracy import quantile, ratchet_halfwidth, window_stderr
from streamproc.panel.argument_checks import chance, check_is, describe_value, integer
from streamproc.panel.query import AtLeast, LastSymbols, Query
from streamproc.privacy.types import FloatArray, IntArray, Period
from streamproc.releases.contract import Contract, CumulativeContract, WindowContract
from streamproc.releases.cumulative import beyond_nearest, estimates
from streamproc.releases.step import Column, Step
from streamproc.releases.window import beyond_rounding, estimated_counts
from streamproc.study import bin_labels

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


@dataclass(frozen=True)
class Answer:
    """An estimated share of the `n` real people, in `[0, 1]` up to noise."""

    query: str
    period: Period
    value: float
    stderr: float
    """Standard error of the unclamped estimate."""
    low: float
    high: float
    """The interval covers the truth with probability `level`, as nearly as docs/privacy.md says."""
    level: float
    clamped: bool | None = None
    """Whether clamping moved a count that the value is made of, so that the value is biased and, of a window release, the
    interval too narrow. None if the panel has no measurements, without which it cannot be known."""


@dataclass(frozen=True, eq=False, repr=False)
class Panel:
    """One release, as far as it has been published. It never changes in place; `extended` makes the next one."""

    contract: Contract
    columns: tuple[Column, ...] = ()
    """The symbols of every synthetic individual, as alphabet indices, for periods `1..t`."""
    measurements: tuple[Sequence[IntArray], ...] | None = ()
    """The noisy measurements of each period, from the ledger; None if only the columns are known."""

    def __post_init__(self) -> None:
        for column in self.columns:
            if column.shape != (self.rows,):
                raise ValueError(f"columns of {self.rows} and {len(column)} synthetic people in one panel")
            if column.size and int(column.max()) >= len(self.contract.alphabet):
                raise ValueError(f"a column holds a symbol outside the alphabet of {len(self.contract.alphabet)}")
        measured = None if self.measurements is None else len(self.measurements)
        if isinstance(self.contract, CumulativeContract) and measured not in (None, len(self.columns)):
            raise ValueError(f"{len(self.columns)} columns but measurements of {measured} periods; None if they are unknown")

    def __repr__(self) -> str:
        return f"Panel(release={self.contract.name!r}, kind={self.contract.kind!r}, rows={self.rows}, period={self.period})"

    @property
    def rows(self) -> int:
        """`n*`: synthetic individuals; 0 before the first column."""
        return len(self.columns[0]) if self.columns else 0

    @property
    def period(self) -> Period:
        """The last period released."""
        return Period(len(self.columns))

    def extended(self, step: Step) -> Panel:
        """The panel after one more period."""
        measurements = None if self.measurements is None else (*self.measurements, step.measurements)
        return replace(self, columns=(*self.columns, *step.columns), measurements=measurements)

    def counts(self, period: int | None = None) -> IntArray:
        """Synthetic people in each bin (window), or with at least `1..t` ones (cumulative); padding included."""
        at = self._released(period)
        if isinstance(self.contract, WindowContract):
            mechanism = self.contract.mechanism
            codes = np.zeros(self.rows, dtype=np.int64)
            for column in self.columns[max(at - mechanism.k, 0) : max(at, mechanism.k)]:
                codes = codes * mechanism.q + column
            return np.bincount(codes, minlength=mechanism.bins).astype(np.int64)
        ones = np.sum(self.columns[:at], axis=0, dtype=np.int64)
        exact = np.bincount(ones, minlength=at + 1)
        return np.cumsum(exact[::-1])[::-1][1:].astype(np.int64)

    def bins(self, period: int | None = None) -> dict[str, int]:
        """`counts` by label."""
        if isinstance(self.contract, WindowContract):
            labels = bin_labels(self.contract.alphabet, self.contract.mechanism.k)
        else:
            labels = [str(b) for b in range(1, self._released(period) + 1)]
        return dict(zip(labels, self.counts(period).tolist(), strict=True))

    def fraction(self, query: Query, period: int | None = None, *, level: float = 0.95) -> Answer:
        """The estimated share of real people for whom `query` holds at `period` (default: the last)."""
        check_is("a question", query, (LastSymbols, AtLeast), "made by exactly, count_of, in_a_row, LastSymbols or AtLeast")
        level = chance(f"{query.name}: a confidence level", level)
        at = self._released(period)
        if isinstance(self.contract, WindowContract):
            if not isinstance(query, LastSymbols):
                raise UnsupportedQuery(
                    f"{query.name}: release {self.contract.name} is of kind window, whose synthetic people follow real "
                    f"ones over {self.contract.mechanism.k} periods only; ask a cumulative release"
                )
            weights = query.weights(self.contract, at)
            clamped = bool(self._clamped(self.contract, at)[weights > 0].any()) if self._is_measured(at) else None
            return window_answer(self.contract, query.name, weights, self.counts(at), at, level, clamped)
        if not isinstance(query, AtLeast):
            raise UnsupportedQuery(
                f"{query.name}: release {self.contract.name} is of kind cumulative and knows only how many ones people "
                "have had, not when; ask a window release"
            )
        return self._at_least(self.contract, query, at, level)

    def to_arrow(self) -> pa.Table:
        """Columns `synthetic,1,...,t`, symbols as dictionaries; the contract and the measurements travel in the schema."""
        from streamproc.panel.frames import panel_to_arrow

        return panel_to_arrow(self)

    @classmethod
    def from_arrow(cls, table: pa.Table, contract: Contract | None = None) -> Panel:
        """The panel of `to_arrow`; a table from elsewhere needs the contract."""
        from streamproc.panel.frames import panel_from_arrow

        return panel_from_arrow(table, contract)

    def to_pandas(self) -> pd.DataFrame:
        """Columns `synthetic,1,...,t`, symbols as categories; the contract and the measurements stay behind."""
        from streamproc.panel.frames import panel_to_pandas

        return panel_to_pandas(self)

    @classmethod
    def from_pandas(
        cls, frame: pd.DataFrame, contract: Contract, measurements: tuple[Sequence[IntArray], ...] | None = None
    ) -> Panel:
        """The panel of `to_pandas`, with the release's contract and, for the narrowest intervals, its measurements."""
        from streamproc.panel.frames import panel_from_pandas

        return panel_from_pandas(frame, contract, measurements)

    def _at_least(self, contract: CumulativeContract, query: AtLeast, at: Period, level: float) -> Answer:
        mechanism, b = contract.mechanism, query.b
        if not 1 <= b <= mechanism.horizon:
            raise UnsupportedQuery(f"{query.name}: b must lie between 1 and the horizon {mechanism.horizon}")
        if b > at:
            return Answer(query.name, at, 0.0, 0.0, 0.0, 0.0, level, None if self.measurements is None else False)
        count = self.counts(at)[b - 1 : b]
        value = float(count[0])
        sigma = mechanism.variance(b, at) ** 0.5
        if self.measurements is None:
            clamped = None
            centre, half = value, ratchet_halfwidth(mechanism, b, at, level)
        else:
            centre, half = float(self._unclamped(contract, at)[b - 1]), quantile(level) * sigma
            clamped = bool(beyond_nearest(count, np.array([centre]), contract.n)[0])
        low, high = min(centre - half, value), max(centre + half, value)
        n = contract.n
        return Answer(query.name, at, value / n, sigma / n, low / n, high / n, level, clamped)

    def _unclamped(self, contract: CumulativeContract, at: Period) -> FloatArray:
        assert self.measurements is not None
        by_weight = [np.concatenate([period[b] for period in self.measurements[b:at]]) for b in range(at)]
        return estimates(contract.mechanism, tuple(by_weight), at)

    def _is_measured(self, at: Period) -> bool:
        """Whether the measurements behind the column of `at` are known."""
        return self.measurements is not None and len(self.measurements) >= at

    def _clamped(self, contract: WindowContract, at: Period) -> npt.NDArray[np.bool_]:
        """The bins whose count at `at` was moved by clamping, then or while one of the window's older symbols was newest.

        Clamping moves people between newest symbols. The totals of the next `k-1` steps, which keep that symbol in the
        window, follow from the moved counts; after that the symbol has left the window.
        """
        k, q, last = contract.mechanism.k, contract.mechanism.q, max(at, contract.mechanism.k)
        clamped = np.zeros(contract.mechanism.bins, dtype=bool)
        for later in range(min(k, last - k + 1)):
            moved = self._moved(contract, last - later)
            clamped |= moved.reshape(q**later, -1).any(axis=0).repeat(q**later)
        return clamped

    def _moved(self, contract: WindowContract, at: int) -> npt.NDArray[np.bool_]:
        """The bins whose count at `at` is beyond rounding of its estimate."""
        assert self.measurements is not None
        if at not in self._moved_bins:
            before = self.counts(at - 1) if at > contract.mechanism.k else None
            numerators, denominator = estimated_counts(contract, self.measurements[at - 1][0], before)
            counts = self.counts(at).reshape(numerators.shape)
            self._moved_bins[at] = beyond_rounding(counts, numerators, denominator).ravel()
        return self._moved_bins[at]

    @cached_property
    def _moved_bins(self) -> dict[int, npt.NDArray[np.bool_]]:
        """By period, so that each is computed once."""
        return {}

    def _released(self, period: int | None) -> Period:
        at = self.period if period is None else integer(f"release {self.contract.name}: period", period)
        if not 1 <= at <= self.period:
            have = f"periods 1..{self.period} are" if self.period else "nothing is"
            asked = f"release {self.contract.name}: period {describe_value(at)} was asked for"
            raise UnsupportedQuery(f"{asked}, but {have} released so far")
        return Period(at)


def window_answer(
    contract: WindowContract,
    name: str,
    weights: FloatArray,
    counts: IntArray,
    period: Period,
    level: float,
    clamped: bool | None = None,
) -> Answer:
    """Debiased: the padding of each bin is subtracted, and what is left is divided by `n`, not by `n*`."""
    value = float(weights @ counts) - contract.n_pad * float(weights.sum())
    stderr = window_stderr(contract.mechanism, weights, period)
    half = quantile(level) * stderr
    n = contract.n
    return Answer(name, period, value / n, stderr / n, (value - half) / n, (value + half) / n, level, clamped)
