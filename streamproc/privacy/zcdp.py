"""Converts between zCDP and `(epsilon, delta)`, always rounding in the direction that never understates a cost.

Canonne, Kamath, Steinke, "The Discrete Gaussian for Differential Privacy" (2020), Proposition 12 and Corollary 13:
a rho-zCDP mechanism is `(epsilon, delta)`-DP for

    epsilon = min over alpha > 1 of  alpha rho + (alpha ln(1 - 1/alpha) - ln(alpha - 1) - ln delta) / (alpha - 1).

The derivative in `alpha` is `h(alpha) / (alpha - 1)^2` with `h(alpha) = rho (alpha - 1)^2 + ln(alpha delta)`, which rises
from `ln delta < 0`: the minimum is at the one zero of `h`. Any alpha gives a valid epsilon, so the zero need not be exact;
it is found well enough that the value, computed in 50 decimal digits and rounded up, rises with `rho` as the minimum does.
"""

from __future__ import annotations

import decimal
import math
from decimal import Decimal
from fractions import Fraction

from streamproc.privacy.directed_rounding import float_up
from streamproc.privacy.types import Epsilon, Rho

_DIGITS = decimal.Context(prec=50)
_SLACK = Fraction(1, 10**40)
"""Relative to `1 + epsilon`: far above the error of 50-digit arithmetic, far below a float's resolution."""


def epsilon_of_rho(rho: float, delta: float) -> Epsilon:
    """The epsilon at `delta` of a mechanism that costs `rho`, rounded up."""
    if rho < 0 or not math.isfinite(rho):
        raise ValueError(f"rho must be finite and not negative, got {rho}")
    if not 0 < delta < 1:
        raise ValueError(f"delta must lie between 0 and 1, got {delta}")
    if rho == 0:
        return Epsilon(0.0)
    with decimal.localcontext(_DIGITS):
        value = Fraction(_smallest_epsilon(Decimal(rho), Decimal(delta), Decimal(_best_order(rho, delta))))
    return Epsilon(float_up(max(value + _SLACK * (1 + abs(value)), Fraction(0))))


def rho_of_epsilon(epsilon: float, delta: float) -> Rho:
    """The largest budget whose epsilon at `delta` is at most `epsilon`, rounded down; 0 if there is none."""
    if epsilon <= 0 or not math.isfinite(epsilon):
        raise ValueError(f"epsilon must be finite and positive, got {epsilon}")
    low, high = 0.0, 1.0
    while epsilon_of_rho(high, delta) <= epsilon:
        low, high = high, 2 * high
    while low < (middle := (low + high) / 2) < high:
        if epsilon_of_rho(middle, delta) <= epsilon:
            low = middle
        else:
            high = middle
    return Rho(low)


def _best_order(rho: float, delta: float) -> float:
    """`alpha - 1` at the zero of `h`, by bisection, to the precision of floats."""
    low, high = 0.0, min(math.sqrt(-math.log(delta)) / math.sqrt(rho), 1 / delta - 1)
    while low < (middle := (low + high) / 2) < high:
        if rho * middle * middle + math.log1p(middle) + math.log(delta) < 0:
            low = middle
        else:
            high = middle
    return high


def _smallest_epsilon(rho: Decimal, delta: Decimal, order: Decimal) -> Decimal:
    """The value at the zero of `h`, which is one Newton step from `order = alpha - 1`."""
    order -= (rho * order**2 + (1 + order).ln() + delta.ln()) / (2 * rho * order + 1 / (1 + order))
    alpha = 1 + order
    # The numerator of the module's formula, with ln(1 - 1/alpha) = ln(order) - ln(alpha).
    return alpha * rho + (order * order.ln() - alpha * alpha.ln() - delta.ln()) / order
