"""Steps of a cumulative release: synthetic people whose numbers of events follow noisy running counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from streamproc.privacy.cumulative import CumulativeMechanism
from streamproc.privacy.noise import NoiseSource
from streamproc.privacy.types import FloatArray, IntArray, Period
from streamproc.releases.kind import BoolArray
from streamproc.releases.row_assignment import Codes, assign_symbols
from streamproc.releases.step import Comparison, Estimator, Measurements, Step

if TYPE_CHECKING:
    from streamproc.releases.cumulative_paper import CumulativePaperContract


@dataclass(frozen=True, eq=False)
class CumulativeState:
    """The state between periods. It is immutable.

    It is secret, because it holds the exact tallies of past periods, which the rows of a counter depend on.
    """

    period: Period
    weights: Codes
    """Number of events so far of each synthetic row."""
    sums: IntArray
    """Released `S_b`: synthetic people with at least `b` events, for `b = 0..T`."""
    tallies: IntArray
    """`tallies[t-1, b-1]`: exact number of people whose `b`-th event was in period `t`."""
    measured: tuple[IntArray, ...]
    """The noisy rows of each stream's counter so far, for `b = 1..T`."""

    @classmethod
    def initial(cls, contract: CumulativePaperContract) -> CumulativeState:
        """The state before period 1, when nobody has had an event."""
        horizon = contract.mechanism.horizon
        sums = np.zeros(horizon + 1, dtype=np.int64)
        sums[0] = contract.n
        none = np.zeros(0, dtype=np.int64)
        weights = np.zeros(contract.n, dtype=np.uint16)
        return cls(Period(0), weights, sums, np.zeros((horizon, horizon), dtype=np.int64), (none,) * horizon)


def step_cumulative(
    contract: CumulativePaperContract, state: CumulativeState, tally: IntArray, noise: NoiseSource
) -> tuple[CumulativeState, Step]:
    """Compute the next period, in which `tally[b-1]` people had their `b`-th event."""
    mechanism, period = contract.mechanism, Period(state.period + 1)
    if tally.shape != (mechanism.horizon,) or (tally < 0).any() or int(tally.sum()) > contract.n:
        raise ValueError(f"a tally of release {contract.name} needs {mechanism.horizon} counts of at most n people")
    tallies = state.tallies.copy()
    tallies[period - 1] = tally
    fresh = _measure(mechanism, tallies, period, noise)
    measured = tuple(np.concatenate((old, new)) for old, new in zip(state.measured, fresh, strict=True))
    unclamped = estimates(mechanism, measured, period)
    wanted = np.rint(unclamped).astype(np.int64)

    sums = state.sums.copy()
    sums[1 : period + 1] = np.clip(wanted, state.sums[1 : period + 1], state.sums[:period])
    clamped = int(np.count_nonzero(sums[1 : period + 1] != wanted))
    ones = np.append(sums[1 : period + 1] - state.sums[1 : period + 1], 0)
    rows = state.sums[: period + 1] - np.append(state.sums[1 : period + 1], 0)
    symbols = assign_symbols(state.weights, np.stack((rows - ones, ones), axis=1), noise.rng())
    after = CumulativeState(period, state.weights + symbols, sums, tallies, measured)
    return after, Step(period, (symbols,), fresh[:period], sums[1 : period + 1], clamped, unclamped)


def estimates(mechanism: CumulativeMechanism, measured: tuple[IntArray, ...], period: Period) -> FloatArray:
    """Unclamped, unbiased estimates of `S_1 .. S_period` at `period`, from the noisy rows measured by then."""
    counter = mechanism.counter
    answers = np.empty(period)
    for b in range(1, period + 1):
        time = period - b + 1
        rows = counter.rows_at(time).stop
        answers[b - 1] = counter.answers[time - 1, :rows] @ measured[b - 1][:rows]
    return answers


_SLACK = 1e-9
"""Relative tolerance. Estimates are sums of floats, whose last digits depend on the order of addition."""


def beyond_nearest(counts: IntArray, wanted: FloatArray, n: int) -> BoolArray:
    """Which counts of `n` people differ from `wanted`, rounded to the nearest integer."""
    outside: BoolArray = np.abs(counts - wanted) > 0.5 + _SLACK * (1 + n + np.abs(wanted))
    return outside


def _measure(mechanism: CumulativeMechanism, tallies: IntArray, period: Period, noise: NoiseSource) -> list[IntArray]:
    """The rows that each stream's counter measures in this period, with noise; empty for streams that have not begun."""
    counter = mechanism.counter
    fresh = [np.zeros(0, dtype=np.int64)] * mechanism.horizon
    for b in range(1, period + 1):
        time = period - b + 1
        stream = tallies[b - 1 : period, b - 1]
        exact = counter.matrix[counter.rows_at(time), :time] @ stream
        fresh[b - 1] = noise.gaussian(exact, mechanism.sigmas[b - 1])
    return fresh


def streams_of(measurements: Sequence[Measurements], period: Period) -> tuple[IntArray, ...]:
    """The noisy rows of each stream that has begun, `b = 1..period`, from the measurements of each period."""
    return tuple(np.concatenate([each[b] for each in measurements[b:period]]) for b in range(period))


class StreamEstimator(Estimator):
    """Estimates `S_1 .. S_t` from the noisy rows of all streams so far."""

    def __init__(self, mechanism: CumulativeMechanism) -> None:
        self._mechanism = mechanism
        self._streams: list[IntArray] = []
        """For each stream that has begun, all its rows."""

    def add(self, measured: Measurements) -> None:
        self._streams.append(np.zeros(0, dtype=np.int64))
        self._streams = [np.concatenate(rows) for rows in zip(self._streams, measured, strict=True)]

    def estimates(self) -> FloatArray:
        return estimates(self._mechanism, tuple(self._streams), Period(len(self._streams)))


def compare_sums(counts: IntArray, wanted: FloatArray, before: IntArray, n: int) -> Comparison:
    """Compare counts of people with at least 1, 2, ... events with their estimates.

    A count is clamped between the earlier count of its own number of events and that of the next smaller number, so the
    value of a clamped count is known. `before` are the counts one period earlier, with a 0 for the new number of events.
    """
    possible = np.clip(wanted, before, np.concatenate(([n], before[:-1])))
    different, impossible = (beyond_nearest(counts, each, n) for each in (wanted, possible))
    return Comparison(int(np.count_nonzero(different)), int(np.count_nonzero(impossible)), impossible.size)
