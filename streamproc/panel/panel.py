"""The synthetic panel of an analyst: its released columns never change, and it answers queries with error bars.

`make_answer` computes a value, its standard error and its interval from counts and estimates.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from streamproc.errors import UnsupportedQuery
from streamproc.privacy.types import FloatArray, IntArray, Period
from streamproc.releases.kind import Contract
from streamproc.releases.query import Query, argument_check, integer_argument, interval, level_argument, quantile
from streamproc.releases.step import Column, Measurements, Step
from streamproc.validation import describe_value

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


@dataclass(frozen=True)
class Answer:
    """An estimated share of the `n` real people, in `[0, 1]` up to noise.

    >>> str(sp.Answer("1 in at least 2 of the last 3", 6, 0.143, 0.0043, 0.1344, 0.1514, 0.95))
    '14.3% (13.4% to 15.1%)'
    """

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
    """Whether clamping changed a count that the value depends on. The value is then biased and, for a window release, the
    interval is too narrow. None if the panel has no measurements, without which this is unknown."""

    def __str__(self) -> str:
        return f"{self.value:.1%} ({self.low:.1%} to {self.high:.1%})"


def make_answer(
    contract: Contract,
    name: str,
    period: Period,
    weights: FloatArray,
    counts: IntArray,
    estimates: FloatArray | None,
    level: float,
    *,
    stderr: float | None = None,
    half: float | None = None,
    clamped: bool | None = None,
) -> Answer:
    """The answer to a query that weighs the released counts of a period by `weights`.

    The padding of each count is subtracted, and the rest is divided by `n`, not by the number of synthetic people. The
    interval is centred on the unclamped `estimates` if the release has them, otherwise on the value. `stderr`, the standard
    error, and `half`, the half-width of the interval (both in people), are computed if they are not given.
    """
    value = float(weights @ counts) - contract.padding(period) * float(weights.sum())
    centre = value if estimates is None else float(weights @ estimates)
    error = contract.stderr(weights, period) if stderr is None else stderr
    low, high = interval(value, centre, quantile(level) * error if half is None else half)
    n = contract.n
    return Answer(name, period, value / n, error / n, float(low) / n, float(high) / n, level, clamped)


@dataclass(frozen=True, eq=False, repr=False)
class Panel:
    """One release, as far as it has been published. It is immutable; `extended` returns the next panel."""

    contract: Contract
    columns: tuple[Column, ...] = ()
    """The symbols of every synthetic individual, as alphabet indices, for periods `1..t`."""
    measurements: tuple[Measurements, ...] | None = ()
    """The noisy measurements of each period, from the ledger; None if only the columns are known."""

    def __post_init__(self) -> None:
        for column in self.columns:
            if column.shape != (self.rows,):
                raise ValueError(f"columns of {self.rows} and {len(column)} synthetic people in one panel")
            if column.size and int(column.max()) >= len(self.contract.alphabet):
                raise ValueError(f"a column holds a symbol outside the alphabet of {len(self.contract.alphabet)}")
        measured = None if self.measurements is None else len(self.measurements)
        if self.contract.first_column == 1 and measured not in (None, len(self.columns)):
            raise ValueError(f"{len(self.columns)} columns but measurements of {measured} periods; pass None if unknown")

    def __repr__(self) -> str:
        return f"Panel(release={self.contract.name!r}, kind={self.contract.kind!r}, rows={self.rows}, period={self.period})"

    @property
    def rows(self) -> int:
        """`n*`, the number of synthetic individuals; 0 before the first column."""
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
        """The released counts of a period (default: the last), padding included, in the order of `contract.labels`.

        Window: synthetic people with each window of `k` symbols. Cumulative: those with at least 1, 2, ... events.
        """
        at = self._released(period)
        if at not in self._known_counts:
            counter, counts = self.contract.new_counter(), None
            for place in self.contract.columns_behind(at):
                counts = counter.add(self.columns[place])
            assert counts is not None
            self._known_counts[at] = counts
        return self._known_counts[at]

    def bins(self, period: int | None = None) -> dict[str, int]:
        """`counts` by label."""
        at = self._released(period)
        return dict(zip(self.contract.labels(at), self.counts(at).tolist(), strict=True))

    def fraction(self, query: Query, period: int | None = None, *, level: float = 0.95) -> Answer:
        """The estimated share of real people for whom `query` holds at `period` (default: the last).

        Raises UnsupportedQuery if the release cannot answer it.
        """
        made_by = "made by ask, exactly, count_of, in_a_row, at_least, in_spell, matched or LastSymbols"
        argument_check.require("a question", query, isinstance(query, Query), made_by)
        level = level_argument(f"{query.name}: a confidence level", level)
        at = self._released(period)
        weights, counts = self.contract.query_weights(query, at), self.counts(at)
        if self.measurements is None or len(self.measurements) < at:
            half = self.contract.columns_only_halfwidth(weights, at, level)
            return make_answer(self.contract, query.name, at, weights, counts, None, level, half=half)
        estimates = self.contract.estimates(self.measurements, at)
        moved = self.contract.clamped_counts(self.counts, self.measurements, estimates, at)
        clamped = bool(moved[weights != 0].any())
        return make_answer(self.contract, query.name, at, weights, counts, estimates, level, clamped=clamped)

    def change(self, query: Query, first: int, last: int, *, level: float = 0.95) -> Answer:
        """How much the share of `fraction` has changed from period `first` to period `last`.

        The interval accounts for the noise that both periods share. Raises UnsupportedQuery as `fraction` does.
        """
        start, end = self._released(first), self._released(last)
        if not start < end:
            raise UnsupportedQuery(f"{query.name}: a change goes from a period to a later one, got {first} and {last}")
        before, after = self.fraction(query, start, level=level), self.fraction(query, end, level=level)
        contract, n = self.contract, self.contract.n
        early, late = contract.query_weights(query, start), contract.query_weights(query, end)
        shared = contract.covariance(late, end, early, start) / n**2
        error = max(before.stderr**2 + after.stderr**2 - 2 * shared, 0.0) ** 0.5
        value, half = after.value - before.value, quantile(level) * error
        centre = (after.low + after.high) / 2 - (before.low + before.high) / 2
        if self.measurements is not None and len(self.measurements) >= end:
            centre = self._centre(late, end) - self._centre(early, start)
        else:  # each half-width bounds what clamping may have done
            half = (after.high - after.low + before.high - before.low) / 2
        low, high = interval(value, centre, half)
        clamped = None if after.clamped is None else bool(before.clamped or after.clamped)
        return Answer(query.name, end, value, error, float(low), float(high), level, clamped)

    def _centre(self, weights: FloatArray, period: Period) -> float:
        """The share before clamping if the release has estimates of it, else the released one."""
        assert self.measurements is not None
        estimates = self.contract.estimates(self.measurements, period)
        debiased = self.counts(period) - self.contract.padding(period) if estimates is None else estimates
        return float(weights @ debiased) / self.contract.n

    def to_arrow(self) -> pa.Table:
        """An Arrow table `synthetic,1,...,t`, symbols as dictionaries; its schema holds the contract and measurements."""
        from streamproc.panel.frames import panel_to_arrow

        return panel_to_arrow(self)

    @classmethod
    def from_arrow(cls, table: pa.Table, contract: Contract | None = None) -> Panel:
        """The panel in a table of `to_arrow`. A table that another program made needs the contract."""
        from streamproc.panel.frames import panel_from_arrow

        return panel_from_arrow(table, contract)

    def to_pandas(self) -> pd.DataFrame:
        """A frame `synthetic,1,...,t`, symbols as categories, without the contract and the measurements."""
        from streamproc.panel.frames import panel_to_pandas

        return panel_to_pandas(self)

    @classmethod
    def from_pandas(
        cls, frame: pd.DataFrame, contract: Contract, measurements: tuple[Measurements, ...] | None = None
    ) -> Panel:
        """The panel in a frame of `to_pandas`. The measurements, if they are given, make intervals narrower."""
        from streamproc.panel.frames import panel_from_pandas

        return panel_from_pandas(frame, contract, measurements)

    @cached_property
    def _known_counts(self) -> dict[Period, IntArray]:
        """The counts by period, so that each is computed once."""
        return {}

    def _released(self, period: int | None) -> Period:
        at = self.period if period is None else integer_argument(f"release {self.contract.name}: period", period)
        if not 1 <= at <= self.period:
            have = f"periods 1..{self.period} are" if self.period else "nothing is"
            asked = f"release {self.contract.name}: period {describe_value(at)} was asked for"
            raise UnsupportedQuery(f"{asked}, but {have} released so far")
        return Period(at)
