"""Ratios of two estimates, with intervals by Fieller's method.

Let `x` and `y` be unbiased estimates with normal errors of known covariance, and `X` and `Y` what they estimate. The ratio
`R = X / Y` is in the interval if `x - R y`, whose mean is zero, is within `z` of its own standard errors of zero:

    (x - R y)^2 <= z^2 (Var x - 2 R Cov(x, y) + R^2 Var y).

So the interval covers the truth with exactly the probability of `z`, whatever `X` and `Y` are. It is not symmetric around
`x / y`. It is bounded only where `y` is more than `z` standard errors from zero; a denominator that is nearer to zero than
`MIN_STDERRS` of its standard errors is refused, because noise could have made it of zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from streamproc.releases.query import quantile

MIN_STDERRS = 3.0
"""Minimum of a denominator in its standard errors. A 95% interval is then at most 1.75 times as wide as 1.96 standard errors
to first order on either side."""


class Covariance(NamedTuple):
    """The covariance of the errors of a numerator and a denominator, in people squared."""

    numerator: float
    """Variance of the numerator."""
    both: float
    denominator: float
    """Variance of the denominator."""


@dataclass(frozen=True)
class Ratio:
    """An estimated ratio."""

    value: float
    stderr: float
    """Standard error to first order in the noise."""
    low: float
    high: float


def is_certain(denominator: float, variance: float, level: float) -> bool:
    """Whether a denominator is so far above zero that noise alone did not make it: the ratio then has an interval."""
    return denominator > max(MIN_STDERRS, quantile(level)) * max(variance, 0.0) ** 0.5 and denominator > 0


def ratio(numerator: float, denominator: float, covariance: Covariance, level: float) -> Ratio:
    """The ratio of two estimates and its Fieller interval. Raises ValueError unless the denominator `is_certain`."""
    if not is_certain(denominator, covariance.denominator, level):
        raise ValueError("the denominator of a ratio is not told apart from zero")
    var_x, cov, var_y = covariance
    squared = quantile(level) ** 2
    value = numerator / denominator
    residual = max(var_x - 2 * value * cov + value * value * var_y, 0.0)
    # Half the discriminant of the quadratic in R, in a form in which nothing large cancels.
    spread = denominator * denominator * residual - squared * max(var_x * var_y - cov * cov, 0.0)
    half = (squared * max(spread, 0.0)) ** 0.5
    middle, divisor = numerator * denominator - squared * cov, denominator * denominator - squared * var_y
    return Ratio(value, residual**0.5 / denominator, (middle - half) / divisor, (middle + half) / divisor)
