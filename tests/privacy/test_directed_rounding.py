"""The last step of exact arithmetic goes in the direction it says, and not one float further."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamproc.privacy.directed_rounding import float_down, float_up, sqrt_up

ordinary = st.fractions(min_value=-(10**12), max_value=10**12)
floats = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e300, max_value=1e300).map(Fraction)
# From half to twice a float that is itself far below or far above 1: rational, and nearly never a float.
wide = st.builds(
    lambda power, ratio: Fraction(2) ** power * ratio,
    st.integers(-2000, 2000),
    st.fractions(min_value=Fraction(1, 2), max_value=2, max_denominator=10**9),
)


@given(ordinary | floats)
def test_float_up_is_the_smallest_float_that_is_not_below(value: Fraction) -> None:
    up = float_up(value)
    assert Fraction(up) >= value
    assert Fraction(math.nextafter(up, -math.inf)) < value


@given(ordinary | floats)
def test_float_down_is_the_largest_float_that_is_not_above(value: Fraction) -> None:
    down = float_down(value)
    assert Fraction(down) <= value
    assert Fraction(math.nextafter(down, math.inf)) > value


@given(wide | ordinary.filter(lambda value: value > 0))
def test_sqrt_up_is_the_smallest_float_whose_square_is_not_below(value: Fraction) -> None:
    root = sqrt_up(value)
    assert Fraction(root) ** 2 >= value
    assert Fraction(math.nextafter(root, 0.0)) ** 2 < value


def test_sqrt_up_of_a_square_is_its_root() -> None:
    assert sqrt_up(Fraction(9, 4)) == 1.5
    assert sqrt_up(Fraction(2) ** -2000) == 2.0**-1000
    assert sqrt_up(Fraction(2) ** 2000) == 2.0**1000


@pytest.mark.parametrize("value", [Fraction(0), Fraction(-1, 3)])
def test_sqrt_up_refuses_what_has_no_positive_root(value: Fraction) -> None:
    with pytest.raises(ValueError, match="positive"):
        sqrt_up(value)
