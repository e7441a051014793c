"""Between zCDP and `(epsilon, delta)`: what a budget means, rounded against ourselves.

Canonne, Kamath, Steinke, "The Discrete Gaussian for Differential Privacy" (2020), Proposition 12 and Corollary 13:
a rho-zCDP mechanism is `(epsilon, delta)`-DP for

    epsilon = min over alpha > 1 of  alpha rho + (alpha ln(1 - 1/alpha) - ln(alpha - 1) - ln delta) / (alpha - 1).

Any alpha gives a valid epsilon, so the search for the best one may be done in floats; the value at that alpha is then
computed in 50 decimal digits and rounded up.
"""

from __future__ import annotations

import decimal
import math
from fractions import Fraction

from streamproc.privacy.exact import float_up
from streamproc.privacy.quantities import Epsilon, Rho

_DIGITS = decimal.Context(prec=50)
_SLACK = Fraction(1, 10**40)
"""Far above the error of 50-digit arithmetic, far below a float's resolution."""

_GOLDEN = (math.sqrt(5) - 1) / 2


def epsilon_of_rho(rho: float, delta: float) -> Epsilon:
    """The epsilon at `delta` of a mechanism that costs `rho`, rounded up."""
    if rho < 0 or not math.isfinite(rho):
        raise ValueError(f"rho must be finite and not negative, got {rho}")
    if not 0 < delta < 1:
        raise ValueError(f"delta must lie between 0 and 1, got {delta}")
    if rho == 0:
        return Epsilon(0.0)
    return Epsilon(float_up(_epsilon_at(_best_alpha(rho, delta), rho, delta)))


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


def _best_alpha(rho: float, delta: float) -> float:
    """Golden-section search over `ln(alpha - 1)`, in which the objective falls and then rises."""

    def objective(x: float) -> float:
        alpha_less_one = math.exp(x)
        alpha = 1 + alpha_less_one
        return alpha * rho + (alpha * math.log1p(-1 / alpha) - x - math.log(delta)) / alpha_less_one

    low, high = -30.0, 60.0
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = objective(left), objective(right)
    while high - low > 1e-9:
        if at_left < at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = objective(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = objective(right)
    return 1 + math.exp((low + high) / 2)


def _epsilon_at(alpha: float, rho: float, delta: float) -> Fraction:
    with decimal.localcontext(_DIGITS):
        a, one = decimal.Decimal(alpha), decimal.Decimal(1)
        log_terms = a * (one - one / a).ln() - (a - one).ln() - decimal.Decimal(delta).ln()
        value = a * decimal.Decimal(rho) + log_terms / (a - one)
        return max(Fraction(value), Fraction(0)) + _SLACK
