"""Epsilon is the smallest that follows from rho, never understated; a budget in epsilon is never overstated."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from streamproc.privacy.zcdp import epsilon_of_rho, rho_of_epsilon

rhos = st.floats(-8, 3).map(lambda power: 10.0**power)
deltas = st.floats(-12, -0.31).map(lambda power: 10.0**power)


def epsilon_at(alpha: Decimal, rho: float, delta: float) -> Decimal:
    """The bound of Canonne, Kamath and Steinke at one alpha, as they write it."""
    numerator = alpha * (1 - 1 / alpha).ln() - (alpha - 1).ln() - Decimal(delta).ln()
    return alpha * Decimal(rho) + numerator / (alpha - 1)


def smallest_epsilon(rho: float, delta: float) -> Decimal:
    """To some 25 digits: a grid over `ln(alpha - 1)`, a search in floats around its best point, then one in decimals."""

    def rough(x: float) -> float:
        alpha = 1 + math.exp(x)
        return alpha * rho + (alpha * math.log1p(-1 / alpha) - x - math.log(delta)) / math.exp(x)

    best = min((x / 4 for x in range(-40, 161)), key=rough)
    near = float(minimize_scalar(rough, bounds=(best - 0.25, best + 0.25), method="bounded", options={"xatol": 1e-7}).x)
    with localcontext() as context:
        context.prec = 70
        low, high = Decimal(near) - Decimal("1e-3"), Decimal(near) + Decimal("1e-3")
        while high - low > Decimal("1e-14"):
            left, right = (2 * low + high) / 3, (low + 2 * high) / 3
            if epsilon_at(1 + left.exp(), rho, delta) < epsilon_at(1 + right.exp(), rho, delta):
                high = right
            else:
                low = left
        return epsilon_at(1 + ((low + high) / 2).exp(), rho, delta)


def test_the_designs_example() -> None:
    assert 0.4295 < epsilon_of_rho(0.005, 1e-6) <= 0.430


@pytest.mark.parametrize("delta", [1e-12, 1e-6, 0.01, 0.4])
@pytest.mark.parametrize("rho", [1e-6, 0.001, 0.005, 0.05, 0.5, 10.0, 1000.0])
def test_epsilon_is_the_smallest_over_all_alphas_rounded_up(rho: float, delta: float) -> None:
    exact = max(Fraction(smallest_epsilon(rho, delta)), Fraction(0))
    shown = epsilon_of_rho(rho, delta)
    assert Fraction(shown) >= exact * (1 - Fraction(1, 10**24))
    assert Fraction(math.nextafter(shown, 0)) < exact or shown == 0.0


@given(rhos, deltas, st.floats(-8, 8))
def test_no_alpha_gives_a_smaller_epsilon(rho: float, delta: float, x: float) -> None:
    with localcontext() as context:
        context.prec = 70
        elsewhere = epsilon_at(1 + Decimal(x).exp(), rho, delta)
    assert math.nextafter(epsilon_of_rho(rho, delta), 0) <= max(elsewhere, Decimal(0))


@given(rhos, deltas)
def test_epsilon_never_falls_from_one_rho_to_the_next_float(rho: float, delta: float) -> None:
    assert epsilon_of_rho(rho, delta) <= epsilon_of_rho(math.nextafter(rho, math.inf), delta)


@given(rhos, rhos, deltas, deltas)
def test_epsilon_rises_with_rho_and_falls_with_delta(low: float, high: float, small: float, large: float) -> None:
    low, high, small, large = *sorted((low, high)), *sorted((small, large))
    assert epsilon_of_rho(low, large) <= epsilon_of_rho(high, large) <= epsilon_of_rho(high, small)
    if high > 1.001 * low and epsilon_of_rho(high, large) > 0:
        assert epsilon_of_rho(low, large) < epsilon_of_rho(high, large)


@given(st.floats(-4, 2.5).map(lambda power: 10.0**power), deltas)
def test_a_budget_in_epsilon_becomes_the_largest_rho_that_keeps_it(epsilon: float, delta: float) -> None:
    rho = rho_of_epsilon(epsilon, delta)
    assert rho > 0
    assert epsilon_of_rho(rho, delta) <= epsilon < epsilon_of_rho(math.nextafter(rho, math.inf), delta)


@given(rhos, deltas)
def test_to_epsilon_and_back_loses_nothing_worth_having(rho: float, delta: float) -> None:
    epsilon = epsilon_of_rho(rho, delta)
    assume(epsilon > 1e-3)
    assert rho <= rho_of_epsilon(epsilon, delta) <= rho * (1 + 1e-9)


@pytest.mark.parametrize(("epsilon", "delta"), [(1e-50, 1e-6), (1e-300, 1e-3), (1e-4, 0.4), (1000.0, 1e-300)])
def test_extreme_budgets_have_a_rho_too(epsilon: float, delta: float) -> None:
    rho = rho_of_epsilon(epsilon, delta)
    assert 0 < rho < 1000
    assert epsilon_of_rho(rho, delta) <= epsilon


def test_a_budget_below_every_float_is_none() -> None:
    assert rho_of_epsilon(5e-324, 5e-324) == 0.0


def test_nothing_spent_is_epsilon_zero() -> None:
    assert epsilon_of_rho(0.0, 1e-6) == 0.0


@pytest.mark.parametrize(("rho", "delta"), [(5e-324, 5e-324), (5e-324, 0.9), (1e300, 1e-6), (1e-300, 5e-324)])
def test_numbers_at_the_edge_of_floats_are_no_trouble(rho: float, delta: float) -> None:
    assert 0 <= epsilon_of_rho(rho, delta) < math.inf


@pytest.mark.parametrize("rho", [-1e-9, math.inf, math.nan])
def test_a_rho_that_is_no_cost_is_refused(rho: float) -> None:
    with pytest.raises(ValueError, match="rho must be finite and not negative"):
        epsilon_of_rho(rho, 1e-6)


@pytest.mark.parametrize("delta", [0.0, 1.0, -0.1, math.nan])
def test_a_delta_that_is_no_chance_is_refused(delta: float) -> None:
    with pytest.raises(ValueError, match="delta must lie between 0 and 1"):
        epsilon_of_rho(0.1, delta)
    with pytest.raises(ValueError, match="delta must lie between 0 and 1"):
        rho_of_epsilon(0.1, delta)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.inf, math.nan])
def test_an_epsilon_that_is_no_budget_is_refused(epsilon: float) -> None:
    with pytest.raises(ValueError, match="epsilon must be finite and positive"):
        rho_of_epsilon(epsilon, 1e-6)
