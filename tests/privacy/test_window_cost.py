"""The window mechanism costs what the worst pair of panels says, to the last digit.

The panels are built and measured here from the definition: every history of one person among a few others who stay the
same, the histogram of each step's windows, and its contrasts. Nothing is taken from `streamproc` but the cost under test.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise, product
from typing import get_args

import numpy as np
import numpy.typing as npt
import pytest

from streamproc.privacy.adjacency import Adjacency
from streamproc.privacy.directed_rounding import sqrt_up
from streamproc.privacy.types import Period
from streamproc.privacy.window import Measure, WindowMechanism
from tests.privacy.opendp_cost import gaussian_cost

Ints = npt.NDArray[np.int64]

SHAPES = [(2, k, T) for k in (1, 2, 3, 4) for T in range(k, 8)] + [(3, k, T) for k in (1, 2, 3) for T in range(k, 6)]
SHAPES += [(3, 2, 6), (4, 2, 4)]
MEASURES: tuple[Measure, ...] = get_args(Measure)
CASES = [(*shape, measure, adjacency) for shape in SHAPES for measure in MEASURES for adjacency in Adjacency]
SIGMAS = [(2.0, 3.0), (0.7, 41.3), (19.9, 0.3)]
"""Of the first step and the later ones: the worst pair must not depend on how the noise is shared between them."""


def contrasts(counts: Ints, group_size: int) -> Ints:
    """`u_a = g C_a - sum_b C_b`, where `b` runs over the `g` bins that come in one block with `a`."""
    measured = np.empty_like(counts)
    for start in range(0, len(counts), group_size):
        block = counts[start : start + group_size]
        measured[start : start + group_size] = group_size * block - sum(block)
    return measured


def measurements(people: list[tuple[int, ...]], q: int, k: int, measure: Measure) -> list[Ints]:
    """The exact measurement of each step. A bin is a window read as a number in base `q`, oldest symbol first."""
    steps = []
    for end in range(k, len(people[0]) + 1):
        counts = np.zeros(q**k, dtype=np.int64)
        for history in people:
            counts[sum(symbol * q**place for place, symbol in enumerate(reversed(history[end - k : end])))] += 1
        if measure == "contrast":
            # All bins at the first step; later the q bins that agree in all but the newest symbol, which are adjacent.
            counts = contrasts(counts, q**k if end == k else q)
        steps.append(counts)
    return steps


@lru_cache(maxsize=2)
def squared_distances(q: int, k: int, T: int, measure: Measure, adjacency: Adjacency) -> list[Ints]:
    """For each step, `|M(panel) - M(neighbour)|^2` for every pair of neighbours."""
    rng = np.random.default_rng(3)
    others = [tuple(int(symbol) for symbol in history) for history in rng.integers(0, q, (3, T))]
    panels = [measurements([*others, history], q, k, measure) for history in product(range(q), repeat=T)]
    gone = measurements(others, q, k, measure)
    distances = []
    for step in range(T - k + 1):
        measured = np.array([panel[step] for panel in panels])
        neighbours = [panel[step] for panel in panels] if adjacency is Adjacency.REPLACE_ONE else [gone[step]]
        distances.append(np.stack([((measured - neighbour) ** 2).sum(axis=1) for neighbour in neighbours]))
    return distances


def worst_costs(distances: list[Ints], sigma_first: float, sigma_later: float) -> Iterator[Fraction]:
    """For every prefix of steps, the most that any one pair costs over all of them."""
    first, later = distances[0], np.zeros_like(distances[0])
    for step, distance in enumerate(distances):
        if step:
            later = later + distance
        yield max(
            Fraction(int(value)) / (2 * Fraction(sigma_first) ** 2)
            + Fraction(int(later[first == value].max())) / (2 * Fraction(sigma_later) ** 2)
            for value in np.unique(first)
        )


@pytest.mark.parametrize(("q", "k", "T", "measure", "adjacency"), CASES)
def test_every_prefix_costs_exactly_what_its_worst_pair_costs(
    q: int, k: int, T: int, measure: Measure, adjacency: Adjacency
) -> None:
    distances = squared_distances(q, k, T, measure, adjacency)
    calibrated = WindowMechanism.calibrated(q=q, k=k, horizon=T, measure=measure, adjacency=adjacency, rho=0.005)
    for first, later in [*SIGMAS, (calibrated.sigma_first, calibrated.sigma_later)]:
        mechanism = WindowMechanism(q, k, T, measure, adjacency, first, later)
        assert [mechanism.cost(Period(t)) for t in range(k)] == [0] * k
        assert [mechanism.cost(Period(t)) for t in range(k, T + 1)] == list(worst_costs(distances, first, later))


@pytest.mark.parametrize(("q", "k", "T", "measure", "adjacency"), CASES)
def test_a_step_drawn_twice_adds_what_its_own_worst_pair_costs(
    q: int, k: int, T: int, measure: Measure, adjacency: Adjacency
) -> None:
    mechanism = WindowMechanism(q, k, T, measure, adjacency, 1.7, 2.9)
    assert [mechanism.redraw_cost(Period(t)) for t in range(k)] == [0] * k
    for t, distance in enumerate(squared_distances(q, k, T, measure, adjacency), start=k):
        sigma = Fraction(1.7 if t == k else 2.9)
        assert mechanism.redraw_cost(Period(t)) == Fraction(int(distance.max())) / (2 * sigma**2)


@pytest.mark.parametrize(("q", "k", "T"), [(2, 1, 4), (2, 2, 6), (2, 3, 5), (3, 2, 5)])
@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("adjacency", Adjacency)
def test_with_steps_drawn_again_no_pair_pays_more_than_the_bound(
    q: int, k: int, T: int, measure: Measure, adjacency: Adjacency
) -> None:
    first, later = 1.7, 2.9
    mechanism = WindowMechanism(q, k, T, measure, adjacency, first, later)
    distances = squared_distances(q, k, T, measure, adjacency)
    for redrawn in [(k,), (T,), (k, T, T), tuple(range(1, T + 1))]:
        repeated = [distance * (1 + redrawn.count(t)) for t, distance in enumerate(distances, start=k)]
        for t, worst in enumerate(worst_costs(repeated, first, later), start=k):
            cost = mechanism.cost(Period(t), [Period(again) for again in redrawn])
            added = sum(mechanism.redraw_cost(Period(again)) for again in redrawn if again <= t)
            assert worst <= cost == mechanism.cost(Period(t)) + added


@pytest.mark.parametrize(("q", "k", "T"), [(2, 3, 12), (4, 2, 12), (3, 1, 7), (2, 5, 5), (5, 4, 30), (64, 2, 100)])
@pytest.mark.parametrize("adjacency", Adjacency)
def test_contrasts_cost_what_the_closed_formula_says(q: int, k: int, T: int, adjacency: Adjacency) -> None:
    m, s = q**k, 3
    v = Fraction(s**2)
    mechanism = WindowMechanism(q, k, T, "contrast", adjacency, float(m * s), float(q * s))
    for r in range(1, T - k + 2):
        F = math.ceil((r - 1) / k)
        zero_out = (Fraction(m - 1, m) + (r - 1) * Fraction(q - 1, q)) / (2 * v)
        replace_one = (1 + F + (r - 1 - F) * Fraction(q - 1, q)) / v
        assert mechanism.cost(Period(k + r - 1)) == (zero_out if adjacency is Adjacency.ZERO_OUT else replace_one)


@pytest.mark.parametrize(("adjacency", "sensitivity"), [(Adjacency.ZERO_OUT, 1), (Adjacency.REPLACE_ONE, 2)])
def test_the_histogram_has_the_variance_of_equal_shares(adjacency: Adjacency, sensitivity: int) -> None:
    mechanism = WindowMechanism.calibrated(q=3, k=2, horizon=9, measure="histogram", adjacency=adjacency, rho=0.02)
    assert mechanism.steps == 8
    assert mechanism.sigma_first == mechanism.sigma_later
    assert mechanism.bin_variance == mechanism.variance == pytest.approx(8 * sensitivity / (2 * 0.02), rel=1e-14)


@pytest.mark.parametrize(
    ("q", "k", "adjacency", "ratio"),
    [
        (2, 3, Adjacency.REPLACE_ONE, 0.6125),
        (2, 3, Adjacency.ZERO_OUT, 0.4703125),
        (4, 2, Adjacency.REPLACE_ONE, 0.83096590909),
        (4, 2, Adjacency.ZERO_OUT, 0.71910511364),
    ],
)
def test_contrasts_need_less_noise_than_the_histogram_for_the_same_budget(
    q: int, k: int, adjacency: Adjacency, ratio: float
) -> None:
    ours, papers = (
        WindowMechanism.calibrated(q=q, k=k, horizon=12, measure=measure, adjacency=adjacency, rho=0.005)
        for measure in MEASURES
    )
    assert (ours.measure, papers.measure) == ("contrast", "histogram")
    assert ours.bin_variance / papers.bin_variance == pytest.approx(ratio, rel=1e-10)


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("adjacency", Adjacency)
def test_every_step_of_a_calibrated_mechanism_has_the_same_variance(measure: Measure, adjacency: Adjacency) -> None:
    mechanism = WindowMechanism.calibrated(q=3, k=2, horizon=6, measure=measure, adjacency=adjacency, rho=0.3)
    first, later = (9, 3) if measure == "contrast" else (1, 1)
    assert mechanism.sigma_first / first == pytest.approx(mechanism.sigma_later / later, rel=1e-15)
    assert mechanism.variance == pytest.approx((mechanism.sigma_later / later) ** 2, rel=1e-15)
    assert mechanism.bin_variance == pytest.approx(mechanism.variance * (8 / 9 if measure == "contrast" else 1), rel=1e-15)


def test_a_zero_out_study_costs_up_to_four_times_its_budget_under_replace_one() -> None:
    ratios = []
    for q, k, T in SHAPES:
        for measure in MEASURES:
            zero_out = WindowMechanism.calibrated(
                q=q, k=k, horizon=T, measure=measure, adjacency=Adjacency.ZERO_OUT, rho=1.0
            )
            other = replace(zero_out, adjacency=Adjacency.REPLACE_ONE)
            ratios.append(other.cost(Period(T)) / zero_out.cost(Period(T)))
    assert min(ratios) == 2
    assert max(ratios) == 4


def step_sensitivities(q: int, k: int, T: int, measure: Measure, adjacency: Adjacency) -> list[int]:
    return [int(distance.max()) for distance in squared_distances(q, k, T, measure, adjacency)]


@pytest.mark.parametrize(("q", "k", "T"), [(2, 3, 6), (3, 2, 4)])
@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("adjacency", Adjacency)
def test_opendp_charges_no_less_for_a_step_and_hardly_more(
    q: int, k: int, T: int, measure: Measure, adjacency: Adjacency
) -> None:
    mechanism = WindowMechanism.calibrated(q=q, k=k, horizon=T, measure=measure, adjacency=adjacency, rho=0.005)
    for t, sensitivity in enumerate(step_sensitivities(q, k, T, measure, adjacency), start=k):
        sigma = mechanism.sigma_first if t == k else mechanism.sigma_later
        ours, theirs = mechanism.redraw_cost(Period(t)), Fraction(gaussian_cost(sigma, sqrt_up(Fraction(sensitivity))))
        assert ours <= theirs <= ours * (1 + Fraction(1, 10**9))


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("adjacency", Adjacency)
def test_opendp_charges_the_same_for_the_whole_release_of_the_worst_pair(measure: Measure, adjacency: Adjacency) -> None:
    q, k, T = 2, 2, 6
    mechanism = WindowMechanism.calibrated(q=q, k=k, horizon=T, measure=measure, adjacency=adjacency, rho=0.4)
    distances = squared_distances(q, k, T, measure, adjacency)
    sigmas = [mechanism.sigma_first] + [mechanism.sigma_later] * (T - k)
    steps = np.array(distances, dtype=float) / (2 * np.square(sigmas)[:, None, None])
    pair = np.unravel_index(np.argmax(steps.sum(axis=0)), distances[0].shape)
    theirs = sum(
        Fraction(gaussian_cost(sigma, sqrt_up(Fraction(int(distance[pair])))))
        for sigma, distance in zip(sigmas, distances, strict=True)
        if distance[pair]
    )
    ours = mechanism.cost(Period(T))
    assert ours <= theirs <= ours * (1 + Fraction(1, 10**9))


def test_spending_never_falls_and_every_measuring_period_spends() -> None:
    mechanism = WindowMechanism(2, 3, 9, "contrast", Adjacency.REPLACE_ONE, 8.0, 2.0)
    costs = [mechanism.cost(Period(t)) for t in range(10)]
    assert costs[:3] == [0, 0, 0]
    assert all(before < after for before, after in pairwise(costs[2:]))


@pytest.mark.parametrize("period", [-1, 5])
def test_a_period_outside_the_study_has_no_cost(period: int) -> None:
    mechanism = WindowMechanism(2, 2, 4, "contrast", Adjacency.REPLACE_ONE, 1.0, 1.0)
    for asked in (mechanism.cost, mechanism.redraw_cost):
        with pytest.raises(ValueError, match=r"outside 0\.\.4"):
            asked(Period(period))


@pytest.mark.parametrize(("q", "k", "T"), [(1, 1, 1), (2, 0, 3), (2, 4, 3)])
def test_a_mechanism_without_a_window_cannot_be_made(q: int, k: int, T: int) -> None:
    with pytest.raises(ValueError, match="q >= 2 and 1 <= k <= T"):
        WindowMechanism(q, k, T, "contrast", Adjacency.REPLACE_ONE, 1.0, 1.0)


@pytest.mark.parametrize(("first", "later"), [(0.0, 1.0), (1.0, 0.0), (-1.0, 1.0), (1.0, math.nan)])
def test_a_mechanism_without_noise_cannot_be_made(first: float, later: float) -> None:
    with pytest.raises(ValueError, match="protects nobody"):
        WindowMechanism(2, 2, 3, "contrast", Adjacency.REPLACE_ONE, first, later)
