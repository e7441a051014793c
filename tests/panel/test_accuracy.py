"""Standard errors that follow from public parameters, compared with covariances built from the definition."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from streamproc.privacy.adjacency import Adjacency
from streamproc.privacy.counters import CounterName
from streamproc.privacy.cumulative import Allocation, CumulativeMechanism
from streamproc.privacy.types import Period
from streamproc.privacy.window import Measure, WindowMechanism
from streamproc.releases.cumulative import ratchet_halfwidth
from streamproc.releases.query import quantile
from streamproc.releases.window_accuracy import noise_variance, rounding_variance_of, window_stderr
from tests.releases.expected_noise import expected_covariance, expected_variance, rounding_covariance
from tests.releases.random_studies import ALLOCATIONS, COUNTERS, MEASURES


def mechanism_of(q: int, k: int, horizon: int, measure: Measure, rho: float) -> WindowMechanism:
    return WindowMechanism.calibrated(q=q, k=k, horizon=horizon, measure=measure, adjacency=Adjacency.REPLACE_ONE, rho=rho)


@given(st.sampled_from([(2, 1), (2, 3), (3, 2), (5, 1), (2, 4)]), st.sampled_from(MEASURES), st.integers(0, 5), st.data())
def test_a_standard_error_is_that_of_the_promised_covariance(
    shape: tuple[int, int], measure: Measure, later: int, data: st.DataObject
) -> None:
    (q, k), rho = shape, 0.3
    horizon, period = k + 5, k + later
    mechanism = mechanism_of(q, k, horizon, measure, rho)
    size = st.lists(st.floats(-3, 3), min_size=q**k, max_size=q**k)
    weights = np.array(data.draw(size))
    v = expected_variance(q, k, horizon, measure, Adjacency.REPLACE_ONE, rho)
    rounding = weights @ rounding_covariance(q, k, measure, period) @ weights
    both = weights @ expected_covariance(q, k, measure, v, period) @ weights
    assert rounding_variance_of(mechanism, weights, Period(period)) == pytest.approx(rounding, rel=1e-6, abs=1e-9)
    assert noise_variance(mechanism, weights) == pytest.approx(both - rounding, rel=1e-6, abs=1e-6)
    assert window_stderr(mechanism, weights, Period(period)) ** 2 == pytest.approx(both, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize(("q", "k"), [(2, 1), (2, 3), (3, 2), (4, 2), (6, 4)])
def test_in_the_long_run_rounding_adds_to_a_bin_what_the_formula_says(q: int, k: int) -> None:
    mechanism = mechanism_of(q, k, 20, "contrast", 1.0)
    one = np.eye(1, q**k)[0]
    expected = (1 - q**-4) / 6 * (1 - q**-k) / (1 - 1 / q)
    assert expected < 0.5
    for later in (k, k + 1, 20 - k):
        assert rounding_variance_of(mechanism, one, Period(k + later)) == pytest.approx(expected)


def test_before_and_at_the_first_column_only_the_first_step_has_been_rounded() -> None:
    one = np.eye(1, 8)[0]
    contrast, histogram = (mechanism_of(2, 3, 6, measure, 1.0) for measure in MEASURES)
    for period in (1, 2, 3):
        assert rounding_variance_of(contrast, one, Period(period)) == pytest.approx((1 - 8**-4) / 6)
        assert rounding_variance_of(histogram, one, Period(period)) == 0


def test_the_total_of_contrast_is_known_exactly() -> None:
    contrast, histogram = (mechanism_of(2, 2, 4, measure, 1.0) for measure in MEASURES)
    assert window_stderr(contrast, np.ones(4), Period(4)) == 0
    assert window_stderr(histogram, np.ones(4), Period(4)) == pytest.approx(np.sqrt(4 * histogram.variance))


def test_quantiles_are_those_of_a_normal() -> None:
    assert quantile(0.95) == pytest.approx(1.959964, abs=1e-6)
    assert quantile(0.5) == pytest.approx(stats.norm.ppf(0.75))


@given(
    st.sampled_from(COUNTERS),
    st.sampled_from(ALLOCATIONS),
    st.integers(1, 9),
    st.sampled_from([0.5, 0.95, 0.999]),
)
def test_a_ratchet_is_bounded_by_all_that_could_have_pushed_it(
    counter: CounterName, allocation: Allocation, period: int, level: float
) -> None:
    """Half-width `z(1 - (1 - level) / (2 N)) max sigma + 1/2` over the `N` estimates of `docs/privacy.md`."""
    mechanism = CumulativeMechanism.calibrated(
        horizon=9, counter_name=counter, allocation=allocation, adjacency=Adjacency.REPLACE_ONE, rho=0.1
    )
    for b in range(1, period + 1):
        pushers = [(c, t) for c, t in product(range(1, b + 1), range(1, 10)) if c <= t <= period - (b - c)]
        sigma = max(mechanism.variance(c, Period(t)) for c, t in pushers) ** 0.5
        expected = stats.norm.ppf(1 - (1 - level) / 2 / len(pushers)) * sigma + 0.5
        assert ratchet_halfwidth(mechanism, b, Period(period), level) == pytest.approx(expected)
