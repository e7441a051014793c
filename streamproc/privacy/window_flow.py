"""The flow mechanism of a window release, in a form that works for any number of bins: one weight for each set of periods.

Write `q` for the alphabet's size, `k` for the window, `T` for the horizon. Weights `lambda_t > 0` of the full windows
`t = k..T` are published. For every non-empty set `B` of periods that fits in a window, the mechanism measures once, in the
newest period `p` of the set,

    u_B(a) = sum over people of prod_(i in B) (q [h_i = a_i] - 1)      for every a in A^B,

which are integers, with discrete Gaussian noise of variance `q^|B| / w_B` on each. `w_B` is the sum of `lambda_t` over all
windows that contain `B`, later ones included. It depends only on `p` and on the span `s`, the number of periods from the
oldest to the newest of the set:

    w_(p,s) = sum of lambda_t for t = max(p, k) .. min(p - s + k, T).

For `q = 2` the entries of `u_B` are equal up to their sign, so one number with noise variance `1 / w_B` is measured. Noise
that is made for zero-out has the square root of that sum as `w_B`, rounded down.

**Sensitivity and cost.** Noise `sigma` on a vector of squared sensitivity `d` costs `d / (2 sigma^2)` in zCDP (Canonne,
Kamath, Steinke 2020, Theorem 14), and costs add up for a fixed pair of histories. If two histories differ exactly in the
periods `D`,

    |u_B - u'_B|^2 = 2 q^|B| ((q-1)^|B| - (q-1)^|B without D| (-1)^|B and D|),

so a set costs `w_B` times the bracket. Over all sets with newest period `p` and span `s` the brackets add up to
`(q-1) - e_p` for `s = 1`, else to

    (q-1)^2 q^(s-2) - e_p e_(p-s+1) prod over the periods between (1 + e_i),     e_i = -1 if i is in D, else q - 1.

`1 + e_i` is 0 for `i` in `D`. So what a period costs depends only on whether it is in `D` and on how long ago the latest
earlier period of `D` is, and the worst pair is a longest path with `k` states. Under zero-out one history leaves every sum,
which costs `w_B (q-1)^|B| / 2` whatever the history is. No measurement depends on data, earlier output or noise, so the same
path gives the cost of every prefix of a study; a period that is drawn `r` times more counts `r + 1` times.

The cost is computed in integers: floats are multiples of a power of two. `sigma` is rounded up, so the cost is never too
low. The weights come from floating-point iteration (`calibrated`). A mistake there costs accuracy, never privacy.

**Errors.** In an orthonormal basis on each axis whose first vector is constant, the errors of all coefficients are
independent. For windows of `L` periods a coefficient whose support is the set `B` has the variance `q^-L / w_B`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import Literal

import numpy as np

from streamproc.privacy.adjacency import Adjacency
from streamproc.privacy.directed_rounding import float_down, sqrt_up
from streamproc.privacy.types import FloatArray, IntArray, Period

ROUNDS = 20
"""Rounds of the iteration that makes the largest or the mean variance small."""

MIN_WEIGHT, MAX_WEIGHT = 1e-60, 1e60
"""Range of weights, beyond those of any budget. It bounds the size of the integers in which costs are computed."""

ROOT_BITS = 64
"""Bits behind the point of the square roots that are the weights of sets under zero-out, besides those of the sum."""


@dataclass(frozen=True)
class WindowFlowMechanism:
    """The noise of a window release that is measured by flow, and what it costs."""

    q: int
    k: int
    horizon: int
    adjacency: Adjacency
    """The adjacency under which `cost` is stated."""
    weights: tuple[float, ...]
    """`lambda_t` for `t = k..T`."""
    noise_for: Adjacency | None = None
    """The adjacency for which the noise is made; `adjacency` if it is None. It differs only in a copy that `replace` made to
    state the cost of the same noise under the other adjacency."""

    def __post_init__(self) -> None:
        if self.q < 2 or not 1 <= self.k <= self.horizon:
            raise ValueError(f"a window mechanism needs q >= 2 and 1 <= k <= T, got q={self.q} k={self.k} T={self.horizon}")
        if len(self.weights) != self.steps:
            raise ValueError(f"a window mechanism needs {self.steps} weights, got {len(self.weights)}")
        if not all(MIN_WEIGHT <= weight <= MAX_WEIGHT for weight in self.weights):
            raise ValueError(f"a window mechanism needs weights from {MIN_WEIGHT} to {MAX_WEIGHT}")
        if self.noise_for is None:
            object.__setattr__(self, "noise_for", self.adjacency)

    @classmethod
    def calibrated(
        cls,
        *,
        q: int,
        k: int,
        horizon: int,
        adjacency: Adjacency,
        rho: float,
        questions: Sequence[FloatArray] = (),
        objective: Literal["largest", "mean"] = "largest",
    ) -> WindowFlowMechanism:
        """The mechanism whose largest or mean variance is least at a cost of at most `rho` after `horizon` periods.

        The variances are those of a bin in the periods with full windows, or of `questions`: weights on the `q^k` bins.
        """
        shapes = {_energies(weights, weights, q, k).tobytes() for weights in questions}
        relative = _iterated_weights(q, k, horizon, adjacency, tuple(sorted(shapes)), objective)
        unit = cls(q, k, horizon, adjacency, relative)
        factor = Fraction(rho) / unit.cost(Period(horizon))
        if adjacency is Adjacency.ZERO_OUT:
            factor *= factor
        while True:
            scaled = cls(q, k, horizon, adjacency, tuple(float_down(Fraction(weight) * factor) for weight in relative))
            if scaled.cost(Period(horizon)) <= Fraction(rho):
                return scaled
            factor *= 1 - Fraction(1, 2**50)  # square roots are rounded down, so twice the weight may cost more than twice

    @property
    def bins(self) -> int:
        """`m = q^k`."""
        return int(self.q**self.k)

    @property
    def steps(self) -> int:
        """`R`, the number of periods with a full window."""
        return self.horizon - self.k + 1

    @property
    def prefix_costs_are_quick(self) -> bool:
        """Whether the costs after all periods take about as long to compute as the cost after the last."""
        return True

    def length(self, period: Period) -> int:
        """Number of symbols in a window of this period."""
        return min(period, self.k)

    # Weights of sets and noise

    @cached_property
    def _scaled_weights(self) -> tuple[list[list[int]], int]:
        """`w_(p,s)` at place `[p-1][s-1]`, as integers, and how many bits of them are behind the point."""
        ratios = [weight.as_integer_ratio() for weight in self.weights]
        bits = max(below.bit_length() - 1 for _, below in ratios)
        bits += bits % 2
        sums = [0, *accumulate(above * ((1 << bits) // below) for above, below in ratios)]
        k, last = self.k, self.steps
        table = [
            [sums[min(p - s + 1, last)] - sums[max(p, k) - k] for s in range(1, min(p, k) + 1)]
            for p in range(1, self.horizon + 1)
        ]
        if self.noise_for is Adjacency.ZERO_OUT:
            table = [[math.isqrt(weight << 2 * ROOT_BITS) for weight in row] for row in table]
            bits = bits // 2 + ROOT_BITS
        return table, bits

    def set_weight(self, newest: Period, span: int) -> Fraction:
        """`w_B`, exactly, for the sets with this newest period and span."""
        table, bits = self._scaled_weights
        return Fraction(table[newest - 1][span - 1], 1 << bits)

    def sigma(self, newest: Period, span: int, size: int) -> float:
        """Discrete Gaussian parameter of the measurements of the sets with this newest period, span and size."""
        return sqrt_up((1 if self.q == 2 else self.q**size) / self.set_weight(newest, span))

    @cached_property
    def _precision(self) -> FloatArray:
        """`w_(p,s)` at place `[s-1, p-1]` in floating point; infinite for sets that would begin before period 1."""
        table, bits = self._scaled_weights
        one, nothing = 1 << bits, [math.inf] * self.k
        rows = [[weight / one for weight in row] + nothing[len(row) :] for row in table]
        return np.array(rows).T.copy()

    # Cost

    def cost(self, period: Period, redrawn: Sequence[Period] = ()) -> Fraction:
        """The exact cost of everything measured in periods `1..period`; a period in `redrawn` counts once more each time."""
        if not 0 <= period <= self.horizon:
            raise ValueError(f"period {period} is outside 0..{self.horizon}")
        again = tuple(sorted(late for late in redrawn if late <= period))
        if again not in self._known_costs:
            draws = [1] * (self.horizon + 1)
            for late in again:
                draws[late] += 1
            replaced = self.adjacency is Adjacency.REPLACE_ONE
            self._known_costs[again] = self._worst_pair(draws) if replaced else self._left_out(draws)
        return Fraction(self._known_costs[again][period], 2 << self._scaled_weights[1])

    @cached_property
    def _known_costs(self) -> dict[tuple[Period, ...], list[int]]:
        """For each list of redrawn periods, twice the cost after `0..T` periods, scaled as the weights of sets are."""
        return {}

    def _worst_pair(self, draws: Sequence[int]) -> list[int]:
        """The longest path. A state is how many periods ago the histories differed last: `1..k-1`, or `k` for longer."""
        q, k = self.q, self.k
        worst: list[int | None] = [None] * k + [0]
        found = [0]
        for p, row in enumerate(self._scaled_weights[0], start=1):
            same, differs = _step_costs(row, q, k)
            longer: list[int | None] = [None] * (k + 1)
            for ago in range(1, k + 1):
                before = worst[ago]
                if before is None:
                    continue
                for after, added in ((min(ago + 1, k), same[ago]), (1, differs[ago])):
                    total, known = before + draws[p] * added, longer[after]
                    if known is None or total > known:
                        longer[after] = total
            worst = longer
            found.append(2 * max(total for total in worst if total is not None))
        return found

    def _left_out(self, draws: Sequence[int]) -> list[int]:
        """The sum of all `w_B (q-1)^|B|`, by period."""
        sets = _sizes(self.q, self.k)
        steps = (sum(map(int.__mul__, sets, row)) for row in self._scaled_weights[0])
        return [0, *accumulate(draws[p] * step for p, step in enumerate(steps, start=1))]

    # Errors

    @cached_property
    def bin_variances(self) -> FloatArray:
        """Noise variance of any bin in periods `1..T`, without rounding, in people squared.

        It is computed from correctly rounded operations in a fixed order, so it is the same on every machine: the padding, a
        public number, depends on it.
        """
        variances = np.empty(self.horizon)
        for t in range(1, self.k):
            variances[t - 1] = _window_sums(self._precision[:t, :t], _bin_energies(self.q, t))[-1]
        variances[self.k - 1 :] = _window_sums(self._precision, _bin_energies(self.q, self.k))
        return variances

    @property
    def bin_variance(self) -> float:
        """The largest noise variance of a bin over the periods with full windows, in people squared."""
        return float(self.bin_variances[self.k - 1 :].max())

    def variance(self, weights: FloatArray, period: Period) -> float:
        """Noise variance of the sum of the estimates of a period's bins with these weights, in people squared."""
        return self.covariance(weights, period, weights, period)

    def covariance(self, weights: FloatArray, period: Period, other: FloatArray, earlier: Period) -> float:
        """Covariance of two such sums: of the estimates of `period`, and of those of `earlier`, which is not later."""
        q, first = self.q, period - self.length(period)  # the last period before the later window
        common = earlier - first
        if common < 1:
            return 0.0
        # Averages over periods that only one window has are the coefficients without these periods, up to a factor.
        mine = weights.reshape(-1, q ** (period - earlier)).mean(axis=1)
        theirs = other.reshape(-1, q**common).mean(axis=0)
        energies = _energies(mine, theirs, q, common)
        precision = self._precision[:common, first : first + common]
        return float(_window_sums(precision, energies)[-1])


def _sizes(q: int, k: int) -> list[int]:
    """The sum of `(q-1)^|B|` over the sets with the same newest period and span, for spans `1..k`."""
    return [q - 1] + [(q - 1) ** 2 * q ** (span - 2) for span in range(2, k + 1)]


def _step_costs(row: Sequence[int], q: int, k: int) -> tuple[list[int], list[int]]:
    """What a period costs two histories whose last earlier difference is `1..k` periods ago (0: unused; `k`: none).

    First if they are the same in this period, then if they differ. `row` holds the weights of the spans that exist.
    """
    spans = len(row)
    same, differs = [0] * (k + 1), [0] * (k + 1)
    beyond = 0  # sets that hold the earlier difference between their newest and their oldest period
    for ago in range(spans - 1, 0, -1):
        at = row[ago] * q**ago  # sets whose oldest period is the earlier difference have the span `ago + 1`
        same[ago] = (q - 1) * at + beyond
        differs[ago] = (q - 2) * at + beyond
        beyond += row[ago] * (q - 1) ** 2 * q ** (ago - 1)
    within = q * row[0]  # sets that hold no earlier difference
    for ago in range(1, k + 1):
        differs[ago] += within
        if ago < spans:
            within += row[ago] * (q - 1) * q**ago
    return same, differs


def _bin_energies(q: int, length: int) -> FloatArray:
    """`_energies` of one bin."""
    spans = np.array(_sizes(q, length), dtype=float) / float(q ** (2 * length))
    energies = np.zeros((length, length))
    for newest in range(length):
        energies[: newest + 1, newest] = spans[: newest + 1]
    return energies


def _energies(mine: FloatArray, theirs: FloatArray, q: int, length: int) -> FloatArray:
    """Products of the coefficients of two weightings of the bins of a window, summed over sets, times `q^-length`.

    The place is `[span - 1, newest]`, `newest` counted from 0. The covariance is the sum over places of energy over `w`.
    """
    if length == 0:
        return np.zeros((0, 0))
    spectrum = _coefficients(mine, q, length)
    spectrum = spectrum * (spectrum if theirs is mine else _coefficients(theirs, q, length))
    sums = np.bincount(_supports(q, length), weights=spectrum, minlength=length * length + 1)
    return np.asarray(sums[:-1].reshape(length, length) / float(q**length))


def _coefficients(weights: FloatArray, q: int, length: int) -> FloatArray:
    """Weights on bins in the orthonormal basis of products of `_axis_basis` vectors."""
    basis, spectrum = _axis_basis(q), weights
    for _ in range(length):
        # Transforms the first axis and moves it to the end, so that after `length` rounds the axes are in order again.
        spectrum = (basis @ spectrum.reshape(q, -1)).T.ravel()
    return spectrum


@lru_cache(maxsize=64)
def _axis_basis(q: int) -> FloatArray:
    """Orthonormal rows, the first one constant."""
    basis = np.full((q, q), q**-0.5)
    for j in range(1, q):
        basis[j] = 0
        basis[j, :j] = (j * (j + 1)) ** -0.5
        basis[j, j] = -j * (j * (j + 1)) ** -0.5
    return basis


@lru_cache(maxsize=32)
def _supports(q: int, length: int) -> IntArray:
    """For each coefficient, the place `(span - 1) * length + newest` of the set of axes that it depends on.

    The constant coefficient has a place of its own behind the others.
    """
    codes = np.arange(q**length)
    newest, oldest = np.full(q**length, -1), np.full(q**length, -1)
    for axis in range(length):
        present = codes // q ** (length - 1 - axis) % q > 0
        newest[present] = axis
        oldest[present & (oldest < 0)] = axis
    return np.where(newest < 0, length * length, (newest - oldest) * length + newest)


def _window_sums(precision: FloatArray, energies: FloatArray) -> FloatArray:
    """For each window that fits, the sum over its sets of energy over weight. `precision` has a row for each span."""
    length, steps = len(energies), precision.shape[1] - len(energies) + 1
    sums = np.zeros(steps)
    for newest in range(length):
        for span in range(newest + 1):
            sums += energies[span, newest] / precision[span, newest : newest + steps]
    return sums


@lru_cache(maxsize=64)
def _iterated_weights(
    q: int, k: int, horizon: int, adjacency: Adjacency, shapes: tuple[bytes, ...], objective: Literal["largest", "mean"]
) -> tuple[float, ...]:
    """Weights `lambda`, up to a factor, with which the largest or the mean variance of the full windows is small.

    Each round multiplies a weight by the variance of its period, relative to the mean; the best round counts. A weight that
    is too small for the noise of its period to be the same as elsewhere grows, and the others then pay for it. For the mean,
    a weight is multiplied by the square root of what it takes from the variances for each unit that it costs.
    """
    energies = [np.frombuffer(shape).reshape(k, k) for shape in shapes]
    energies = [energy for energy in energies if energy.any()] or [_bin_energies(q, k)]
    spans, newest = np.arange(1, k + 1)[:, None], np.arange(1, horizon + 1)[None, :]
    exists = spans <= newest
    start = np.broadcast_to(np.maximum(newest, k) - k, exists.shape)
    end = np.where(exists, np.minimum(newest - spans + 1, horizon - k + 1), start + 1)
    sizes = np.where(exists, np.array(_sizes(q, k), dtype=float)[:, None], 0.0)
    replaced, steps = adjacency is Adjacency.REPLACE_ONE, horizon - k + 1
    by_set = np.zeros(exists.shape)  # energies of all windows of the study, by the set
    for place in range(k):
        by_set[:, place : place + steps] += np.mean(energies, axis=0)[:, place, None]

    def by_weight(values: FloatArray) -> FloatArray:
        """For each weight, the sum of the values of the sets that it counts for."""
        changes = np.zeros(steps + 1)
        np.add.at(changes, start, values)
        np.subtract.at(changes, end, values)
        return np.cumsum(changes)[:-1]

    weights, best, least = np.ones(steps), np.ones(steps), math.inf
    for _ in range(ROUNDS):
        sums = np.concatenate(([0.0], np.cumsum(weights)))
        precision = sums[end] - sums[start]
        if replaced:
            cost = float(sums[-1])
        else:
            precision = np.sqrt(precision)
            cost = float((sizes * precision).sum())
        if objective == "mean":
            value = float((by_set / precision).sum())
            gains = by_weight(by_set / precision**2) if replaced else by_weight(by_set / precision**3)
            factors = np.sqrt(gains if replaced else gains / by_weight(sizes / precision))
        else:
            factors = np.max([_window_sums(precision, energy) for energy in energies], axis=0)
            value = float(factors.max())
        if value * cost < least:
            best, least = weights, value * cost
        weights = weights * (factors / factors.mean())
    return tuple(best.tolist())
