"""Standard errors that follow from public parameters, compared with covariances built from the definition."""

from __future__ import annotations

from functools import lru_cache
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from streamproc.privacy.adjacency import Adjacency
from streamproc.privacy.cumulative import CumulativeMechanism
from streamproc.privacy.types import FloatArray, Period
from streamproc.releases.contracts import stated_contracts
from streamproc.releases.cumulative import CumulativeContract
from streamproc.releases.cumulative_paper import ratchet_halfwidth
from streamproc.releases.query import quantile
from streamproc.releases.window import WindowContract
from streamproc.releases.window_accuracy import rounding_covariance as rounding_covariance_of
from streamproc.releases.window_flow import WindowFlowContract
from streamproc.study import CumulativeRelease, WindowRelease
from streamproc.study.releases import Measure
from tests.releases.expected_noise import flow_covariances, paper_variance, rounding_covariance, window_sums
from tests.releases.random_studies import MEASURES, window_contract
from tests.studies import build_study

SHAPES = [(2, 1), (2, 3), (3, 2), (5, 1), (2, 4)]


@lru_cache
def contract_with(q: int, k: int, horizon: int, measure: Measure, rho: float) -> WindowContract:
    return window_contract(
        build_study(WindowRelease("w", k, measure=measure), alphabet="abcdef"[:q], horizon=horizon, rho=rho), 10
    )


@lru_cache
def expected_noise(contract: WindowContract, period: int) -> FloatArray:
    """Covariance of all bins of a period from noise alone."""
    q, k, horizon = contract.mechanism.q, contract.mechanism.k, contract.horizon
    if not isinstance(contract, WindowFlowContract):
        return paper_variance(k, horizon, Adjacency.REPLACE_ONE, contract.rho) * np.eye(q**k)
    of_bins = window_sums(q, k, horizon, period)
    noise: FloatArray = of_bins @ flow_covariances(q, k, horizon, contract.mechanism.weights) @ of_bins.T
    return noise


@given(st.sampled_from(SHAPES), st.sampled_from(MEASURES), st.integers(0, 3), st.data())
def test_a_standard_error_is_that_of_the_promised_covariance(
    shape: tuple[int, int], measure: Measure, later: int, data: st.DataObject
) -> None:
    q, k = shape
    contract = contract_with(q, k, k + 3, measure, 0.3)
    period = Period(contract.first_column + later)
    bins = contract.bins_at(period)
    weights = np.array(data.draw(st.lists(st.floats(-3, 3), min_size=bins, max_size=bins)))
    rounding = float(weights @ rounding_covariance(q, k, measure, period) @ weights)
    noise = float(weights @ expected_noise(contract, period) @ weights)
    assert rounding_covariance_of(contract, weights, weights, period) == pytest.approx(rounding, rel=1e-6, abs=1e-9)
    assert contract.noise_covariance(weights, period, weights, period) == pytest.approx(noise, rel=1e-6, abs=1e-6)
    assert contract.stderr(weights, period) ** 2 == pytest.approx(noise + rounding, rel=1e-6, abs=1e-6)


@given(st.sampled_from(SHAPES), st.integers(1, 4), st.integers(1, 4), st.data())
def test_two_periods_have_the_covariance_of_the_noise_that_they_share(
    shape: tuple[int, int], one: int, other: int, data: st.DataObject
) -> None:
    (q, k), (earlier, period) = shape, sorted((one, other))
    contract = contract_with(q, k, k + 3, "flow", 0.3)
    assert isinstance(contract, WindowFlowContract)
    later, before = (
        np.array(data.draw(st.lists(st.floats(-3, 3), min_size=bins, max_size=bins)))
        for bins in (contract.bins_at(Period(period)), contract.bins_at(Period(earlier)))
    )
    joint = flow_covariances_of(contract)
    noise = later @ window_sums(q, k, k + 3, period) @ joint @ window_sums(q, k, k + 3, earlier).T @ before
    assert contract.noise_covariance(later, Period(period), before, Period(earlier)) == pytest.approx(
        float(noise), rel=1e-6, abs=1e-6
    )


@lru_cache
def flow_covariances_of(contract: WindowFlowContract) -> FloatArray:
    mechanism = contract.mechanism
    return flow_covariances(mechanism.q, mechanism.k, mechanism.horizon, mechanism.weights)


@pytest.mark.parametrize(("q", "k"), [(2, 1), (2, 3), (3, 2), (4, 2), (6, 4)])
@pytest.mark.parametrize("measure", MEASURES)
def test_in_the_long_run_rounding_adds_to_a_bin_what_the_formula_says(q: int, k: int, measure: Measure) -> None:
    contract = contract_with(q, k, 20, measure, 1.0)
    one = np.eye(1, q**k)[0]
    denominator = q if measure == "paper" else q**k if q == 2 else q ** (2 * k)
    expected = (1 - float(denominator) ** -2) / 6 * (1 - q**-k) / (1 - 1 / q)
    assert expected < 0.5
    for period in (2 * k, 2 * k + 1, 20):
        assert rounding_covariance_of(contract, one, one, Period(period)) == pytest.approx(expected)


def test_before_and_at_its_first_column_the_paper_rounds_nothing() -> None:
    """By flow the first period is rounded, to two bins of halves."""
    one, flow, paper = np.eye(1, 8)[0], *(contract_with(2, 3, 6, measure, 1.0) for measure in MEASURES)
    for period in (1, 2, 3):
        assert rounding_covariance_of(paper, one, one, Period(period)) == 0
    assert rounding_covariance_of(flow, np.eye(1, 2)[0], np.eye(1, 2)[0], Period(1)) == pytest.approx((1 - 1 / 4) / 6)


def test_the_total_of_flow_is_known_exactly() -> None:
    flow, paper = (contract_with(2, 2, 4, measure, 1.0) for measure in MEASURES)
    assert flow.stderr(np.ones(4), Period(4)) == pytest.approx(0, abs=1e-9)
    assert flow.stderr(np.ones(2), Period(1)) == pytest.approx(0, abs=1e-9)
    assert paper.stderr(np.ones(4), Period(4)) == pytest.approx(np.sqrt(4 * paper.mechanism.bin_variance))


def test_quantiles_are_those_of_a_normal() -> None:
    assert quantile(0.95) == pytest.approx(1.959964, abs=1e-6)
    assert quantile(0.5) == pytest.approx(stats.norm.ppf(0.75))


@given(st.integers(1, 9), st.sampled_from([0.5, 0.95, 0.999]))
def test_a_ratchet_of_the_paper_is_bounded_by_all_that_could_have_pushed_it(period: int, level: float) -> None:
    """Half-width `z(1 - (1 - level) / (2 N)) max sigma + 1/2` over the `N` estimates of `docs/privacy.md`."""
    mechanism = CumulativeMechanism.calibrated(horizon=9, adjacency=Adjacency.REPLACE_ONE, rho=0.1)
    for b in range(1, period + 1):
        pushers = pushers_of(b, period)
        sigma = max(mechanism.variance(c, Period(t)) for c, t in pushers) ** 0.5
        expected = stats.norm.ppf(1 - (1 - level) / 2 / len(pushers)) * sigma + 0.5
        assert ratchet_halfwidth(mechanism, b, Period(period), level) == pytest.approx(expected)


def pushers_of(b: int, period: int) -> list[tuple[int, int]]:
    """The estimates that can have moved the released "at least `b`" of a period."""
    return [(c, t) for c, t in product(range(1, b + 1), range(1, 10)) if c <= t <= period - (b - c)]


@given(st.integers(1, 9), st.sampled_from([0.5, 0.95, 0.999]))
def test_a_ratchet_of_flow_is_bounded_by_all_that_could_have_pushed_it(period: int, level: float) -> None:
    """The half-width is that of a union bound over the same estimates, or more; rounding to either side adds up to 1."""
    study = build_study(CumulativeRelease("c", ("1",), weights="rule"), horizon=9, rho=0.1)
    [contract] = stated_contracts(study, 10, insecure=True).values()
    assert isinstance(contract, CumulativeContract)
    for b in range(1, period + 1):
        pushers = pushers_of(b, period)
        sigma = max(contract.count_stderrs(Period(t))[c - 1] for c, t in pushers)
        needed = stats.norm.ppf(1 - (1 - level) / 2 / len(pushers)) * sigma + 1
        found = contract.columns_only_halfwidth(np.eye(period)[b - 1], Period(period), level)
        assert needed * (1 - 1e-9) <= found < 1.5 * needed
