"""The window mechanism of the paper: a noisy histogram of the last `k` symbols, at each of `R = T - k + 1` steps.

Write `q` for the alphabet's size and `m = q^k` for the bins. Each step measures the count of every bin. One history is in
one bin per step, so the squared L2 sensitivity of a step is 1 (zero-out) or 2 (replace-one, when the windows differ). All
`R` steps can differ.

The cost of noise `sigma` on a vector of squared sensitivity `s` is `s / (2 sigma^2)` (Canonne, Kamath, Steinke 2020,
Theorem 14), and costs of steps add up, for one fixed pair of histories at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from streamproc.privacy.adjacency import Adjacency
from streamproc.privacy.directed_rounding import sqrt_up
from streamproc.privacy.types import Period


@dataclass(frozen=True)
class WindowPaperMechanism:
    """Noise of a window release that is measured as in the paper, and what it costs."""

    q: int
    k: int
    horizon: int
    adjacency: Adjacency
    sigma: float
    """Discrete Gaussian parameter of every measurement."""

    def __post_init__(self) -> None:
        if self.q < 2 or not 1 <= self.k <= self.horizon:
            raise ValueError(f"a window mechanism needs q >= 2 and 1 <= k <= T, got q={self.q} k={self.k} T={self.horizon}")
        if not self.sigma > 0:
            raise ValueError("a window mechanism without noise protects nobody")

    @classmethod
    def calibrated(cls, *, q: int, k: int, horizon: int, adjacency: Adjacency, rho: float) -> WindowPaperMechanism:
        """The mechanism with the least noise whose cost after `horizon` periods is at most `rho`."""
        unit = cls(q, k, horizon, adjacency, 1.0)
        return cls(q, k, horizon, adjacency, sqrt_up(unit.cost(Period(horizon)) / Fraction(rho)))

    @property
    def bins(self) -> int:
        """`m = q^k`."""
        return int(self.q**self.k)

    @property
    def steps(self) -> int:
        """`R`, the number of periods with a measurement."""
        return self.horizon - self.k + 1

    @property
    def bin_variance(self) -> float:
        """Noise variance of a bin's released count, the same at every step, without rounding, in people squared."""
        return self.sigma**2

    @property
    def prefix_costs_are_quick(self) -> bool:
        """Whether the costs after all periods take about as long to compute as the cost after the last."""
        return True

    def cost(self, period: Period, redrawn: Sequence[Period] = ()) -> Fraction:
        """The exact cost, under the declared adjacency, of everything measured in periods `1..period`.

        A period in `redrawn` counts once more each time that it is named.
        """
        if not 0 <= period <= self.horizon:
            raise ValueError(f"period {period} is outside 0..{self.horizon}")
        steps = max(period - self.k + 1, 0) + sum(self.k <= again <= period for again in redrawn)
        sensitivity = 1 if self.adjacency is Adjacency.ZERO_OUT else 2
        return steps * sensitivity / (2 * Fraction(self.sigma) ** 2)
