"""The flow mechanism of windows: its cost is that of the worst pair of histories, its errors are those of the dense form.

Costs are compared with all pairs of histories, from the definition: the sums `u_B(a)` of each history, the noise that is
drawn on them, squared distances over `2 sigma^2` in exact fractions. Errors are compared with the backward recursion on the
automaton of the last `k-1` symbols, which knows nothing of sets of periods.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from itertools import chain, combinations, pairwise, product
from math import prod

import numpy as np
import pytest

from streamproc.privacy.adjacency import CLOSED_ADJACENCIES, Adjacency
from streamproc.privacy.automaton import transitions_of, window_automaton
from streamproc.privacy.directed_rounding import sqrt_up
from streamproc.privacy.flow_design import FlowWeights, recursion
from streamproc.privacy.types import FloatArray, Period
from streamproc.privacy.window_flow import WindowFlowMechanism
from tests.privacy.opendp_cost import gaussian_cost

SHAPES = [(2, k, T) for k in (1, 2, 3) for T in range(k, 7)] + [(3, k, T) for k in (1, 2) for T in range(k, 5)]
SHAPES += [(3, 3, 4), (4, 2, 3)]
ROUNDING = Fraction(1, 10**12)
"""What rounding `sigma` up to a float may take from a cost, relative to it."""


def calibrated(
    q: int, k: int, T: int, adjacency: Adjacency = Adjacency.REPLACE_ONE, rho: float = 1.0
) -> WindowFlowMechanism:
    return WindowFlowMechanism.calibrated(q=q, k=k, horizon=T, adjacency=adjacency, rho=rho)


def uneven(q: int, k: int, T: int, adjacency: Adjacency) -> WindowFlowMechanism:
    """Weights that nobody would choose: the worst pair of a prefix then depends on them."""
    weights = 10 ** np.random.default_rng([q, k, T]).uniform(-2, 2, T - k + 1)
    return WindowFlowMechanism(q, k, T, adjacency, tuple(weights.tolist()))


def sets_measured(newest: int, k: int) -> Iterator[tuple[int, ...]]:
    """All sets of periods that end in `newest` and fit in a window of `k` periods."""
    older = range(max(newest - k, 0) + 1, newest)
    for chosen in chain.from_iterable(combinations(older, size) for size in range(len(older) + 1)):
        yield (*chosen, newest)


def sums(history: Sequence[int], periods: tuple[int, ...], q: int) -> list[int]:
    """`u_B(a)` of one person, for every `a`; for two symbols only the first."""
    places = [(0,) * len(periods)] if q == 2 else product(range(q), repeat=len(periods))
    return [prod(q * (history[i - 1] == symbol) - 1 for i, symbol in zip(periods, a, strict=True)) for a in places]


@lru_cache(maxsize=1)
def squared_distances(q: int, k: int, T: int, adjacency: Adjacency) -> dict[tuple[int, ...], list[int]]:
    """For each set, `|u_B - u'_B|^2` for every pair of neighbours, in the same order."""
    histories = list(product(range(q), repeat=T))
    found = {}
    for newest in range(1, T + 1):
        for periods in sets_measured(newest, k):
            own = np.array([sums(history, periods, q) for history in histories])
            others = own if adjacency is Adjacency.REPLACE_ONE else np.zeros((1, own.shape[1]), dtype=own.dtype)
            distances = ((own[:, None, :] - others[None, :, :]) ** 2).sum(axis=2)
            found[periods] = distances.ravel().tolist()
    return found


def worst_costs(mechanism: WindowFlowMechanism, redrawn: Sequence[int] = ()) -> list[Fraction]:
    """For every prefix, the most that any one pair costs with the noise that is drawn."""
    q, k, T = mechanism.q, mechanism.k, mechanism.horizon
    distances = squared_distances(q, k, T, mechanism.adjacency)
    costs = np.zeros(len(next(iter(distances.values()))), dtype=object)
    worst = []
    for newest in range(1, T + 1):
        for periods in sets_measured(newest, k):
            sigma = mechanism.sigma(Period(newest), newest - periods[0] + 1, len(periods))
            each = (1 + redrawn.count(newest)) / (2 * Fraction(sigma) ** 2)
            costs = costs + np.array(distances[periods], dtype=object) * each
        worst.append(max(costs))
    return worst


def assert_just_above(stated: Fraction, true: Fraction) -> None:
    assert true <= stated <= true * (1 + ROUNDING)


@pytest.mark.parametrize(("q", "k", "T"), SHAPES)
@pytest.mark.parametrize("adjacency", CLOSED_ADJACENCIES)
def test_every_prefix_costs_what_its_worst_pair_costs(q: int, k: int, T: int, adjacency: Adjacency) -> None:
    for mechanism in (calibrated(q, k, T, adjacency, 0.005), uneven(q, k, T, adjacency)):
        assert mechanism.cost(Period(0)) == 0
        for t, true in enumerate(worst_costs(mechanism), start=1):
            assert_just_above(mechanism.cost(Period(t)), true)


@pytest.mark.parametrize(("q", "k", "T"), [(2, 1, 4), (2, 2, 5), (2, 3, 6), (3, 2, 4)])
@pytest.mark.parametrize("adjacency", CLOSED_ADJACENCIES)
def test_a_period_that_is_drawn_again_counts_once_more(q: int, k: int, T: int, adjacency: Adjacency) -> None:
    mechanism = uneven(q, k, T, adjacency)
    for redrawn in [(1,), (T,), (k, T, T), tuple(range(1, T + 1))]:
        for t, true in enumerate(worst_costs(mechanism, redrawn), start=1):
            assert_just_above(mechanism.cost(Period(t), [Period(again) for again in redrawn]), true)


@pytest.mark.parametrize(("q", "k", "T"), [(2, 3, 5), (3, 2, 4)])
@pytest.mark.parametrize("adjacency", CLOSED_ADJACENCIES)
def test_the_same_noise_has_a_cost_under_the_other_adjacency(q: int, k: int, T: int, adjacency: Adjacency) -> None:
    """`replace` must not change the noise, which is made for one adjacency, when it changes the adjacency of the cost."""
    other = Adjacency.ZERO_OUT if adjacency is Adjacency.REPLACE_ONE else Adjacency.REPLACE_ONE
    mechanism = calibrated(q, k, T, adjacency)
    same_noise = replace(mechanism, adjacency=other)
    assert same_noise.sigma(Period(T), 1, 1) == mechanism.sigma(Period(T), 1, 1)
    for t, true in enumerate(worst_costs(same_noise), start=1):
        assert_just_above(same_noise.cost(Period(t)), true)


@pytest.mark.parametrize(("q", "k", "T"), [*SHAPES, (2, 16, 20), (5, 3, 30), (64, 2, 9)])
def test_a_whole_study_costs_the_sum_of_its_weights_times_the_bins(q: int, k: int, T: int) -> None:
    for mechanism in (calibrated(q, k, T), uneven(q, k, T, Adjacency.REPLACE_ONE)):
        assert mechanism.cost(Period(T)) == q**k * sum(map(Fraction, mechanism.weights))


@pytest.mark.parametrize(("q", "k", "T"), [(2, 1, 1), (2, 3, 12), (3, 2, 7), (2, 16, 40), (64, 2, 30), (2, 4, 1000)])
@pytest.mark.parametrize("adjacency", CLOSED_ADJACENCIES)
@pytest.mark.parametrize("rho", [1e-12, 0.005, 0.1, 1000.0])
def test_a_calibrated_mechanism_spends_its_budget_and_no_more(
    q: int, k: int, T: int, adjacency: Adjacency, rho: float
) -> None:
    cost = calibrated(q, k, T, adjacency, rho).cost(Period(T))
    assert Fraction(rho) * (1 - ROUNDING) <= cost <= Fraction(rho)


def test_spending_never_falls_and_every_period_spends() -> None:
    for adjacency in CLOSED_ADJACENCIES:
        costs = [calibrated(2, 3, 9, adjacency).cost(Period(t)) for t in range(10)]
        assert all(before < after for before, after in pairwise(costs))


@pytest.mark.parametrize("adjacency", CLOSED_ADJACENCIES)
def test_opendp_charges_the_same_for_the_worst_pair(adjacency: Adjacency) -> None:
    mechanism = calibrated(2, 2, 4, adjacency, 0.4)
    distances = squared_distances(2, 2, 4, adjacency)
    sigmas = {
        periods: mechanism.sigma(Period(periods[-1]), periods[-1] - periods[0] + 1, len(periods)) for periods in distances
    }
    total = sum(np.array(distances[periods]) / (2 * sigmas[periods] ** 2) for periods in distances)
    pair = int(np.argmax(total))
    theirs = sum(
        Fraction(gaussian_cost(sigmas[periods], sqrt_up(Fraction(each[pair]))))
        for periods, each in distances.items()
        if each[pair]
    )
    ours = mechanism.cost(Period(4))
    assert ours * (1 - ROUNDING) <= theirs <= ours * (1 + Fraction(1, 10**9))


@pytest.mark.parametrize(
    ("q", "k", "T", "variance"), [(2, 2, 12, 5.750), (2, 3, 12, 5.375), (2, 3, 24, 11.375), (4, 2, 12, 8.4375)]
)
def test_the_largest_variance_is_that_of_the_reference(q: int, k: int, T: int, variance: float) -> None:
    mechanism = calibrated(q, k, T)
    assert mechanism.bin_variance == pytest.approx(variance, rel=1e-6)
    assert mechanism.bin_variances[k - 1 :].min() == pytest.approx(variance, rel=1e-6)
    assert variance == pytest.approx((1 - q**-k) + (T - k) * (1 - 1 / q))


def test_zero_out_noise_has_less_variance_than_replace_one_noise() -> None:
    for q, k, T in [(2, 3, 12), (4, 2, 12)]:
        zero_out = calibrated(q, k, T, Adjacency.ZERO_OUT)
        assert zero_out.bin_variance < calibrated(q, k, T).bin_variance / 2
        assert zero_out.bin_variances[k - 1 :].min() == pytest.approx(zero_out.bin_variance, rel=1e-3)


def dense_covariances(mechanism: WindowFlowMechanism) -> dict[tuple[int, int], FloatArray]:
    """`Cov(x_t, x_s)` of the counts of all windows for `s <= t`, from the recursion on the automaton."""
    q, k, T = mechanism.q, mechanism.k, mechanism.horizon
    periods = transitions_of(window_automaton(q, k), T)
    # The weights of the subset form are those of the dense form divided by q^k.
    each = [0.0] * (k - 1) + [weight * q**k for weight in mechanism.weights]
    weights = FlowWeights(
        tuple(np.full(len(period), weight) for period, weight in zip(periods, each, strict=True)),
        tuple(np.zeros((len(period.after), len(period.after))) for period in periods),
    )
    states = np.zeros((1, 1))
    found, carries = {}, []
    for t, (period, design) in enumerate(zip(periods, recursion(periods, weights), strict=True), start=1):
        carry = period.spread + period.contrasts @ design.gain
        counts = carry @ states @ carry.T + period.contrasts @ np.linalg.inv(design.precision) @ period.contrasts.T
        found[t, t] = counts
        carries.append(carry)
        states = period.entering(period.entering(counts).T)
    for s in range(1, T + 1):
        states_with = periods[s - 1].entering(found[s, s])
        for t in range(s + 1, T + 1):
            found[t, s] = carries[t - 1] @ states_with
            states_with = periods[t - 1].entering(found[t, s])
    return found


@pytest.mark.parametrize(("q", "k", "T"), [(2, 2, 7), (2, 3, 8), (2, 4, 7), (3, 2, 6), (3, 3, 5), (4, 2, 5)])
def test_errors_are_those_of_the_dense_form(q: int, k: int, T: int) -> None:
    for mechanism in (calibrated(q, k, T), uneven(q, k, T, Adjacency.REPLACE_ONE)):
        dense = dense_covariances(mechanism)
        for (t, s), expected in dense.items():
            later, earlier = np.eye(q ** min(t, k)), np.eye(q ** min(s, k))
            ours = [[mechanism.covariance(f, Period(t), g, Period(s)) for g in earlier] for f in later]
            scale = math.sqrt(np.diagonal(dense[t, t]).max() * np.diagonal(dense[s, s]).max())
            assert np.abs(np.array(ours) - expected).max() < 1e-12 * scale
            if t == s:
                assert np.diagonal(expected) == pytest.approx(
                    np.full(len(expected), mechanism.bin_variances[t - 1]), rel=1e-12
                )


def test_a_period_that_shares_none_with_an_earlier_window_is_independent_of_it() -> None:
    mechanism = calibrated(2, 2, 6)
    assert mechanism.covariance(np.eye(4)[0], Period(5), np.eye(4)[0], Period(3)) == 0
    assert mechanism.covariance(np.eye(4)[0], Period(5), np.eye(4)[0], Period(4)) != 0


def test_the_sum_of_all_bins_has_no_error() -> None:
    mechanism = calibrated(3, 2, 5)
    assert mechanism.variance(np.ones(9), Period(4)) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("adjacency", CLOSED_ADJACENCIES)
def test_declared_questions_get_less_variance(adjacency: Adjacency) -> None:
    """The newest symbol alone: the worst period of this question is better than with weights that are made for bins."""
    newest = np.tile([0.0, 1.0], 4)
    bins = calibrated(2, 3, 12, adjacency)
    tuned = WindowFlowMechanism.calibrated(q=2, k=3, horizon=12, adjacency=adjacency, rho=1.0, questions=[newest])
    ours, theirs = (max(m.variance(newest, Period(t)) for t in range(3, 13)) for m in (tuned, bins))
    assert ours < theirs
    assert tuned.cost(Period(12)) <= 1


@pytest.mark.parametrize(
    ("adjacency", "asked"),
    [
        (Adjacency.REPLACE_ONE, []),
        (Adjacency.ZERO_OUT, []),
        (Adjacency.REPLACE_ONE, [np.tile([0.0, 1.0], 4), np.repeat([1.0, 0.0], 4)]),
    ],
    ids=["bins", "bins, zero-out", "questions"],
)
def test_no_other_weights_have_a_smaller_mean_variance(adjacency: Adjacency, asked: list[FloatArray]) -> None:
    """To within 0.1%, which is how near 20 rounds come."""
    q, k, T = 2, 3, 9
    questions = asked or [np.eye(8)[0]]

    def mean_at_cost_one(mechanism: WindowFlowMechanism) -> float:
        variances = [mechanism.variance(weights, Period(t)) for weights in questions for t in range(k, T + 1)]
        return float(np.mean(variances)) * float(mechanism.cost(Period(T)))

    tuned = WindowFlowMechanism.calibrated(
        q=q, k=k, horizon=T, adjacency=adjacency, rho=1.0, questions=asked, objective="mean"
    )
    least = mean_at_cost_one(tuned)
    assert least < 0.999 * mean_at_cost_one(calibrated(q, k, T, adjacency))
    for place, factor in product(range(T - k + 1), (0.9, 1.1)):
        weights = np.array(tuned.weights)
        weights[place] *= factor
        assert mean_at_cost_one(replace(tuned, weights=tuple(weights.tolist()))) > least * (1 - 1e-3)


def test_questions_that_nothing_is_asked_about_change_nothing() -> None:
    asked = WindowFlowMechanism.calibrated(
        q=2, k=2, horizon=5, adjacency=Adjacency.REPLACE_ONE, rho=1.0, questions=[np.zeros(4)]
    )
    assert asked == calibrated(2, 2, 5)


@pytest.mark.parametrize("period", [-1, 5])
def test_a_period_outside_the_study_has_no_cost(period: int) -> None:
    with pytest.raises(ValueError, match=r"outside 0\.\.4"):
        calibrated(2, 2, 4).cost(Period(period))


@pytest.mark.parametrize(("q", "k", "T"), [(1, 1, 1), (2, 0, 3), (2, 4, 3)])
def test_a_mechanism_without_a_window_cannot_be_made(q: int, k: int, T: int) -> None:
    with pytest.raises(ValueError, match="q >= 2 and 1 <= k <= T"):
        WindowFlowMechanism(q, k, T, Adjacency.REPLACE_ONE, (1.0,))


@pytest.mark.parametrize("weights", [(1.0,), (1.0, 1.0, 1.0), (1.0, 0.0), (1.0, -1.0), (1.0, math.inf), (math.nan, 1.0)])
def test_weights_must_be_positive_and_as_many_as_full_windows(weights: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="needs (2 )?weights"):
        WindowFlowMechanism(2, 2, 3, Adjacency.REPLACE_ONE, weights)


def test_equal_mechanisms_are_one_key() -> None:
    assert len({calibrated(2, 2, 4), calibrated(2, 2, 4), calibrated(2, 2, 4, rho=2.0)}) == 2
