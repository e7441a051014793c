"""Synthesis of a cumulative release: synthetic people whose numbers of ones follow noisy running counts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from streamproc.privacy.cumulative import CumulativeMechanism
from streamproc.privacy.noise import NoiseSource
from streamproc.privacy.types import FloatArray, IntArray, Period
from streamproc.releases.contract import CumulativeContract
from streamproc.releases.row_assignment import Codes, assign_symbols
from streamproc.releases.step import Step


@dataclass(frozen=True, eq=False)
class CumulativeState:
    """What synthesis must remember between periods; it never changes in place.

    The exact past tallies are kept because a counter's row reaches back over them: this state is secret.
    """

    period: Period
    weights: Codes
    """Ones so far of each synthetic row."""
    sums: IntArray
    """Released `S_b`: synthetic people with at least `b` ones, for `b = 0..T`."""
    tallies: IntArray
    """`tallies[t-1, b-1]`: people whose `b`-th one came at period `t`; exact."""
    measured: tuple[IntArray, ...]
    """The noisy rows of each stream's counter so far, for `b = 1..T`."""

    @classmethod
    def initial(cls, contract: CumulativeContract) -> CumulativeState:
        """Before period 1: nobody has a one."""
        horizon = contract.mechanism.horizon
        sums = np.zeros(horizon + 1, dtype=np.int64)
        sums[0] = contract.n
        none = np.zeros(0, dtype=np.int64)
        weights = np.zeros(contract.n, dtype=np.uint16)
        return cls(Period(0), weights, sums, np.zeros((horizon, horizon), dtype=np.int64), (none,) * horizon)


def step_cumulative(
    contract: CumulativeContract, state: CumulativeState, tally: IntArray, draw: NoiseSource
) -> tuple[CumulativeState, Step]:
    """One period: `tally[b-1]` people got their `b`-th one now."""
    mechanism, period = contract.mechanism, Period(state.period + 1)
    if tally.shape != (mechanism.horizon,) or (tally < 0).any() or int(tally.sum()) > contract.n:
        raise ValueError(f"a tally of release {contract.name} needs {mechanism.horizon} counts of at most n people")
    tallies = state.tallies.copy()
    tallies[period - 1] = tally
    fresh = _measure(mechanism, tallies, period, draw)
    measured = tuple(np.concatenate((old, new)) for old, new in zip(state.measured, fresh, strict=True))
    wanted = np.rint(estimates(mechanism, measured, period)).astype(np.int64)

    sums = state.sums.copy()
    sums[1 : period + 1] = np.clip(wanted, state.sums[1 : period + 1], state.sums[:period])
    clamped = int(np.count_nonzero(sums[1 : period + 1] != wanted))
    ones = np.append(sums[1 : period + 1] - state.sums[1 : period + 1], 0)
    rows = state.sums[: period + 1] - np.append(state.sums[1 : period + 1], 0)
    symbols = assign_symbols(state.weights, np.stack((rows - ones, ones), axis=1), draw.rng())
    after = CumulativeState(period, state.weights + symbols, sums, tallies, measured)
    return after, Step(period, (symbols,), fresh[:period], sums[1 : period + 1], clamped)


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
"""Relative. Estimates are sums of floats, whose last digits depend on the order in which a machine adds them."""


def beyond_nearest(counts: IntArray, wanted: FloatArray, n: int) -> npt.NDArray[np.bool_]:
    """Which counts of `n` people are not `wanted`, rounded to the nearest."""
    outside: npt.NDArray[np.bool_] = np.abs(counts - wanted) > 0.5 + _SLACK * (1 + n + np.abs(wanted))
    return outside


def _measure(mechanism: CumulativeMechanism, tallies: IntArray, period: Period, draw: NoiseSource) -> list[IntArray]:
    """The rows each stream's counter measures now, with noise; empty for streams that have not begun."""
    counter = mechanism.counter
    fresh = [np.zeros(0, dtype=np.int64)] * mechanism.horizon
    for b in range(1, period + 1):
        time = period - b + 1
        stream = tallies[b - 1 : period, b - 1]
        exact = counter.matrix[counter.rows_at(time), :time] @ stream
        fresh[b - 1] = draw.gaussian(exact, mechanism.sigmas[b - 1])
    return fresh
