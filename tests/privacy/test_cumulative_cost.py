"""The paper's cumulative mechanism costs what the worst pair of histories says, and its dynamic programme finds that pair.

Histories, streams and counter rows are built here from the definition, and every pair is tried.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise, product

import numpy as np
import numpy.typing as npt
import pytest

from streamproc.privacy import cumulative
from streamproc.privacy.adjacency import CLOSED_ADJACENCIES, Adjacency
from streamproc.privacy.counters import tree_counter
from streamproc.privacy.cumulative import CumulativeMechanism
from streamproc.privacy.directed_rounding import float_up, sqrt_up
from streamproc.privacy.types import Period
from tests.privacy.by_definition import counter_rows
from tests.privacy.opendp_cost import gaussian_cost

LONGEST = 7

Distances = npt.NDArray[np.int64]
"""One row a weight `b`, one column a pair of neighbours: `|C_b (x - x')|^2`."""


def streams(history: tuple[int, ...]) -> list[list[int]]:
    """Stream `b` has an item for each period from `b` on: 1 when this person's `b`-th one comes, else 0."""
    ones = [period for period, symbol in enumerate(history, start=1) if symbol]
    return [
        [int(len(ones) >= b and ones[b - 1] == period) for period in range(b, len(history) + 1)]
        for b in range(1, len(history) + 1)
    ]


@lru_cache
def squared_distances(periods: int, adjacency: Adjacency, redrawn: tuple[int, ...] = ()) -> Distances:
    """What the first `periods` periods show of each pair: a row measured later belongs to a longer prefix.

    A period in `redrawn` shows its rows once more, with fresh noise.
    """
    everyone = [streams(history) for history in product((0, 1), repeat=periods)]
    distances = []
    for b in range(1, periods + 1):
        rows = [[row] * (1 + redrawn.count(b - 1 + time)) for time, row in counter_rows(periods - b + 1)]
        C = np.array([row for repeated in rows for row in repeated])
        measured = np.array([of_one[b - 1] for of_one in everyone]) @ C.T
        neighbours = measured if adjacency is Adjacency.REPLACE_ONE else np.zeros_like(measured[:1])
        distances.append(np.concatenate([((measured - neighbour) ** 2).sum(axis=1) for neighbour in neighbours]))
    return np.array(distances)


def worst_pair(distances: Distances, sigmas: tuple[float, ...]) -> tuple[Fraction, list[int]]:
    """The largest cost of a pair, exactly, and that pair's squared distances."""
    weights = [1 / (2 * Fraction(sigma) ** 2) for sigma in sigmas[: len(distances)]]
    rough = np.array([float(weight) for weight in weights]) @ distances
    candidates = np.unique(distances[:, rough >= rough.max() * (1 - 1e-9)], axis=1)
    costs = [sum(weight * int(d) for weight, d in zip(weights, pair, strict=True)) for pair in candidates.T]
    best = max(range(len(costs)), key=costs.__getitem__)
    return Fraction(costs[best]), [int(d) for d in candidates[:, best]]


def mechanisms(adjacency: Adjacency, horizon: int) -> list[CumulativeMechanism]:
    """The calibrated one, and some whose noise is spread over the weights in no sensible way."""
    calibrated = CumulativeMechanism.calibrated(horizon=horizon, adjacency=adjacency, rho=0.005)
    rng = np.random.default_rng(horizon)
    odd = [tuple(float(sigma) for sigma in rng.uniform(0.5, 20, horizon)) for _ in range(3)]
    return [calibrated] + [CumulativeMechanism(tree_counter(horizon), adjacency, sigmas) for sigmas in odd]


@pytest.mark.parametrize("adjacency", CLOSED_ADJACENCIES)
@pytest.mark.parametrize("horizon", range(1, LONGEST + 1))
def test_every_prefix_costs_what_its_worst_pair_costs(adjacency: Adjacency, horizon: int) -> None:
    for mechanism in mechanisms(adjacency, horizon):
        assert mechanism.cost(Period(0)) == 0
        for t in range(1, horizon + 1):
            worst, _ = worst_pair(squared_distances(t, adjacency), mechanism.sigmas)
            assert worst <= mechanism.cost(Period(t)) <= worst + Fraction(1, 10**30)


@pytest.mark.parametrize("adjacency", CLOSED_ADJACENCIES)
@pytest.mark.parametrize("redrawn", [(1,), (3,), (5,), (2, 4), (4, 2, 4)])
def test_a_period_drawn_again_costs_what_the_pair_that_hates_it_most_pays(
    adjacency: Adjacency, redrawn: tuple[int, ...]
) -> None:
    for mechanism in mechanisms(adjacency, 5):
        for t in range(1, 6):
            worst, _ = worst_pair(squared_distances(t, adjacency, redrawn), mechanism.sigmas)
            cost = mechanism.cost(Period(t), [Period(again) for again in redrawn])
            assert worst <= cost <= worst + Fraction(1, 10**30)
            assert (cost > mechanism.cost(Period(t))) == (min(redrawn) <= t)


@pytest.mark.parametrize("adjacency", CLOSED_ADJACENCIES)
@pytest.mark.parametrize("horizon", range(1, LONGEST + 1))
def test_the_programme_for_long_horizons_is_never_below_the_worst_pair(
    adjacency: Adjacency, horizon: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cumulative, "_EXACT_HORIZON", 0)
    for mechanism in mechanisms(adjacency, horizon):
        for t in range(1, horizon + 1):
            worst, _ = worst_pair(squared_distances(t, adjacency), mechanism.sigmas)
            assert worst <= mechanism.cost(Period(t)) <= worst * (1 + Fraction(1, 10**12))


@pytest.mark.parametrize("adjacency", CLOSED_ADJACENCIES)
def test_both_programmes_agree_where_pairs_are_too_many_to_try(
    adjacency: Adjacency, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(7)
    sigmas = tuple(float(sigma) for sigma in rng.uniform(1, 50, 40))
    exact = CumulativeMechanism(tree_counter(40), adjacency, sigmas).cost(Period(40))
    monkeypatch.setattr(cumulative, "_EXACT_HORIZON", 0)
    rough = CumulativeMechanism(tree_counter(40), adjacency, sigmas).cost(Period(40))
    assert exact < rough <= exact * (1 + Fraction(1, 10**12))


@pytest.mark.parametrize("adjacency", CLOSED_ADJACENCIES)
def test_opendp_charges_no_less_for_the_worst_pair_and_hardly_more(adjacency: Adjacency) -> None:
    mechanism = CumulativeMechanism.calibrated(horizon=6, adjacency=adjacency, rho=0.1)
    ours, (_, pair) = mechanism.cost(Period(6)), worst_pair(squared_distances(6, adjacency), mechanism.sigmas)
    theirs = sum(
        Fraction(gaussian_cost(sigma, sqrt_up(Fraction(distance))))
        for sigma, distance in zip(mechanism.sigmas, pair, strict=True)
        if distance
    )
    assert ours - Fraction(1, 10**30) <= theirs <= ours * (1 + Fraction(1, 10**9))


@pytest.mark.parametrize("horizon", [1, 2, 5, 12, 33])
def test_the_largest_variance_of_a_weight_is_that_of_its_worst_period(horizon: int) -> None:
    mechanism = CumulativeMechanism.calibrated(horizon=horizon, adjacency=Adjacency.REPLACE_ONE, rho=0.01)
    for b in range(1, horizon + 1):
        variances = [mechanism.variance(b, Period(t)) for t in range(b, horizon + 1)]
        assert max(variances) == pytest.approx(mechanism.largest_variances[b - 1], rel=1e-14)


def test_noise_is_spread_over_the_weights_as_in_the_paper() -> None:
    horizon = 17
    mechanism = CumulativeMechanism.calibrated(horizon=horizon, adjacency=Adjacency.ZERO_OUT, rho=0.01)
    lambdas = []
    for b, sigma in enumerate(mechanism.sigmas, start=1):
        length = horizon - b + 1
        rows = np.array([row for _, row in counter_rows(length)])
        levels = max(next(level for level in range(20) if 2**level >= length), 1)
        lambdas.append(sigma**2 * levels**3 / int((rows**2).sum(axis=0).max()))
    assert lambdas == pytest.approx([lambdas[0]] * horizon, rel=1e-12)


def test_an_estimate_has_the_variance_of_the_answer_it_is_made_of() -> None:
    mechanism = CumulativeMechanism(tree_counter(9), Adjacency.ZERO_OUT, tuple(1.5 + b for b in range(9)))
    for b, t in [(1, 1), (1, 9), (4, 7), (9, 9)]:
        time = t - b + 1
        rows = np.array([row for at, row in counter_rows(9 - b + 1) if at <= time])[:, :time]
        # The least-squares answer is the only one: the tree measures as many rows as there are items.
        answer = np.ones(time) @ np.linalg.pinv(rows)
        assert mechanism.variance(b, Period(t)) == pytest.approx((0.5 + b) ** 2 * float(answer @ answer), rel=1e-9)


def test_replacing_a_history_costs_far_less_than_twice_removing_it() -> None:
    zero_out = CumulativeMechanism.calibrated(horizon=24, adjacency=Adjacency.ZERO_OUT, rho=1.0)
    replaced = CumulativeMechanism(zero_out.counter, Adjacency.REPLACE_ONE, zero_out.sigmas)
    assert float(replaced.cost(Period(24)) / zero_out.cost(Period(24))) == pytest.approx(1.426, abs=5e-4)


def test_spending_grows_with_every_period() -> None:
    mechanism = CumulativeMechanism.calibrated(horizon=20, adjacency=Adjacency.REPLACE_ONE, rho=0.5)
    costs = [mechanism.cost(Period(t)) for t in range(21)]
    assert all(before < after for before, after in pairwise(costs))


@pytest.mark.parametrize("rho", [5e-324, 1e-200, 1e-60, 1000.0])
def test_no_budget_is_too_small_or_too_large_to_be_met(rho: float) -> None:
    for adjacency in CLOSED_ADJACENCIES:
        mechanism = CumulativeMechanism.calibrated(horizon=9, adjacency=adjacency, rho=rho)
        assert Fraction(rho) * (1 - Fraction(1, 10**12)) <= mechanism.cost(Period(9)) <= Fraction(rho)
        assert float_up(mechanism.cost(Period(9))) <= rho


@pytest.mark.parametrize("period", [-1, 4])
def test_a_period_outside_the_study_has_no_cost(period: int) -> None:
    mechanism = CumulativeMechanism(tree_counter(3), Adjacency.ZERO_OUT, (1.0, 1.0, 1.0))
    with pytest.raises(ValueError, match=r"outside 0\.\.3"):
        mechanism.cost(Period(period))


def test_every_weight_needs_its_noise() -> None:
    with pytest.raises(ValueError, match="each of 3 streams, got 2"):
        CumulativeMechanism(tree_counter(3), Adjacency.ZERO_OUT, (1.0, 1.0))
    for sigma in (0.0, -1.0, math.nan):
        with pytest.raises(ValueError, match="protects nobody"):
            CumulativeMechanism(tree_counter(3), Adjacency.ZERO_OUT, (1.0, sigma, 1.0))
