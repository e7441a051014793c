"""The window mechanism of the paper costs what the worst pair of panels says, to the last digit.

The panels are built and measured here from the definition: every history of one person among a few others who stay the
same, and the histogram of each step's windows. Nothing is taken from `streamproc` but the cost under test.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise, product

import numpy as np
import numpy.typing as npt
import pytest

from streamproc.privacy.adjacency import CLOSED_ADJACENCIES, Adjacency
from streamproc.privacy.directed_rounding import sqrt_up
from streamproc.privacy.types import Period
from streamproc.privacy.window import WindowPaperMechanism
from tests.privacy.opendp_cost import gaussian_cost

Ints = npt.NDArray[np.int64]

SHAPES = [(2, k, T) for k in (1, 2, 3, 4) for T in range(k, 8)] + [(3, k, T) for k in (1, 2, 3) for T in range(k, 6)]
SHAPES += [(3, 2, 6), (4, 2, 4)]
CASES = [(*shape, adjacency) for shape in SHAPES for adjacency in CLOSED_ADJACENCIES]


def histograms(people: list[tuple[int, ...]], q: int, k: int) -> list[Ints]:
    """The exact counts of each step. A bin is a window read as a number in base `q`, oldest symbol first."""
    steps = []
    for end in range(k, len(people[0]) + 1):
        counts = np.zeros(q**k, dtype=np.int64)
        for history in people:
            counts[sum(symbol * q**place for place, symbol in enumerate(reversed(history[end - k : end])))] += 1
        steps.append(counts)
    return steps


@lru_cache(maxsize=2)
def squared_distances(q: int, k: int, T: int, adjacency: Adjacency) -> Ints:
    """`|M(panel) - M(neighbour)|^2` by step, for every pair of neighbours."""
    rng = np.random.default_rng(3)
    others = [tuple(int(symbol) for symbol in history) for history in rng.integers(0, q, (3, T))]
    panels = np.array([histograms([*others, history], q, k) for history in product(range(q), repeat=T)])
    neighbours = panels if adjacency is Adjacency.REPLACE_ONE else np.array([histograms(others, q, k)])
    distances: Ints = np.stack([((panels - neighbour) ** 2).sum(axis=2) for neighbour in neighbours])
    return distances.reshape(-1, T - k + 1).T


@pytest.mark.parametrize(("q", "k", "T", "adjacency"), CASES)
def test_every_prefix_costs_exactly_what_its_worst_pair_costs(q: int, k: int, T: int, adjacency: Adjacency) -> None:
    worst = np.cumsum(squared_distances(q, k, T, adjacency), axis=0).max(axis=1)
    calibrated = WindowPaperMechanism.calibrated(q=q, k=k, horizon=T, adjacency=adjacency, rho=0.005)
    for mechanism in (calibrated, WindowPaperMechanism(q, k, T, adjacency, 0.7)):
        assert [mechanism.cost(Period(t)) for t in range(k)] == [0] * k
        expected = [Fraction(int(distance)) / (2 * Fraction(mechanism.sigma) ** 2) for distance in worst]
        assert [mechanism.cost(Period(t)) for t in range(k, T + 1)] == expected


@pytest.mark.parametrize(("q", "k", "T"), [(2, 1, 4), (2, 2, 6), (2, 3, 5), (3, 2, 5)])
@pytest.mark.parametrize("adjacency", CLOSED_ADJACENCIES)
def test_a_step_that_is_drawn_again_counts_once_more(q: int, k: int, T: int, adjacency: Adjacency) -> None:
    mechanism = WindowPaperMechanism(q, k, T, adjacency, 1.7)
    distances = squared_distances(q, k, T, adjacency)
    for redrawn in [(k,), (T,), (k, T, T), tuple(range(1, T + 1))]:
        draws = np.array([1 + redrawn.count(t) for t in range(k, T + 1)])
        worst = np.cumsum(draws[:, None] * distances, axis=0).max(axis=1)
        for t, distance in enumerate(worst, start=k):
            cost = mechanism.cost(Period(t), [Period(again) for again in redrawn])
            assert cost == Fraction(int(distance)) / (2 * Fraction(1.7) ** 2)


@pytest.mark.parametrize(("adjacency", "sensitivity"), [(Adjacency.ZERO_OUT, 1), (Adjacency.REPLACE_ONE, 2)])
def test_the_histogram_has_the_variance_of_equal_shares(adjacency: Adjacency, sensitivity: int) -> None:
    mechanism = WindowPaperMechanism.calibrated(q=3, k=2, horizon=9, adjacency=adjacency, rho=0.02)
    assert mechanism.steps == 8
    assert mechanism.bin_variance == pytest.approx(8 * sensitivity / (2 * 0.02), rel=1e-14)


def test_a_zero_out_study_costs_twice_its_budget_under_replace_one() -> None:
    for q, k, T in SHAPES:
        zero_out = WindowPaperMechanism.calibrated(q=q, k=k, horizon=T, adjacency=Adjacency.ZERO_OUT, rho=1.0)
        other = replace(zero_out, adjacency=Adjacency.REPLACE_ONE)
        assert other.cost(Period(T)) == 2 * zero_out.cost(Period(T))


@pytest.mark.parametrize(("q", "k", "T"), [(2, 3, 6), (3, 2, 4)])
@pytest.mark.parametrize("adjacency", CLOSED_ADJACENCIES)
def test_opendp_charges_no_less_for_a_step_and_hardly_more(q: int, k: int, T: int, adjacency: Adjacency) -> None:
    mechanism = WindowPaperMechanism.calibrated(q=q, k=k, horizon=T, adjacency=adjacency, rho=0.005)
    sensitivity = int(squared_distances(q, k, T, adjacency)[0].max())
    ours = mechanism.cost(Period(k))
    theirs = Fraction(gaussian_cost(mechanism.sigma, sqrt_up(Fraction(sensitivity))))
    assert ours <= theirs <= ours * (1 + Fraction(1, 10**9))


def test_spending_never_falls_and_every_measuring_period_spends() -> None:
    mechanism = WindowPaperMechanism(2, 3, 9, Adjacency.REPLACE_ONE, 2.0)
    costs = [mechanism.cost(Period(t)) for t in range(10)]
    assert costs[:3] == [0, 0, 0]
    assert all(before < after for before, after in pairwise(costs[2:]))


@pytest.mark.parametrize("period", [-1, 5])
def test_a_period_outside_the_study_has_no_cost(period: int) -> None:
    mechanism = WindowPaperMechanism(2, 2, 4, Adjacency.REPLACE_ONE, 1.0)
    with pytest.raises(ValueError, match=r"outside 0\.\.4"):
        mechanism.cost(Period(period))


@pytest.mark.parametrize(("q", "k", "T"), [(1, 1, 1), (2, 0, 3), (2, 4, 3)])
def test_a_mechanism_without_a_window_cannot_be_made(q: int, k: int, T: int) -> None:
    with pytest.raises(ValueError, match="q >= 2 and 1 <= k <= T"):
        WindowPaperMechanism(q, k, T, Adjacency.REPLACE_ONE, 1.0)


@pytest.mark.parametrize("sigma", [0.0, -1.0, math.nan])
def test_a_mechanism_without_noise_cannot_be_made(sigma: float) -> None:
    with pytest.raises(ValueError, match="protects nobody"):
        WindowPaperMechanism(2, 2, 3, Adjacency.REPLACE_ONE, sigma)
