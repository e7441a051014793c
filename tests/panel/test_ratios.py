"""Fieller's interval: it covers as often as it says, is where the definition says, and is refused where it is unbounded."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize

from streamproc.panel.ratios import MIN_STDERRS, Covariance, is_certain, ratio
from streamproc.releases.query import quantile
from tests.releases.statistical_checks import assert_share_is


@pytest.mark.parametrize("correlation", [-0.9, 0.0, 0.5, 0.95])
@pytest.mark.parametrize(("x", "y"), [(20.0, 100.0), (95.0, 100.0), (0.0, 90.0), (150.0, 90.0)])
def test_intervals_cover_as_often_as_they_say(x: float, y: float, correlation: float) -> None:
    """9 standard errors from zero at least, so that nothing is refused; 4,000 draws; false alarm 1e-6 in all 32 tests."""
    covariance = Covariance(64.0, correlation * 80.0, 100.0)
    matrix = np.array([[64.0, covariance.both], [covariance.both, 100.0]])
    draws = np.random.default_rng(1).multivariate_normal([x, y], matrix, 4_000)
    for level in (0.95, 0.5):
        found = [ratio(one, other, covariance, level) for one, other in draws.tolist()]
        hits = sum(each.low <= x / y <= each.high for each in found)
        assert_share_is(hits, len(draws), level, of=32)


@given(
    st.floats(-500, 500),
    st.floats(50, 500),
    st.floats(0.1, 12),
    st.floats(0.1, 12),
    st.floats(-0.99, 0.99),
    st.sampled_from([0.5, 0.9, 0.95, 0.99]),
)
def test_ends_are_where_the_error_is_that_of_the_level(
    x: float, y: float, sd_x: float, sd_y: float, correlation: float, level: float
) -> None:
    covariance = Covariance(sd_x**2, correlation * sd_x * sd_y, sd_y**2)
    found = ratio(x, y, covariance, level)

    def excess(true: float) -> float:
        variance = sd_x**2 - 2 * true * covariance.both + true**2 * sd_y**2
        return (x - true * y) ** 2 - quantile(level) ** 2 * variance

    reach = 1e3
    assert found.low <= found.value <= found.high
    assert found.low == pytest.approx(optimize.brentq(excess, -reach, x / y), abs=1e-6)
    assert found.high == pytest.approx(optimize.brentq(excess, x / y, reach), abs=1e-6)


def test_without_noise_in_the_denominator_it_is_the_normal_interval() -> None:
    found = ratio(30.0, 100.0, Covariance(16.0, 0.0, 0.0), 0.95)
    half = quantile(0.95) * 0.04
    assert [found.value, found.stderr, found.low, found.high] == pytest.approx([0.3, 0.04, 0.3 - half, 0.3 + half])


def test_large_counts_lose_no_digits() -> None:
    """Squares of a billion people have no digits left for a variance of a thousand."""
    small = ratio(300.0, 1_000.0, Covariance(900.0, 100.0, 1_600.0), 0.95)
    large = ratio(3e8, 1e9, Covariance(9e14, 1e14, 1.6e15), 0.95)
    assert [large.stderr, large.low, large.high] == pytest.approx([small.stderr, small.low, small.high], rel=1e-12)
    steady = ratio(3e8, 1e9, Covariance(900.0, 100.0, 1_600.0), 0.95)
    residual = (900 - 0.6 * 100 + 0.09 * 1_600) ** 0.5
    assert steady.high - steady.low == pytest.approx(2 * quantile(0.95) * residual / 1e9, rel=1e-6)


@pytest.mark.parametrize("denominator", [-100.0, 0.0, 2.9 * 7, 0.99 * MIN_STDERRS * 7])
def test_a_denominator_that_noise_could_make_is_refused(denominator: float) -> None:
    assert not is_certain(denominator, 49.0, 0.95)
    with pytest.raises(ValueError, match="not told apart from zero"):
        ratio(5.0, denominator, Covariance(1.0, 0.0, 49.0), 0.95)


def test_a_level_that_needs_a_larger_denominator_gets_it() -> None:
    assert is_certain(3.1 * 7, 49.0, 0.95)
    assert not is_certain(3.1 * 7, 49.0, 0.9999)
    assert not is_certain(0.0, 0.0, 0.95)
    assert is_certain(1.0, 0.0, 0.95)


def test_an_interval_is_at_most_as_wide_as_stated() -> None:
    """Whatever the covariance, on either side of the estimate, if the denominator is just not refused."""
    y = 1.0001 * MIN_STDERRS * 10
    for correlation in np.linspace(-1, 1, 21):
        for x in np.linspace(-50, 200, 26):
            found = ratio(x, y, Covariance(400.0, correlation * 200.0, 100.0), 0.95)
            assert (found.high - found.low) / 2 <= 1.75 * quantile(0.95) * found.stderr * (1 + 1e-9)
