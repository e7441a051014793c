"""The window mechanism: a noisy histogram of the last `k` symbols, at each of `R = T - k + 1` steps.

Write `q` for the alphabet's size, `m = q^k` for the bins, `C_a` for the exact counts, `v` for the variance of the noise in
people squared. Two ways to measure:

`histogram`  measures every `C_a`. One history is in one bin per step, so the squared L2 sensitivity of a step is 1
             (zero-out) or 2 (replace-one, when the windows differ). All `R` steps can differ.

`contrast`   measures `u_a = g C_a - sum_b C_b` in each group of `g` bins whose total is already public, with noise of
             variance `g^2 v`. The first step has one group of all `m` bins (the total is `n`); at later steps the `q` bins
             that share an overlap `z` of `k-1` symbols are a group (the total was released before). Squared sensitivities:
             - zero-out, a person leaves bin `a`: `u_a` moves by `g-1`, the other `g-1` by 1: `g(g-1)`;
             - replace-one within a group: `u_a` and `u_b` move by `g`: `2 g^2`;
             - replace-one across two groups: `g(g-1)` in each: `2 g(g-1)`.
             Two histories that share the overlap but not the window differ in their newest symbol, which stays in the
             overlap for the next `k-1` steps: so this happens at most once in `k` consecutive steps. The first step can
             differ in its oldest symbol alone, so it can happen at the second step: `F = ceil((r-1)/k)` times in the
             `r-1` later steps of a prefix of `r` steps.

The cost of noise `sigma` on a vector of squared sensitivity `s` is `s / (2 sigma^2)` (Canonne, Kamath, Steinke 2020,
Theorem 14), and costs of steps add up, for one fixed pair of histories at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from streamproc.privacy.adjacency import Adjacency
from streamproc.privacy.directed_rounding import sqrt_up
from streamproc.privacy.types import Period

Measure = Literal["contrast", "histogram"]


@dataclass(frozen=True)
class WindowMechanism:
    """Noise of a window release and what it costs."""

    q: int
    k: int
    horizon: int
    measure: Measure
    adjacency: Adjacency
    sigma_first: float
    """Discrete Gaussian parameter of the first step's measurements."""
    sigma_later: float
    """The same for every later step."""

    def __post_init__(self) -> None:
        if self.q < 2 or not 1 <= self.k <= self.horizon:
            raise ValueError(f"a window mechanism needs q >= 2 and 1 <= k <= T, got q={self.q} k={self.k} T={self.horizon}")
        if not (self.sigma_first > 0 and self.sigma_later > 0):
            raise ValueError("a window mechanism without noise protects nobody")

    @classmethod
    def calibrated(
        cls, *, q: int, k: int, horizon: int, measure: Measure, adjacency: Adjacency, rho: float
    ) -> WindowMechanism:
        """The mechanism with the least noise whose cost after `horizon` periods is at most `rho`."""
        unit = cls(q, k, horizon, measure, adjacency, float(_first_group(q, k, measure)), float(_later_group(q, measure)))
        variance = unit.cost(Period(horizon)) / Fraction(rho)
        first = sqrt_up(Fraction(unit.sigma_first) ** 2 * variance)
        later = sqrt_up(Fraction(unit.sigma_later) ** 2 * variance)
        return cls(q, k, horizon, measure, adjacency, first, later)

    @property
    def bins(self) -> int:
        """`m = q^k`."""
        return int(self.q**self.k)

    @property
    def steps(self) -> int:
        """`R`, the number of periods with a measurement."""
        return self.horizon - self.k + 1

    @property
    def variance(self) -> float:
        """`v`: noise variance of one bin before the known totals are taken into account, in people squared."""
        return (self.sigma_later / _later_group(self.q, self.measure)) ** 2

    @property
    def bin_variance(self) -> float:
        """Noise variance of a bin's released count, the same at every step, without rounding, in people squared."""
        return self.variance * (1 - 1 / self.bins) if self.measure == "contrast" else self.variance

    @property
    def prefix_costs_are_quick(self) -> bool:
        """Whether the costs after all periods take about as long to compute as the cost after the last."""
        return True

    def cost(self, period: Period, redrawn: Sequence[Period] = ()) -> Fraction:
        """The exact cost, under the declared adjacency, of everything measured in periods `1..period`.

        With `redrawn` periods an upper bound: each adds the most that its step can cost.
        """
        self._check_period(period)
        steps = period - self.k + 1
        if steps < 1:
            return Fraction(0)
        first, later = self._sensitivities(steps)
        planned = first / (2 * Fraction(self.sigma_first) ** 2) + later / (2 * Fraction(self.sigma_later) ** 2)
        return planned + sum((self.redraw_cost(again) for again in redrawn if again <= period), Fraction(0))

    def redraw_cost(self, period: Period) -> Fraction:
        """Maximum cost that drawing the step of `period` a second time can add."""
        self._check_period(period)
        if period < self.k:
            return Fraction(0)
        group = _first_group(self.q, self.k, self.measure) if period == self.k else _later_group(self.q, self.measure)
        sigma = self.sigma_first if period == self.k else self.sigma_later
        if self.measure == "histogram":
            sensitivity = 1 if self.adjacency is Adjacency.ZERO_OUT else 2
        else:
            sensitivity = group * (group - 1) if self.adjacency is Adjacency.ZERO_OUT else 2 * group * group
        return sensitivity / (2 * Fraction(sigma) ** 2)

    def _check_period(self, period: Period) -> None:
        if not 0 <= period <= self.horizon:
            raise ValueError(f"period {period} is outside 0..{self.horizon}")

    def _sensitivities(self, steps: int) -> tuple[int, int]:
        """Squared L2 sensitivity of the first step, and the sum of those of the later ones, for the worst pair."""
        zero_out = self.adjacency is Adjacency.ZERO_OUT
        later = steps - 1
        if self.measure == "histogram":
            per_step = 1 if zero_out else 2
            return per_step, later * per_step
        m, q = self.bins, self.q
        if zero_out:
            return m * (m - 1), later * q * (q - 1)
        same_overlap = -(-later // self.k)
        return 2 * m * m, same_overlap * 2 * q * q + (later - same_overlap) * 2 * q * (q - 1)


def _first_group(q: int, k: int, measure: Measure) -> int:
    return q**k if measure == "contrast" else 1


def _later_group(q: int, measure: Measure) -> int:
    return q if measure == "contrast" else 1
