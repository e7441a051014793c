"""The synthetic panel of an analyst: its released columns never change, and it answers queries with error bars.

`make_answer` computes a value, its standard error and its interval from counts and estimates.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal, TypeAlias

from streamproc.errors import UnsupportedQuery
from streamproc.panel.open_columns import OpenColumns
from streamproc.panel.ratios import Covariance, is_certain, ratio
from streamproc.privacy.types import FloatArray, IntArray, Period
from streamproc.releases.kind import BoolArray, Contract
from streamproc.releases.open_flow import OpenContract
from streamproc.releases.open_retention import entry_periods, retained, retained_clamped, retention_covariance
from streamproc.releases.query import Query, argument_check, integer_argument, interval, level_argument, quantile
from streamproc.releases.step import Column, Measurements, Step
from streamproc.validation import describe_value

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

Unit: TypeAlias = Literal["share", "people"]
"""What a value counts: a share of people, or people."""


@dataclass(frozen=True)
class Answer:
    """An estimated share, in `[0, 1]` up to noise, or an estimated number of people.

    A share is that of the `n` real people, in an open study that of the people among whom the question asks.

    >>> str(sp.Answer("1 in at least 2 of the last 3", 6, 0.143, 0.0043, 0.1344, 0.1514, 0.95))
    '14.3% (13.4% to 15.1%)'
    >>> str(sp.Answer("present", 6, 1520.0, 60.0, 1404.2, 1639.4, 0.95, unit="people"))
    '1,520 (1,404 to 1,639)'
    """

    query: str
    period: Period
    value: float
    stderr: float
    """Standard error of the unclamped estimate; of a ratio, to first order in the noise."""
    low: float
    high: float
    """The interval covers the truth with probability `level`, as nearly as docs/privacy.md says."""
    level: float
    clamped: bool | None = None
    """Whether clamping changed a count that the value depends on. The value is then biased and, for a window release of a
    closed study, the interval is too narrow. None if the panel has no measurements, without which this is unknown."""
    unit: Unit = "share"

    def __str__(self) -> str:
        if self.unit == "people":
            return f"{self.value:,.0f} ({self.low:,.0f} to {self.high:,.0f})"
        return f"{self.value:.1%} ({self.low:.1%} to {self.high:.1%})"


@dataclass(frozen=True, eq=False)
class Denominator:
    """The people among whom a question of an open study asks for a share."""

    weights: FloatArray
    """The people, as weights on the counts of the period."""
    covariance: Covariance
    """Of the question's people and these."""


def denominator_of(contract: Contract, query: Query, weights: FloatArray, period: Period) -> Denominator | None:
    """The people among whom `query`, which has these weights, asks for a share; None stands for all `n`.

    Raises UnsupportedQuery if it asks for a number.
    """
    among = contract.denominator_weights(query, period)
    if among is None:
        return None
    pairs = ((weights, weights), (weights, among), (among, among))
    return Denominator(among, Covariance(*(contract.covariance(one, period, other, period) for one, other in pairs)))


def make_answer(
    contract: Contract,
    name: str,
    period: Period,
    weights: FloatArray,
    counts: IntArray,
    estimates: FloatArray | None,
    level: float,
    *,
    among: Denominator | None = None,
    unit: Unit = "share",
    stderr: float | None = None,
    half: float | None = None,
    clamped: bool | None = None,
) -> Answer:
    """The answer to a query that weighs the released counts of a period by `weights`.

    The padding of each count is subtracted. A share is divided by `n`, not by the number of synthetic people, or by the
    count of `among`; the latter raises UnsupportedQuery if noise could have made that count. The interval is centred on the
    unclamped `estimates` if the release has them, otherwise on the value. `stderr`, the standard error, and `half`, the
    half-width of the interval (both in people), are computed if they are not given; a ratio has neither.
    """
    if among is not None:
        values = [
            (float(weights @ known), float(among.weights @ known)) for known in (counts, estimates) if known is not None
        ]
        return ratio_answer(name, period, values[0], values[-1], among.covariance, level, clamped=clamped)
    value = float(weights @ counts) - contract.padding(period) * float(weights.sum())
    centre = value if estimates is None else float(weights @ estimates)
    error = contract.stderr(weights, period) if stderr is None else stderr
    low, high = interval(value, centre, quantile(level) * error if half is None else half)
    n = contract.n if unit == "share" else 1
    return Answer(name, period, value / n, error / n, float(low) / n, float(high) / n, level, clamped, unit)


def ratio_answer(
    name: str,
    period: Period,
    released: tuple[float, float],
    estimated: tuple[float, float],
    covariance: Covariance,
    level: float,
    *,
    clamped: bool | None = None,
) -> Answer:
    """The ratio of two released counts, with the Fieller interval of their estimates, extended to hold the ratio.

    Raises UnsupportedQuery if noise could have made the denominator.
    """
    if not is_certain(estimated[1], covariance.denominator, level) or released[1] <= 0:
        people, noise = f"{estimated[1]:,.0f}", f"{covariance.denominator**0.5:,.0f}"
        raise UnsupportedQuery(
            f"{name}: in period {period} the share is among an estimated {people} people with a standard error of {noise}, "
            "which noise alone could make; ask Panel.people, or about a larger group"
        )
    found = ratio(*estimated, covariance, level)
    value = released[0] / released[1]
    return Answer(name, period, value, found.stderr, min(found.low, value), max(found.high, value), level, clamped)


@dataclass(frozen=True, eq=False, repr=False)
class Panel:
    """One release, as far as it has been published. It is immutable; `extended` returns the next panel."""

    contract: Contract
    columns: tuple[Column, ...] = ()
    """The entries of periods `1..t` as alphabet indices: the symbol of every synthetic individual. In an open study a column
    has entries for those who are present, of whom some leave: see `releases.open_flow`."""
    measurements: tuple[Measurements, ...] | None = ()
    """The noisy measurements of each period, from the ledger; None if only the columns are known."""
    followed: OpenColumns | None = None
    """In an open study, the same columns with their counts. A panel computes what is missing."""

    def __post_init__(self) -> None:
        if isinstance(self.contract, OpenContract):
            known = self.followed
            if known is None or known.contract is not self.contract or not known.is_prefix_of(self.columns):
                known = OpenColumns.before_period_1(self.contract)
            object.__setattr__(self, "followed", known.followed_by(self.columns[len(known.columns) :]))
        else:
            self._check_columns()
        measured = None if self.measurements is None else len(self.measurements)
        if self.contract.first_column == 1 and measured not in (None, len(self.columns)):
            raise ValueError(f"{len(self.columns)} columns but measurements of {measured} periods; pass None if unknown")

    def _check_columns(self) -> None:
        for column in self.columns:
            if column.shape != (self.rows,):
                raise ValueError(f"columns of {self.rows} and {len(column)} synthetic people in one panel")
            if column.size and int(column.max()) >= len(self.contract.alphabet):
                raise ValueError(f"a column holds a symbol outside the alphabet of {len(self.contract.alphabet)}")

    def __repr__(self) -> str:
        return f"Panel(release={self.contract.name!r}, kind={self.contract.kind!r}, rows={self.rows}, period={self.period})"

    @property
    def rows(self) -> int:
        """Number of synthetic individuals, `n*`; in an open study those so far, also those who have left."""
        if self.followed is not None:
            return self.followed.rows
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

        Window: synthetic people with each window of `k` symbols. Cumulative: those with at least 1, 2, ... events. In an
        open study the last three counts are the people who are present, who entered and who left.
        """
        at = self._released(period)
        if self.followed is not None:
            return self.followed.counts[at - 1]
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

        In an open study the share is among the people who have been present for as many periods as the query looks at, and
        its interval is Fieller's. Raises UnsupportedQuery if the release cannot answer it, or if noise could have made the
        number of people among whom it asks.
        """
        at, level = self._checked(query, period, level)
        weights = self.contract.query_weights(query, at)
        return self._answer(query, at, weights, level, denominator_of(self.contract, query, weights, at), "share")

    def people(self, query: Query, period: int | None = None, *, level: float = 0.95) -> Answer:
        """The estimated number of real people for whom `query` holds at `period` (default: the last).

        In an open study, `present()`, `entered()` and `left()` ask how many people are present, entered and left. Raises
        UnsupportedQuery if the release cannot answer it.
        """
        at, level = self._checked(query, period, level)
        return self._answer(query, at, self.contract.query_weights(query, at), level, None, "people")

    def retention(self, period: int | None = None, *, within: int | None = None, level: float = 0.95) -> Answer:
        """Of those who entered an open study in the last `tenure` periods, the estimated share who are still present.

        `within` is a number of periods other than the tenure. It is refused (UnsupportedQuery), because a release measures
        who is present and not when they entered: only of the whole tenure is it known that everybody present entered in it.
        """
        contract = self.contract
        name = "retention"
        if not isinstance(contract, OpenContract):
            raise UnsupportedQuery(f"{name}: release {contract.name} is of a study in which nobody enters or leaves")
        level = level_argument(f"{name}: a confidence level", level)
        at = self._released(period)
        if within is not None and integer_argument(f"{name}: within", within) != contract.tenure:
            raise UnsupportedQuery(
                f"{name}: of those who entered within {within} periods it is not measured how many are present; release "
                f"{contract.name} can tell of those who entered in the last {contract.tenure} periods, the tenure, because "
                "everybody who is present entered in them"
            )
        periods = entry_periods(contract, at)
        released = retained([self.counts(place) for place in periods])
        covariance = Covariance(*retention_covariance(contract, at))
        if not self._is_measured(at):
            return ratio_answer(name, at, released, released, covariance, level)
        estimated = retained([self._estimates[place - 1] for place in periods])
        clamped = retained_clamped([self._clamped_counts(Period(place)) for place in periods])
        return ratio_answer(name, at, released, estimated, covariance, level, clamped=clamped)

    def _checked(self, query: Query, period: int | None, level: float) -> tuple[Period, float]:
        made_by = "made by ask, exactly, count_of, in_a_row, at_least, in_spell, matched, present or LastSymbols"
        argument_check.require("a question", query, isinstance(query, Query), made_by)
        level = level_argument(f"{query.name}: a confidence level", level)
        return self._released(period), level

    def _answer(
        self, query: Query, at: Period, weights: FloatArray, level: float, among: Denominator | None, unit: Unit
    ) -> Answer:
        contract, counts = self.contract, self.counts(at)
        if not self._is_measured(at):
            half = contract.columns_only_halfwidth(weights, at, level)
            return make_answer(contract, query.name, at, weights, counts, None, level, among=among, unit=unit, half=half)
        depends = weights != 0 if among is None else (weights != 0) | (among.weights != 0)
        clamped = bool(self._clamped_counts(at)[depends].any())
        estimates = self._estimates_of(at)
        return make_answer(
            contract, query.name, at, weights, counts, estimates, level, among=among, unit=unit, clamped=clamped
        )

    def _is_measured(self, at: Period) -> bool:
        return self.measurements is not None and len(self.measurements) >= at

    def _estimates_of(self, at: Period) -> FloatArray | None:
        assert self.measurements is not None
        if isinstance(self.contract, OpenContract):
            return self._estimates[at - 1]
        return self.contract.estimates(self.measurements, at)

    def _clamped_counts(self, at: Period) -> BoolArray:
        assert self.measurements is not None
        return self.contract.clamped_counts(self.counts, self.measurements, self._estimates_of(at), at)

    def change(self, query: Query, first: int, last: int, *, level: float = 0.95) -> Answer:
        """How much the share of `fraction` has changed from period `first` to period `last`.

        The interval accounts for the noise that both periods share; in an open study, whose shares are ratios, to first
        order in the noise. If the query asks for a number of people, so is the change. Raises UnsupportedQuery as `fraction`
        does.
        """
        start, end = self._released(first), self._released(last)
        if not start < end:
            raise UnsupportedQuery(f"{query.name}: a change goes from a period to a later one, got {first} and {last}")
        if self.contract.is_open:
            return self._open_change(query, start, end, level)
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

    def _open_change(self, query: Query, start: Period, end: Period, level: float) -> Answer:
        asked = self.people if query.asks_number else self.fraction
        before, after = asked(query, start, level=level), asked(query, end, level=level)
        (early, early_centre), (late, late_centre) = self._linearised(query, start), self._linearised(query, end)
        contract = self.contract
        shared = contract.covariance(late, end, early, start)
        error = max(contract.stderr(late, end) ** 2 + contract.stderr(early, start) ** 2 - 2 * shared, 0.0) ** 0.5
        value = after.value - before.value
        low, high = interval(value, late_centre - early_centre, quantile(after.level) * error)
        clamped = None if after.clamped is None else bool(before.clamped or after.clamped)
        return Answer(query.name, end, value, error, float(low), float(high), after.level, clamped, after.unit)

    def _linearised(self, query: Query, at: Period) -> tuple[FloatArray, float]:
        """The weights with which errors of the counts enter the answer to first order, and the answer before clamping.

        A ratio `r = x / y` has the error `(dx - r dy) / y`.
        """
        weights = self.contract.query_weights(query, at)
        estimates = self._estimates_of(at) if self._is_measured(at) else self.counts(at).astype(float)
        assert estimates is not None
        among = None if query.asks_number else self.contract.denominator_weights(query, at)
        if among is None:
            return weights, float(weights @ estimates)
        whole = float(among @ estimates)
        share = float(weights @ estimates) / whole
        return (weights - share * among) / whole, share

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
    def _estimates(self) -> list[FloatArray]:
        """The estimates of every period before clamping, in one pass over the measurements of a study without an end."""
        assert self.measurements is not None
        estimator, estimates = self.contract.new_estimator(), []
        assert estimator is not None
        for measured in self.measurements:
            estimator.add(measured)
            estimates.append(estimator.estimates())
        return estimates

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
