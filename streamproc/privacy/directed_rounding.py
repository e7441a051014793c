"""Rounding in a stated direction: costs go up, budgets go down, noise goes up.

Arithmetic on costs is exact (`Fraction`) until the last step; these functions are that step.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction


def float_up(value: Fraction) -> float:
    """The smallest float that is at least `value`."""
    nearest = float(value)
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)


def float_down(value: Fraction) -> float:
    """The largest float that is at most `value`."""
    nearest = float(value)
    return nearest if Fraction(nearest) <= value else math.nextafter(nearest, -math.inf)


def sqrt_up(value: Fraction) -> float:
    """The smallest float whose exact square is at least `value`, which must be positive."""
    if value <= 0:
        raise ValueError(f"sqrt_up needs a positive value, got {value}")
    # The value need not fit a float, so take the root of a number near 1; that is less than one float away from the truth.
    shift = (value.numerator.bit_length() - value.denominator.bit_length()) // 2
    root = math.ldexp(math.sqrt(value / Fraction(4) ** shift), shift)
    while Fraction(root) ** 2 < value:
        root = math.nextafter(root, math.inf)
    return root


def decimal_up(cost: float, digits: int) -> str:
    """A cost as text with this number of significant digits, rounded up."""
    return f"{Decimal(repr(cost)).normalize(Context(prec=digits, rounding=ROUND_CEILING)):f}"
