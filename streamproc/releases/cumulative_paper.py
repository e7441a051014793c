"""Cumulative releases as in the paper's Algorithm 2, with `measure = "paper"`.

The counts of period `t` are those of the people with at least 1, 2, ..., `t` events. A column holds 1 for each synthetic
person with an event in that period.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np
import numpy.typing as npt

from streamproc.errors import UnsupportedQuery
from streamproc.privacy.adjacency import Adjacency
from streamproc.privacy.counters import tree_counter
from streamproc.privacy.cumulative import CumulativeMechanism
from streamproc.privacy.noise import NoiseSource
from streamproc.privacy.types import FloatArray, IntArray, Period, Rho
from streamproc.releases.cumulative import EVER_ONE, NO_EVENT, check_event, describe_cumulative, parse_at_least
from streamproc.releases.cumulative_paper_synthesis import (
    CumulativeState,
    StreamEstimator,
    beyond_nearest,
    compare_sums,
    estimates,
    step_cumulative,
    streams_of,
)
from streamproc.releases.kind import NUMBER_BYTES, Arrays, BoolArray, Contract, ReleaseState, Tallier
from streamproc.releases.query import AtLeast, EventCount, Query, declared, kind_for, upper_quantile
from streamproc.releases.row_assignment import ARRAYS_PER_MOVED_ROW, Codes, max_moved_rows
from streamproc.releases.step import (
    Column,
    ColumnCounter,
    Comparison,
    Description,
    Measurements,
    NamedQuery,
    ReleasedPeriod,
    Step,
    StepMemory,
)
from streamproc.study import CumulativeRelease, Release, Study
from streamproc.study.releases import MAX_CUMULATIVE_HORIZON
from streamproc.validation import Validator


class CumulativePaperTallier(Tallier):
    """Counts the real people who have their `b`-th event in a period, for each `b`. Stores the events of each person."""

    def __init__(self, study: Study, release: CumulativeRelease) -> None:
        self._horizon = study.last_period
        self._is_event = release.event_mask(study.alphabet)

    @property
    def size(self) -> int:
        return self._horizon

    def initial_state(self, people: int) -> npt.NDArray[np.uint16]:
        return np.zeros(people, dtype=np.uint16)

    def tally(
        self, period: Period, windows: Codes, symbols: npt.NDArray[np.uint8], state: npt.NDArray[Any] | None
    ) -> tuple[npt.NDArray[Any], IntArray]:
        assert state is not None
        events = self._is_event[symbols]
        after = state + events
        reached = np.bincount(after[events], minlength=self._horizon + 1)
        return after, reached[1:].astype(np.int64)

    def is_possible(self, counts: IntArray, people: int, period: Period) -> bool:
        """Whether the counts can be those of people who had at most one event each in the period."""
        return int(counts.sum()) <= people


class EventCounter(ColumnCounter):
    """Counts the events of synthetic people."""

    def __init__(self) -> None:
        self._columns = 0
        self.codes = np.zeros(0, dtype=np.uint16)

    def add(self, column: Column) -> IntArray:
        self.codes = self.codes + column if self._columns else column.astype(np.uint16)
        self._columns += 1
        exact = np.bincount(self.codes, minlength=self._columns + 1)
        return np.cumsum(exact[::-1])[::-1][1:].astype(np.int64)


@dataclass(frozen=True, kw_only=True)
class CumulativePaperContract(Contract):
    """The public parameters of a cumulative release."""

    mechanism: CumulativeMechanism
    event: tuple[str, ...]
    """The symbols of the study that count as an event."""

    kind: ClassVar[str] = "cumulative"
    measure: ClassVar[str] = "paper"
    max_horizon: ClassVar[int] = MAX_CUMULATIVE_HORIZON
    zero_out_has_neighbours: ClassVar[bool] = True
    zero_out_meaning: ClassVar[str] = NO_EVENT

    @classmethod
    def describe(cls, release: Release) -> Description:
        return describe_cumulative()

    # Made from a study

    @classmethod
    def make_mechanism(cls, study: Study, release: Release, rho: Rho) -> CumulativeMechanism:
        assert isinstance(release, CumulativeRelease)
        declared(study, release, lambda query: _threshold_in(query, release.name, study.last_period))
        return CumulativeMechanism.calibrated(
            horizon=study.last_period,
            adjacency=study.privacy.adjacency,
            rho=rho,
        )

    @classmethod
    def make(cls, study: Study, release: Release, n: int, rho: Rho, *, insecure: bool) -> CumulativePaperContract:
        assert isinstance(release, CumulativeRelease)
        return cls(
            name=release.name,
            alphabet=release.column_alphabet(study.alphabet),
            n=n,
            rho=rho,
            mechanism=cls.make_mechanism(study, release, rho),
            insecure=insecure,
            event=release.event,
        )

    # Written and read

    def own_values(self) -> dict[str, Any]:
        return {
            "event": list(self.event),
            "sigmas": list(self.mechanism.sigmas),
        }

    @classmethod
    def from_values(cls, values: Mapping[str, Any], alphabet: tuple[str, ...], check: Validator) -> CumulativePaperContract:
        check_event(values, alphabet, check)
        sigmas = check.sequence("sigmas", values["sigmas"])
        check.require("sigmas", values["sigmas"], len(sigmas) == values["horizon"], "one for each period")
        for sigma in sigmas:
            check.positive_float("sigmas", sigma)
        return cls(
            name=values["release"],
            alphabet=alphabet,
            n=values["n"],
            rho=Rho(values["rho"]),
            mechanism=CumulativeMechanism(tree_counter(values["horizon"]), Adjacency(values["adjacency"]), sigmas),
            insecure=values["insecure"],
            event=tuple(values["event"]),
        )

    # Rows and columns

    @property
    def expected_rows(self) -> int:
        """As many synthetic people as real ones."""
        return self.n

    # Synthesis

    def initial_state(self) -> CumulativeState:
        return CumulativeState.initial(self)

    def step(self, state: ReleaseState, tally: IntArray, noise: NoiseSource) -> tuple[CumulativeState, Step]:
        return step_cumulative(self, cast(CumulativeState, state), tally, noise)

    def rows(self, state: ReleaseState) -> int | None:
        return self.n if state.period else None

    def released_counts(self, state: ReleaseState) -> IntArray | None:
        return cast(CumulativeState, state).sums[1 : state.period + 1] if state.period else None

    def measurement_sizes(self, period: Period) -> list[int]:
        """One array for each stream that has begun, `b = 1..period`."""
        rows = [self.mechanism.counter.rows_at(period - b + 1) for b in range(1, period + 1)]
        return [part.stop - part.start for part in rows]

    # State files

    def state_arrays(self, state: ReleaseState) -> Arrays:
        cumulative = cast(CumulativeState, state)
        return {
            "weights": cumulative.weights,
            "sums": cumulative.sums,
            "tallies": cumulative.tallies[: cumulative.period],
            "measured": np.concatenate(cumulative.measured),
        }

    def state_from_arrays(self, period: Period, arrays: Mapping[str, npt.NDArray[Any]]) -> CumulativeState:
        counts = self.mechanism.counter
        lengths = [counts.rows_at(period - b + 1).stop if b <= period else 0 for b in range(1, counts.length + 1)]
        measured = tuple(np.split(arrays["measured"], np.cumsum(lengths)[:-1]))
        return self._state(period, arrays["weights"], arrays["tallies"], measured)

    def rebuild_state(
        self, columns: Sequence[Column], tallies: Sequence[IntArray], measurements: Sequence[Measurements]
    ) -> CumulativeState:
        period, events = Period(len(tallies)), self.new_counter()
        for column in columns:
            events.add(column)
        weights = events.codes if columns else np.zeros(self.n, dtype=np.uint16)
        none = np.zeros(0, dtype=np.int64)
        measured = (*streams_of(measurements, period), *[none] * (self.horizon - period))
        stacked = np.stack(tallies) if tallies else np.zeros((0, self.horizon), dtype=np.int64)
        return self._state(period, weights, stacked, measured)

    def _state(self, period: Period, weights: Codes, tallies: IntArray, measured: tuple[IntArray, ...]) -> CumulativeState:
        exactly = np.bincount(weights, minlength=self.horizon + 1)
        padded = np.zeros((self.horizon, self.horizon), dtype=np.int64)
        padded[:period] = tallies
        return CumulativeState(period, weights, np.cumsum(exactly[::-1])[::-1].astype(np.int64), padded, measured)

    @property
    def row_bytes(self) -> int:
        return np.dtype(np.uint16).itemsize

    def state_numbers(self, period: Period) -> int:
        # The measurements of this period are in the state and are also published.
        return self.horizon + 1 + period * self.horizon + 2 * self._measured_by(period)

    def step_memory(self, period: Period, rows: int) -> StepMemory:
        numbers = self.horizon * self.horizon + 2 * self._measured_by(period) + 8 * self.horizon
        moved = max_moved_rows(rows, 2 * (period + 1), period + 1)
        kept = rows * (self.row_bytes + 1) + NUMBER_BYTES * numbers
        return StepMemory(kept, NUMBER_BYTES * ARRAYS_PER_MOVED_ROW * moved)

    def _measured_by(self, period: Period) -> int:
        """Noisy rows of all streams up to this period."""
        return sum(self.mechanism.counter.rows_at(period - b + 1).stop for b in range(1, period + 1))

    # Counts and estimates

    def new_counter(self) -> EventCounter:
        return EventCounter()

    def true_counts(self, tallies: Sequence[IntArray]) -> Sequence[IntArray]:
        return [reached[:period] for period, reached in enumerate(np.cumsum(tallies, axis=0), start=1)]

    def labels(self, period: Period) -> list[str]:
        return [str(b) for b in range(1, period + 1)]

    def new_estimator(self) -> StreamEstimator:
        return StreamEstimator(self.mechanism)

    def estimates(self, measurements: Sequence[Measurements], period: Period) -> FloatArray:
        return estimates(self.mechanism, streams_of(measurements, period), period)

    def compare(self, released: ReleasedPeriod) -> Comparison:
        assert released.estimator is not None
        before = released.counts_before
        earlier = np.zeros(1, dtype=np.int64) if before is None else np.append(before, 0)
        return compare_sums(released.counts, released.estimator.estimates(), earlier, self.n)

    def clamped_counts(
        self,
        counts_at: Callable[[Period], IntArray],
        measurements: Sequence[Measurements],
        estimates: FloatArray | None,
        period: Period,
    ) -> BoolArray:
        assert estimates is not None
        return beyond_nearest(counts_at(period), estimates, self.n)

    # Queries

    def query_weights(self, query: Query, period: Period) -> FloatArray:
        """1 for the count of people with at least `b` events, else 0; all 0 before period `b`, when nobody can have `b`."""
        b = _threshold_in(query, self.name, self.horizon)
        weights = np.zeros(period)
        weights[b - 1 : b] = 1.0
        return weights

    def stderr(self, weights: FloatArray, period: Period) -> float:
        """The variances add up, because the noise of different streams is independent."""
        places = np.flatnonzero(weights).tolist()
        return float(sum(weights[b] ** 2 * self.mechanism.variance(b + 1, period) for b in places) ** 0.5)

    def covariance(self, weights: FloatArray, period: Period, other: FloatArray, earlier: Period) -> float:
        """Streams are independent; two answers of one stream share the nodes that both are sums of."""
        total = 0.0
        for b in np.flatnonzero(weights[: len(other)] * other[: len(weights)]).tolist():
            rows = self.mechanism.counter.answers
            shared = float(rows[period - b - 1] @ rows[earlier - b - 1])
            total += float(weights[b] * other[b]) * self.mechanism.sigmas[b] ** 2 * shared
        return total

    def count_stderrs(self, period: Period) -> FloatArray:
        return np.sqrt([self.mechanism.variance(b, period) for b in range(1, period + 1)])

    def columns_only_halfwidth(self, weights: FloatArray, period: Period, level: float) -> float:
        return sum(ratchet_halfwidth(self.mechanism, b + 1, period, level) for b in np.flatnonzero(weights).tolist())

    def first_period(self, query: Query) -> Period:
        return Period(cast(AtLeast, query).b)

    def parse_query(self, name: str) -> NamedQuery:
        """Accepts `atleast:B`."""
        return parse_at_least(name, self.name, self.event, self.horizon)

    def query_of(self, label: str) -> str:
        return f"atleast:{label}"

    def suggested_queries(self) -> Iterator[str]:
        yield from (f"atleast:{b}" for b in range(1, self.horizon + 1))

    def headline_queries(self) -> Sequence[NamedQuery]:
        return EVER_ONE

    # Noise

    @property
    def variances(self) -> list[float]:
        return list(self.mechanism.largest_variances)


def ratchet_halfwidth(mechanism: CumulativeMechanism, b: int, period: Period, level: float) -> float:
    """Half-width in people of an interval around a *clamped* count that covers with at least `level`.

    Clamping is a ratchet: the released `S_b` at `t` is at most as far from the truth as the worst unclamped estimate among
    those that can have moved it, `(b', t')` with `b' <= b` and `b' <= t' <= t - (b - b')`. The half-width is a union bound
    over their number, plus 1/2 for rounding.
    """
    # A variance is the variance of the stream's noise times a gain that depends on the lag `t' - b'` alone.
    lags = range(period - b + 1)
    noisiest = max(range(1, b + 1), key=lambda weight: mechanism.sigmas[weight - 1])
    widest = max(mechanism.variance(noisiest, Period(noisiest + lag)) for lag in lags) ** 0.5
    return float(upper_quantile((1 - level) / 2 / (b * len(lags))) * widest + 0.5)


def _threshold_in(query: Query, release: str, horizon: int) -> int:
    """The number of events that a query asks for; raises UnsupportedQuery if `release` cannot answer it."""
    if isinstance(query, EventCount):
        raise UnsupportedQuery(
            f'{query.name}: release {release} has measure = "paper", which answers at_least only; ask at_least'
        )
    if not isinstance(query, AtLeast):
        raise UnsupportedQuery(
            f"{query.name}: release {release} is of kind cumulative, which counts how many events people have had, "
            f"not when; ask {kind_for(query)}"
        )
    if not 1 <= query.b <= horizon:
        raise UnsupportedQuery(f"{query.name}: b must lie between 1 and the horizon {horizon}")
    return query.b
