"""Rounding in a stated direction: costs go up, budgets go down, noise goes up.

Arithmetic on costs is exact (`Fraction`) until the last step; these functions are that step.
"""

from __future__ import annotations

import math
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
    root = math.sqrt(value)
    while Fraction(root) ** 2 < value:
        root = math.nextafter(root, math.inf)
    while Fraction(below := math.nextafter(root, 0.0)) ** 2 >= value:
        root = below
    return root
