"""The cumulative mechanism of the paper's Algorithm 2: a tree counter for each weight `b`, and their exact cost together.

Stream `b` counts the people whose `b`-th one comes now; it starts at period `b` and has `T - b + 1` items. A person whose
`b`-th one comes at period `i` adds `e_i` to stream `b`; one who never gets there adds nothing. Two histories whose `b`-th
ones come at `i` and `j` therefore differ, in stream `b`, by a squared distance over noise of

    d_b(i, j) = |C_b (e_i - e_j)|^2 / (2 sigma_b^2),      e_never = 0,

and the pair costs `sum_b d_b(i_b, j_b)`. The `b`-th ones of a history come at strictly increasing periods, and after a
*never* comes only *never*: so the worst pair is found by a dynamic programme over `b`.

It runs from the last weight to the first, and counts time backwards from the end: state 0 is *never*, state `x` is "the
one comes `x - 1` periods before the end". "Later, or never" is then simply "a smaller state, or 0 from 0":

    W_b(x, y) = d_b(x, y) + max { W_(b+1)(x', y') : x' < x or x' = x = 0,  y' < y or y' = y = 0 }.

The cost under replace-one is `max W_1(x, y)`, under zero-out `max W_1(x, 0)`. The distances depend on the horizon in these
coordinates, so each prefix that is asked for needs a run.

The paper divides the budget among the weights in proportion to `ceil(log2(T - b + 1))^3`, so the variance of the noise of
stream `b` is proportional to its sensitivity divided by that.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from streamproc.privacy.adjacency import Adjacency
from streamproc.privacy.counters import Counter, tree_counter
from streamproc.privacy.directed_rounding import sqrt_up
from streamproc.privacy.types import IntArray, Period

_Costs: TypeAlias = npt.NDArray[Any]
"""Costs as Python integers (fixed point, exact) or as floats (long horizons)."""

_EXACT_HORIZON = 64
"""Up to this horizon the programme runs on Python integers; above, on floats with a proven bound on their error."""

_EVERY_PREFIX_UP_TO = 64
"""Horizon up to which a run of the programme for every period is fast enough to be done by default."""

_FIXED_POINT = 2**320
"""The largest weight in units of the integer programme: rounding each weight up to a unit moves no float."""


@dataclass(frozen=True, eq=False)
class CumulativeMechanism:
    """Noise of a cumulative release and what it costs."""

    counter: Counter
    adjacency: Adjacency
    sigmas: tuple[float, ...]
    """Discrete Gaussian parameter of the measurements of stream `b = 1..T`."""

    def __post_init__(self) -> None:
        if len(self.sigmas) != self.counter.length:
            raise ValueError(f"need a sigma for each of {self.counter.length} streams, got {len(self.sigmas)}")
        if not all(sigma > 0 for sigma in self.sigmas):
            raise ValueError("a cumulative mechanism without noise protects nobody")

    @classmethod
    def calibrated(cls, *, horizon: int, adjacency: Adjacency, rho: float) -> CumulativeMechanism:
        """The mechanism with the least noise whose cost after `horizon` periods is at most `rho`."""
        counts = tree_counter(horizon)
        shapes = _shapes(counts)
        unit = _worst_cost(counts, adjacency, [1 / (2 * shape) for shape in shapes])
        # The slack covers what rounding the weights up, once more, can add to the cost computed from the sigmas.
        slack = Fraction(1, 2**100) if horizon <= _EXACT_HORIZON else Fraction(2 * _float_error(horizon))
        scale = unit * (1 + slack) / Fraction(rho)
        return cls(counts, adjacency, tuple(sqrt_up(scale * shape) for shape in shapes))

    @property
    def horizon(self) -> int:
        """`T`."""
        return self.counter.length

    @property
    def prefix_costs_are_quick(self) -> bool:
        """Whether the costs after all periods take about as long to compute as the cost after the last.

        The cost after each period `t` takes `O(t^3)`.
        """
        return self.horizon <= _EVERY_PREFIX_UP_TO

    def variance(self, weight: int, period: Period) -> float:
        """Variance of the unclamped estimate of "at least `weight` ones by `period`", in people squared."""
        return float(self.sigmas[weight - 1] ** 2 * self._gains[period - weight])

    @cached_property
    def largest_variances(self) -> tuple[float, ...]:
        """For each weight, the largest variance of its unclamped estimate over all periods."""
        largest = np.maximum.accumulate(self._gains)
        return tuple(float(sigma**2 * largest[self.horizon - b]) for b, sigma in enumerate(self.sigmas, start=1))

    def cost(self, period: Period, redrawn: Sequence[Period] = ()) -> Fraction:
        """The cost of everything measured in periods `1..period` for the worst pair of histories, never too low.

        The rows of a `redrawn` period count once more each time it is named.
        """
        if not 0 <= period <= self.horizon:
            raise ValueError(f"period {period} is outside 0..{self.horizon}")
        if period == 0:
            return Fraction(0)
        again = tuple(sorted(late for late in redrawn if late <= period))
        if (period, again) not in self._known_costs:
            cost = _worst_cost(self.counter, self.adjacency, self._weights[:period], again)
            self._known_costs[period, again] = cost
        return self._known_costs[period, again]

    @cached_property
    def _gains(self) -> npt.NDArray[np.float64]:
        return self.counter.gains()

    @cached_property
    def _weights(self) -> list[Fraction]:
        return [1 / (2 * Fraction(sigma) ** 2) for sigma in self.sigmas]

    @cached_property
    def _known_costs(self) -> dict[tuple[Period, tuple[Period, ...]], Fraction]:
        return {}


def _shapes(counts: Counter) -> list[Fraction]:
    """`sigma_b^2` up to a common factor, for `b = 1..T`."""
    lengths = range(counts.length, 0, -1)
    return [Fraction(counts.largest_column(length), max(math.ceil(math.log2(length)), 1) ** 3) for length in lengths]


def _worst_cost(
    counts: Counter, adjacency: Adjacency, weights: Sequence[Fraction], redrawn: Sequence[Period] = ()
) -> Fraction:
    """`max W_1`, the cost after `len(weights)` periods; `weights[b-1]` is `1 / (2 sigma_b^2)`."""
    horizon = len(weights)
    exact = horizon <= _EXACT_HORIZON
    unit = max(weights) / _FIXED_POINT if exact else 1 + Fraction(_float_error(horizon))
    numbers: list[Any] = [math.ceil(w / unit) if exact else float(w) for w in weights]
    distances = _with_redrawn(counts, _distances(counts, horizon), horizon, redrawn)
    if adjacency is Adjacency.ZERO_OUT:
        distances = (distance[:, 0] for distance in distances)
    worst: _Costs = np.zeros((1,) if adjacency is Adjacency.ZERO_OUT else (1, 1), dtype=object if exact else float)
    for distance, number in zip(distances, reversed(numbers), strict=True):
        worst = _one_weight_earlier(worst, (distance.astype(object) if exact else distance) * number)
    return Fraction(worst[-1] if worst.ndim == 1 else worst[-1, -1]) * unit


def _one_weight_earlier(worst: _Costs, here: _Costs) -> _Costs:
    """From the running maximum of `W_(b+1)` and `d_b`, one state larger, to the running maximum of `W_b`."""
    if here.ndim == 1:
        here[1:] += worst
        return np.maximum.accumulate(here)
    here[1:, 1:] += worst
    here[0, 1:] += worst[0]
    here[1:, 0] += worst[:, 0]
    np.maximum.accumulate(here, axis=0, out=here)
    return np.maximum.accumulate(here, axis=1, out=here)


def _distances(counts: Counter, horizon: int) -> Iterator[IntArray]:
    """`|C (e_x - e_y)|^2` by states `(x, y)`, for streams of length 1, 2, ..., `horizon`."""
    gram = np.zeros((horizon, horizon), dtype=np.int64)
    for length in range(1, horizon + 1):
        for row in counts.matrix[counts.rows_at(length), :length]:
            start = int(np.argmax(row != 0))
            gram[start:length, start:length] += np.outer(row[start:], row[start:])
        yield _between_states(gram[:length, :length][::-1, ::-1])


def _with_redrawn(
    counts: Counter, distances: Iterator[IntArray], horizon: int, redrawn: Sequence[Period]
) -> Iterator[IntArray]:
    """The distances with the rows of redrawn periods counted once more: period `s` is time `s - b + 1` of stream `b`."""
    for length, distance in enumerate(distances, start=1):
        again = [counts.rows_at(late - horizon + length) for late in redrawn]
        rows = np.concatenate([counts.matrix[part, :length] for part in again]) if again else counts.matrix[:0, :length]
        yield distance + _between_states((rows.T @ rows)[::-1, ::-1]) if len(rows) else distance


def _between_states(gram: IntArray) -> IntArray:
    """Squared distances between columns from their Gram matrix, newest item first, with *never* (zero) put in front."""
    states = np.pad(gram, (1, 0))
    norms = np.diagonal(states)
    return norms[:, None] + norms[None, :] - 2 * states


def _float_error(horizon: int) -> float:
    """A bound on the relative error of the float programme: `T` additions and one product of rounded positive numbers."""
    return (2 * horizon + 8) * 2.0**-53
