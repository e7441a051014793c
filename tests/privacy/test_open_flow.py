"""The flow mechanism of open studies costs what its worst pair of histories costs; its errors are those of least squares.

Costs are compared with all pairs of histories, from the definition (`tests/privacy/open_histories.py`): people enter and
leave at any time, and nothing of the mechanism is used but its matrix and `sigma`. Errors are compared with dense least
squares over all counts of all periods at once, which knows nothing of a recursion or of a fixed point.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import null_space, solve

from streamproc.privacy.adjacency import Adjacency
from streamproc.privacy.directed_rounding import sqrt_up
from streamproc.privacy.flow import MAX_MATRIX_ENTRY
from streamproc.privacy.open_automaton import OpenAutomaton, open_events, open_spells, open_windows
from streamproc.privacy.open_flow import OpenFlowMechanism, stationary_matrix, stationary_recursion
from streamproc.privacy.types import FloatArray, IntArray, Period
from tests.privacy.open_histories import History, cell, cells_of_transitions, follow, histories
from tests.privacy.opendp_cost import gaussian_cost
from tests.releases.statistical_checks import assert_covariance

ADJACENCIES = (Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE)

EXAMPLES = {
    "one symbol, one state": (open_windows(1, 1), 3),
    "windows of one of two symbols": (open_windows(2, 1), 4),
    "windows of two of two symbols": (open_windows(2, 2), 4),
    "windows of three of two symbols": (open_windows(2, 3), 4),
    "windows of two of three symbols": (open_windows(3, 2), 3),
    "windows of one, present once": (open_windows(3, 1), 1),
    "windows of three, present twice": (open_windows(2, 3), 2),
    "spells up to two": (open_spells(2), 4),
    "spells up to three, present once": (open_spells(3), 1),
    "events up to two": (open_events(2), 4),
    "events up to four": (open_events(4), 4),
    "merged symbols and a state that nobody reaches": (OpenAutomaton((0, 1, 1), ((1, 1, 0), (0, 0, 0), (2, 2, 1))), 3),
    "the same, symbols told apart": (OpenAutomaton((0, 1, 1), ((1, 1, 0), (0, 0, 0), (2, 2, 1)), told_apart=True), 3),
}


def paths(automaton: OpenAutomaton, found: Sequence[History]) -> IntArray:
    """For each history and period, the column of the transition; the number of columns stands for nothing."""
    place: dict[int | None, int] = {known: column for column, known in enumerate(cells_of_transitions(automaton))}
    place[None] = len(place)
    return np.array([[place[known] for known in history] for history in found])


def largest_over_pairs(
    apart: FloatArray | IntArray, adjacency: Adjacency, followed: IntArray, redrawn: Sequence[int] = ()
) -> list[float]:
    """For every prefix, the largest sum of `apart[e, f]` over all pairs of neighbours, with periods counted again."""
    nothing = followed[:1]
    assert (nothing == len(apart) - 1).all()
    others = followed if adjacency is Adjacency.REPLACE_ONE else nothing
    total = np.zeros((len(followed), len(others)), dtype=apart.dtype)
    worst: list[float] = [0]
    for t in range(followed.shape[1]):
        np.add(total, (1 + redrawn.count(t + 1)) * apart[np.ix_(followed[:, t], others[:, t])], out=total)
        worst.append(total.max().item())
    return worst


def squared_distances(matrix: IntArray) -> IntArray:
    """`|W (e - f)|^2` for all pairs of columns and nothing, which is the last one; sums of them fit 64 bits."""
    columns = [*matrix.T.tolist(), [0] * len(matrix)]
    return np.array([[sum((a - b) ** 2 for a, b in zip(one, two, strict=True)) for two in columns] for one in columns])


def worst_distances(mechanism: OpenFlowMechanism, horizon: int, redrawn: Sequence[int] = ()) -> list[float]:
    """For every prefix, the largest `sum_t draws_t |W (x_t - x'_t)|^2` over all pairs of neighbours."""
    automaton = mechanism.automaton
    followed = paths(automaton, list(histories(automaton, mechanism.tenure, horizon)))
    assert mechanism.matrix.shape[1] == len(cells_of_transitions(automaton))
    return largest_over_pairs(squared_distances(mechanism.matrix), mechanism.adjacency, followed, redrawn)


def assert_costs_are_those_of_the_worst_pair(mechanism: OpenFlowMechanism) -> None:
    """For every prefix; and past two participations in a row nothing is added."""
    known, horizon = mechanism.worst_distances, 2 * mechanism.tenure + 4
    worst = worst_distances(mechanism, horizon)
    assert len(known) <= 2 * mechanism.tenure + 3
    assert worst == known + [known[-1]] * (len(worst) - len(known))
    for period in (*range(horizon + 1), 10**6):
        distance = Fraction(int(worst[min(period, horizon)]))
        assert mechanism.cost(Period(period)) == distance / (2 * Fraction(mechanism.sigma) ** 2)


def designed(automaton: OpenAutomaton, tenure: int, adjacency: Adjacency, rho: float = 1.0) -> OpenFlowMechanism:
    return OpenFlowMechanism.calibrated(automaton, tenure, adjacency, rho)


def arbitrary(automaton: OpenAutomaton, tenure: int, adjacency: Adjacency, seed: int, most: int = 9) -> OpenFlowMechanism:
    """A matrix of random integers: the worst pair then has no structure."""
    rng, columns = np.random.default_rng(seed), len(cells_of_transitions(automaton))
    matrix = rng.integers(-most, most + 1, size=(columns - automaton.states, columns))
    if rng.integers(2):
        matrix *= rng.integers(
            0, 2, size=columns
        )  # some transitions are free, so that waiting and leaving early may be worst
    return OpenFlowMechanism(automaton, tenure, adjacency, matrix, float(rng.uniform(0.5, 20)))


@st.composite
def automata(draw: st.DrawFn) -> OpenAutomaton:
    states, classes = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    row = st.tuples(*[st.integers(0, states - 1)] * classes)
    return OpenAutomaton(draw(row), draw(st.tuples(*[row] * states)), told_apart=draw(st.booleans()))


# Cost


@pytest.mark.parametrize(("automaton", "tenure"), EXAMPLES.values(), ids=EXAMPLES)
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_every_prefix_costs_what_its_worst_pair_costs(automaton: OpenAutomaton, tenure: int, adjacency: Adjacency) -> None:
    assert_costs_are_those_of_the_worst_pair(designed(automaton, tenure, adjacency, 0.005))
    for seed in range(4):
        assert_costs_are_those_of_the_worst_pair(arbitrary(automaton, tenure, adjacency, seed))


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    automaton=automata(),
    tenure=st.integers(1, 4),
    adjacency=st.sampled_from(ADJACENCIES),
    seed=st.integers(0, 2**32 - 1),
    redrawn=st.lists(st.integers(1, 10), max_size=5),
)
def test_any_automaton_costs_what_its_worst_pair_costs(
    automaton: OpenAutomaton, tenure: int, adjacency: Adjacency, seed: int, redrawn: list[int]
) -> None:
    tenure = min(tenure, 3) if automaton.classes == 3 else tenure
    for most in (2, MAX_MATRIX_ENTRY):
        mechanism = arbitrary(automaton, tenure, adjacency, seed, most)
        assert_costs_are_those_of_the_worst_pair(mechanism)
        assert_redraws_are_covered(mechanism, redrawn)
    assert_costs_are_those_of_the_worst_pair(designed(automaton, tenure, adjacency))


def assert_redraws_are_covered(mechanism: OpenFlowMechanism, redrawn: Sequence[int]) -> None:
    """The stated cost is an upper bound of the exact one, and at most the cost with every period drawn as often as any."""
    horizon, again = 2 * mechanism.tenure + 4, [Period(t) for t in redrawn]
    for t, distance in enumerate(worst_distances(mechanism, horizon, redrawn)):
        stated = mechanism.cost(Period(t), again)
        assert stated >= Fraction(int(distance)) / (2 * Fraction(mechanism.sigma) ** 2)
        most = max(Counter(late for late in redrawn if late <= t).values(), default=0)
        assert mechanism.cost(Period(t)) <= stated <= (1 + most) * mechanism.cost(Period(t))


@pytest.mark.parametrize(("automaton", "tenure"), EXAMPLES.values(), ids=EXAMPLES)
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_redraws_cost_at_most_what_is_stated(automaton: OpenAutomaton, tenure: int, adjacency: Adjacency) -> None:
    horizon = 2 * tenure + 4
    everything = tuple(range(1, horizon + 1))
    for mechanism in (designed(automaton, tenure, adjacency), arbitrary(automaton, tenure, adjacency, 5)):
        for redrawn in [(1,), (horizon,), (2, horizon, 2), (2, 2, 2, 3), (1, tenure + 2), everything, 2 * everything]:
            assert_redraws_are_covered(mechanism, redrawn)
        twice = mechanism.cost(Period(horizon), [Period(t) for t in everything])
        assert twice == 2 * mechanism.cost(Period(horizon))


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_redraws_that_no_pair_can_meet_together_do_not_add_up(adjacency: Adjacency) -> None:
    """One participation meets the redraws of `tenure + 1` periods in a row, and two people have two participations."""
    mechanism = designed(open_windows(2, 2), 4, adjacency)
    alone = mechanism.cost(Period(10**6))
    step = Fraction(mechanism.largest_distance) / (2 * Fraction(mechanism.sigma) ** 2)
    people = 1 if adjacency is Adjacency.ADD_REMOVE else 2

    def added(*redrawn: int) -> Fraction:
        return mechanism.cost(Period(10**6), [Period(t) for t in redrawn]) - alone

    assert added(100) == step
    assert added(100, 104) == min(2 * step, alone)
    assert added(100, 105) == added(*range(100, 10_000, 5)) == people * step
    assert added(*range(100, 200)) == alone
    assert mechanism.cost(Period(99), [Period(100)]) == alone


@pytest.mark.parametrize("name", ["windows of two of two symbols", "spells up to two", "events up to two"])
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_opendp_charges_no_less_for_the_worst_pair_and_hardly_more(name: str, adjacency: Adjacency) -> None:
    """All measurements have the same noise, so OpenDP charges for one vector of all periods."""
    automaton, tenure = EXAMPLES[name]
    mechanism = designed(automaton, tenure, adjacency, 0.1)
    theirs = gaussian_cost(mechanism.sigma, sqrt_up(Fraction(int(worst_distances(mechanism, 2 * tenure + 4)[-1]))))
    assert mechanism.cost(Period(1000)) <= Fraction(theirs) <= Fraction(0.1) * (1 + Fraction(1, 10**9))


@pytest.mark.parametrize("rho", [1e-12, 0.005, 0.1, 1.0, 1000.0])
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("automaton", [open_events(12), open_spells(4), open_windows(2, 3), open_windows(4, 2)])
def test_a_calibrated_mechanism_spends_its_budget_and_a_bit_less_noise_would_exceed_it(
    automaton: OpenAutomaton, adjacency: Adjacency, rho: float
) -> None:
    mechanism = designed(automaton, 12, adjacency, rho)
    assert Fraction(rho) * (1 - Fraction(1, 10**12)) <= mechanism.cost(Period(10**6)) <= Fraction(rho)
    less = OpenFlowMechanism(automaton, 12, adjacency, mechanism.matrix, math.nextafter(mechanism.sigma, 0))
    assert less.cost(Period(10**6)) > Fraction(rho)


@pytest.mark.parametrize(("automaton", "tenure"), EXAMPLES.values(), ids=EXAMPLES)
def test_spending_never_falls_and_a_longer_tenure_costs_no_less(automaton: OpenAutomaton, tenure: int) -> None:
    for adjacency, seed in product(ADJACENCIES, range(3)):
        mechanism = arbitrary(automaton, tenure, adjacency, seed)
        longer = OpenFlowMechanism(automaton, tenure + 1, adjacency, mechanism.matrix, mechanism.sigma)
        costs = [mechanism.cost(Period(t)) for t in range(2 * tenure + 6)]
        assert costs[0] == 0
        assert all(before <= after for before, after in pairwise(costs))
        assert all(cost <= longer.cost(Period(t)) for t, cost in enumerate(costs))


@pytest.mark.parametrize(
    ("automaton", "tenure"), [(open_windows(2, 3), 365), (open_windows(4, 3), 52), (open_events(20), 64)]
)
def test_a_long_tenure_costs_what_the_theorem_says_up_to_rounding(automaton: OpenAutomaton, tenure: int) -> None:
    replaced, added = (
        OpenFlowMechanism(automaton, tenure, adjacency, stationary_matrix(automaton), 1.0) for adjacency in ADJACENCIES
    )
    unit = unit_of_the_matrix(automaton) ** 2
    assert replaced.worst_distances[-1] * unit == pytest.approx(2 * (tenure + 1), rel=1e-3)
    assert added.worst_distances[-1] * unit == pytest.approx(tenure + 1, rel=1e-3)
    assert len(replaced.worst_distances) == 2 * tenure + 3


# The theorem, before rounding


def dense_recursion(automaton: OpenAutomaton) -> tuple[FloatArray, FloatArray, FloatArray]:
    """`W` and `Phi` by the definition, with matrices over all transitions, and `A`: sums by the state that is entered."""
    leaves, enters = conservation(automaton)
    spread = leaves.T / leaves.sum(axis=1)
    open_counts = null_space(leaves)
    later, gain, precision = np.zeros((automaton.states, automaton.states)), spread, np.eye(1)
    for _ in range(60):
        form = np.eye(leaves.shape[1]) + enters.T @ later @ enters
        precision = open_counts.T @ form @ open_counts
        gain = -solve(precision, open_counts.T @ form @ spread)
        later = spread.T @ form @ spread + gain.T @ open_counts.T @ form @ spread
    measured = np.linalg.cholesky(precision).T @ (open_counts.T - gain @ leaves)
    return measured, later, enters


def conservation(automaton: OpenAutomaton) -> tuple[FloatArray, FloatArray]:
    """`U` and `A`: for each state, the transitions that leave it and those that enter it."""
    known, width = cells_of_transitions(automaton), automaton.classes + 1
    leaves = np.array([[float(found // width == 1 + state) for found in known] for state in range(automaton.states)])
    enters = np.zeros_like(leaves)
    for column, found in enumerate(known):
        row, symbol = divmod(found, width)
        if symbol < automaton.classes:
            enters[(automaton.entry if row == 0 else automaton.table[row - 1])[symbol], column] = 1
    return leaves, enters


def unit_of_the_matrix(automaton: OpenAutomaton) -> float:
    """What one unit of the rounded matrix stands for, by its Gram matrix, which is the same in every basis."""
    exact, rounded = dense_recursion(automaton)[0], stationary_matrix(automaton).astype(float)
    return math.sqrt(np.trace(exact.T @ exact) / np.trace(rounded.T @ rounded))


@pytest.mark.parametrize(("automaton", "tenure"), EXAMPLES.values(), ids=EXAMPLES)
def test_a_participation_costs_one_weight_for_each_period_and_one_for_leaving(automaton: OpenAutomaton, tenure: int) -> None:
    """`2 (tenure + 1)` under replace-one and half of it under add-remove, for the worst pair; no prefix costs more."""
    measured = np.pad(dense_recursion(automaton)[0], ((0, 0), (0, 1)))
    apart = ((measured[:, :, None] - measured[:, None, :]) ** 2).sum(axis=0)
    followed = paths(automaton, list(histories(automaton, tenure, 2 * tenure + 4)))
    for adjacency, people in zip(ADJACENCIES, (2, 1), strict=True):
        worst = largest_over_pairs(apart, adjacency, followed)
        assert worst[-1] == pytest.approx(people * (tenure + 1), rel=1e-9)
        assert max(worst) == pytest.approx(worst[-1], rel=1e-12)


@pytest.mark.parametrize(("automaton", "tenure"), EXAMPLES.values(), ids=EXAMPLES)
def test_a_prefix_costs_its_transitions_and_the_cheapest_way_to_leave(automaton: OpenAutomaton, tenure: int) -> None:
    """What the proof says of every single pair: `sum_(s <= t) |W dx_s|^2 = sum_(s <= t) |dx_s|^2 + dN_t' Phi dN_t`."""
    measured, later, enters = dense_recursion(automaton)
    followed = paths(automaton, list(histories(automaton, tenure, 2 * tenure + 4)))
    rng, steps = np.random.default_rng(1), np.vstack((np.eye(measured.shape[1]), np.zeros(measured.shape[1])))
    pairs = rng.integers(0, len(followed), size=(500, 2))
    differences = steps[followed[pairs[:, 0]]] - steps[followed[pairs[:, 1]]]
    spent = ((differences @ measured.T) ** 2).sum(axis=2).cumsum(axis=1)
    made = (differences**2).sum(axis=2).cumsum(axis=1)
    present = differences @ enters.T
    np.testing.assert_allclose(spent, made + np.einsum("pts,sr,ptr->pt", present, later, present), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("automaton", "tenure"), EXAMPLES.values(), ids=EXAMPLES)
def test_the_matrix_is_that_of_the_definition_rounded_to_16_bits(automaton: OpenAutomaton, tenure: int) -> None:
    """Compared by `W' W`, which does not depend on the basis of the open counts, and entry by entry with `M` and `K`."""
    rounded, exact = stationary_matrix(automaton), dense_recursion(automaton)[0]
    assert np.abs(rounded).max() == MAX_MATRIX_ENTRY
    unit = unit_of_the_matrix(automaton)
    np.testing.assert_allclose(
        unit**2 * rounded.T @ rounded, exact.T @ exact, rtol=0, atol=1e-3 * np.abs(exact.T @ exact).max()
    )
    transitions = automaton.transitions
    precision, gain = stationary_recursion(transitions)
    by_recursion = np.linalg.cholesky(precision).T @ (transitions.contrasts.T - gain @ conservation(automaton)[0])
    np.testing.assert_allclose(by_recursion.T @ by_recursion, exact.T @ exact, rtol=1e-9, atol=1e-9)
    scaled = by_recursion * (MAX_MATRIX_ENTRY / np.abs(by_recursion).max())
    assert np.abs(rounded - scaled).max() <= 0.5 + 1e-6


# Errors


def all_periods(automaton: OpenAutomaton, horizon: int) -> FloatArray:
    """A row for each state before each period: who leaves it, less who entered it in the period before; errors give 0."""
    leaves, enters = conservation(automaton)
    states, columns = leaves.shape
    rows = np.zeros((horizon * states, horizon * columns))
    for t in range(horizon):
        rows[t * states : (t + 1) * states, t * columns : (t + 1) * columns] = leaves
        if t:
            rows[t * states : (t + 1) * states, (t - 1) * columns : t * columns] = -enters
    return rows


@pytest.mark.parametrize(("automaton", "tenure"), EXAMPLES.values(), ids=EXAMPLES)
def test_the_design_has_the_errors_of_least_squares_over_all_periods(automaton: OpenAutomaton, tenure: int) -> None:
    """Every transition of 24 periods is measured with variance 1, and the first 4 are estimated from all of them."""
    horizon, shown = 24, 4
    basis = null_space(all_periods(automaton, horizon))
    columns = len(cells_of_transitions(automaton))
    expected = (basis @ basis.T)[: shown * columns, : shown * columns]
    measured, _, enters = dense_recursion(automaton)
    found = propagated_covariance(automaton, measured, enters, shown)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8)
    mechanism = designed(automaton, tenure, Adjacency.REPLACE_ONE, 1.0)
    scale = (mechanism.sigma * unit_of_the_matrix(automaton)) ** 2
    np.testing.assert_allclose(stated_covariance(mechanism, shown) / scale, expected, rtol=0, atol=1e-3)


def propagated_covariance(automaton: OpenAutomaton, matrix: FloatArray, enters: FloatArray, horizon: int) -> FloatArray:
    """The covariance of all transitions of all periods under noise of variance 1.

    The estimates are the counts that conserve flow and reproduce every measurement, which are unique.
    """
    measured = np.kron(np.eye(horizon), matrix)
    errors = np.linalg.inv(np.vstack((measured, all_periods(automaton, horizon))))[:, : len(measured)]
    covariance: FloatArray = errors @ errors.T
    return covariance


def stated_covariance(mechanism: OpenFlowMechanism, horizon: int) -> FloatArray:
    """The same, as the mechanism states it for each two periods."""
    columns = mechanism.matrix.shape[1]
    found = np.zeros((horizon * columns, horizon * columns))
    for t in range(horizon):
        for s in range(t + 1):
            block = mechanism.transition_covariance(Period(t + 1), Period(s + 1))
            found[t * columns : (t + 1) * columns, s * columns : (s + 1) * columns] = block
            found[s * columns : (s + 1) * columns, t * columns : (t + 1) * columns] = block.T
    return found


@pytest.mark.parametrize(("automaton", "tenure"), EXAMPLES.values(), ids=EXAMPLES)
def test_the_mechanism_states_the_errors_of_its_own_matrix(automaton: OpenAutomaton, tenure: int) -> None:
    """Within and between periods, whatever the matrix is: it need not come from the recursion."""
    horizon, (_, enters) = 6, conservation(automaton)
    for mechanism in (
        designed(automaton, tenure, Adjacency.REPLACE_ONE, 0.005),
        fading(automaton, tenure),
    ):
        expected = mechanism.sigma**2 * propagated_covariance(automaton, mechanism.matrix.astype(float), enters, horizon)
        np.testing.assert_allclose(stated_covariance(mechanism, horizon), expected, rtol=0, atol=1e-9 * expected.max())
        for t in range(horizon):
            of_period = mechanism.transition_covariance(Period(t + 1))
            np.testing.assert_allclose(
                mechanism.state_covariance(Period(t + 1)), enters @ of_period @ enters.T, atol=1e-9 * expected.max()
            )


def fading(automaton: OpenAutomaton, tenure: int) -> OpenFlowMechanism:
    """The designed matrix with every entry changed by up to a tenth of the largest."""
    rng, matrix = np.random.default_rng(6), stationary_matrix(automaton)
    changed = np.clip(matrix + rng.integers(-3000, 3001, matrix.shape), -MAX_MATRIX_ENTRY, MAX_MATRIX_ENTRY)
    return OpenFlowMechanism(automaton, tenure, Adjacency.REPLACE_ONE, changed, 1234.5)


def simulated_counts(automaton: OpenAutomaton, tenure: int, horizon: int) -> IntArray:
    """The counts of the transitions of 300 people who come and go, for each period."""
    rng = np.random.default_rng(7)
    counts = np.zeros((horizon, len(cells_of_transitions(automaton)) + 1), dtype=np.int64)
    for _ in range(300):
        entered, present = int(rng.integers(1, horizon + 1)), int(rng.integers(1, tenure + 1))
        history = follow(automaton, horizon, entered, rng.integers(0, automaton.classes, present).tolist())
        counts[np.arange(horizon), paths(automaton, [history])[0]] += 1
    return counts[:, :-1]


@pytest.mark.parametrize(("automaton", "tenure"), EXAMPLES.values(), ids=EXAMPLES)
def test_estimates_without_noise_are_the_counts(automaton: OpenAutomaton, tenure: int) -> None:
    mechanism, (_, enters) = designed(automaton, tenure, Adjacency.ADD_REMOVE), conservation(automaton)
    states = np.zeros(automaton.states)
    for exact in simulated_counts(automaton, tenure, 12):
        estimate = mechanism.estimator.carried @ states + mechanism.estimator.measured @ (mechanism.matrix @ exact)
        np.testing.assert_allclose(estimate, exact, atol=1e-8)
        states = enters @ estimate


@pytest.mark.parametrize("name", ["windows of two of two symbols", "spells up to two", "events up to four"])
def test_estimates_have_the_stated_mean_and_covariance(name: str) -> None:
    """Chi-square of the errors of periods 1, 2 and 12 together, over 500 runs; the seed is fixed, false alarm 1e-6 each."""
    automaton, tenure = EXAMPLES[name]
    mechanism, (_, enters) = designed(automaton, tenure, Adjacency.REPLACE_ONE, 0.005), conservation(automaton)
    rng, runs, shown = np.random.default_rng(8), 500, (1, 2, 12)
    states, errors = np.zeros((automaton.states, runs)), []
    for exact in simulated_counts(automaton, tenure, max(shown)):
        noise = np.rint(rng.normal(0, mechanism.sigma, size=(len(mechanism.matrix), runs)))
        measured = (mechanism.matrix @ exact)[:, None] + noise
        estimates = mechanism.estimator.carried @ states + mechanism.estimator.measured @ measured
        states = enters @ estimates
        errors.append(estimates - exact[:, None])
    observed = np.vstack([errors[t - 1] for t in shown]).T
    columns = mechanism.matrix.shape[1]
    places = np.concatenate([np.arange((t - 1) * columns, t * columns) for t in shown])
    assert_covariance(observed, stated_covariance(mechanism, max(shown))[np.ix_(places, places)])


def standard_deviation(mechanism: OpenFlowMechanism, period: int, asked: FloatArray) -> float:
    return math.sqrt(asked @ mechanism.transition_covariance(Period(period)) @ asked)


def asked_of_windows(k: int) -> dict[str, FloatArray]:
    """What the reference table shows for windows of two symbols, as sums of transitions."""
    shorter = [window for length in range(1, k) for window in product("01", repeat=length)] or [()]
    known = [divmod(found, 3) for found in cells_of_transitions(open_windows(2, k))]
    windows = ["" if symbol == 2 else "".join(shorter[row - 1] if row else ()) + str(symbol) for row, symbol in known]
    asked = {
        "cell": [window[-k:] == "1" * k for window in windows],
        "ones": [window[-1:] == "1" for window in windows],
        "present": [window != "" for window in windows],
        "entrants": [row == 0 for row, _ in known],
    }
    return {name: np.array(values, dtype=float) for name, values in asked.items()}


@pytest.mark.parametrize(
    ("k", "tenure", "expected"),
    [
        (1, 12, {"cell": 59.2, "ones": 59.2, "present": 60.2, "entrants": 58.2}),
        (2, 12, {"cell": 42.5, "ones": 58.3, "present": 76.2, "entrants": 63.5}),
        (3, 12, {"cell": 42.0, "ones": 84.5, "present": 111.3, "entrants": 61.1}),
        (1, 52, {"cell": 119.5, "present": 121.5}),
        (2, 52, {"cell": 85.8, "present": 154.0}),
        (3, 52, {"cell": 84.7, "present": 224.8}),
    ],
)
def test_windows_have_the_standard_deviations_of_the_reference(k: int, tenure: int, expected: dict[str, float]) -> None:
    """In people at rho 0.005. They are the same in period 20 and in period 500, and nearly so in period 3."""
    mechanism = designed(open_windows(2, k), tenure, Adjacency.REPLACE_ONE, 0.005)
    asked = asked_of_windows(k)
    for name, deviation in expected.items():
        last = standard_deviation(mechanism, 500, asked[name])
        assert last == pytest.approx(deviation, abs=0.0501)
        assert standard_deviation(mechanism, 20, asked[name]) == pytest.approx(last, rel=1e-6)
        assert 0.99 * last < standard_deviation(mechanism, 3, asked[name]) < last
    assert mechanism.steady_period(Period(500)) < 40
    assert mechanism.steady_period(Period(2)) == 2


@pytest.mark.parametrize("automaton", [open_spells(6), open_events(12), open_windows(4, 2)])
def test_error_bars_do_not_grow(automaton: OpenAutomaton) -> None:
    mechanism = designed(automaton, 24, Adjacency.ADD_REMOVE)
    deviations = [np.sqrt(np.diagonal(mechanism.transition_covariance(Period(t)))) for t in (1, 2, 3, 20, 500, 10**6)]
    assert all((before <= after * (1 + 1e-9)).all() for before, after in pairwise(deviations))
    assert (deviations[2] > 0.98 * deviations[-1]).all()
    np.testing.assert_allclose(deviations[3], deviations[-1], rtol=1e-6)


def test_the_error_of_a_period_fades_from_later_ones() -> None:
    mechanism = designed(open_windows(2, 3), 12, Adjacency.REPLACE_ONE)
    own = np.abs(mechanism.transition_covariance(Period(20))).max()
    for later in (1, 10, 30, 480):
        across = np.abs(mechanism.transition_covariance(Period(20 + later), Period(20))).max()
        assert across < own * 0.6**later


# What is refused


def test_a_matrix_that_does_not_determine_the_counts_is_refused() -> None:
    """A measurement that is repeated, one of nothing, and one of a number that is known anyway."""
    good = designed(open_events(2), 3, Adjacency.REPLACE_ONE)
    in_state = (np.array(cells_of_transitions(good.automaton)) // 3 == 1).astype(np.int64)
    for bad in (good.matrix[[0] * len(good.matrix)], 0 * good.matrix, np.vstack((good.matrix[:-1], in_state))):
        mechanism = OpenFlowMechanism(good.automaton, 3, Adjacency.REPLACE_ONE, bad, 1.0)
        with pytest.raises(ValueError, match="do not determine its counts"):
            mechanism.check_invertible()
    good.check_invertible()


@pytest.mark.parametrize("second", [[0, 0, 1], [0, 3, 2]])
def test_a_matrix_whose_errors_grow_is_refused(second: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """One state, one symbol: who enters, reports, leaves. If only leaving is measured, the errors of all periods add up."""
    automaton, matrix = open_windows(1, 1), np.array([[1, 0, 0], second])
    mechanism = OpenFlowMechanism(automaton, 3, Adjacency.REPLACE_ONE, matrix, 1.0)
    mechanism.check_invertible()
    with pytest.raises(ValueError, match="grow without end"):
        mechanism.check_errors_fade()
    assert mechanism.state_covariance(Period(50))[0, 0] > 50 * (1 - 1e-9)
    monkeypatch.setattr("streamproc.privacy.open_flow.stationary_matrix", lambda automaton: matrix)
    with pytest.raises(ValueError, match="grow without end"):
        designed(automaton, 3, Adjacency.REPLACE_ONE)


@pytest.mark.parametrize("entry", [MAX_MATRIX_ENTRY + 1, -MAX_MATRIX_ENTRY - 1, 2**40, -(2**63)])
def test_entries_beyond_16_bits_are_refused(entry: int) -> None:
    good = designed(open_events(2), 3, Adjacency.REPLACE_ONE)
    matrix = good.matrix.copy()
    matrix[0, 0] = entry
    with pytest.raises(ValueError, match="entry above 32767"):
        OpenFlowMechanism(good.automaton, 3, Adjacency.REPLACE_ONE, matrix, 1.0)


def test_settings_that_are_no_mechanism_are_refused() -> None:
    good = designed(open_events(2), 3, Adjacency.REPLACE_ONE)
    automaton, matrix = good.automaton, good.matrix
    for shape in (matrix.T, matrix[1:], matrix[:, 1:], matrix.ravel()):
        with pytest.raises(ValueError, match="shape"):
            OpenFlowMechanism(automaton, 3, Adjacency.REPLACE_ONE, shape, 1.0)
    for kind in (np.int16, np.int32, np.float64):
        with pytest.raises(ValueError, match="64 bits"):
            OpenFlowMechanism(automaton, 3, Adjacency.REPLACE_ONE, matrix.astype(kind), 1.0)
    with pytest.raises(ValueError, match="zero-out"):
        OpenFlowMechanism(automaton, 3, Adjacency.ZERO_OUT, matrix, 1.0)
    for tenure in (0, -1):
        with pytest.raises(ValueError, match="nobody take part"):
            OpenFlowMechanism(automaton, tenure, Adjacency.REPLACE_ONE, matrix, 1.0)
    for sigma in (0.0, -1.0, math.nan):
        with pytest.raises(ValueError, match="protects nobody"):
            OpenFlowMechanism(automaton, 3, Adjacency.REPLACE_ONE, matrix, sigma)


def test_periods_before_the_study_are_refused() -> None:
    mechanism = designed(open_events(2), 3, Adjacency.REPLACE_ONE)
    with pytest.raises(ValueError, match="before the study"):
        mechanism.cost(Period(-1))
    with pytest.raises(ValueError, match="before the study"):
        mechanism.state_covariance(Period(-1))
    for period, earlier in [(0, None), (3, 0), (3, 4)]:
        with pytest.raises(ValueError, match="outside"):
            mechanism.transition_covariance(Period(period), None if earlier is None else Period(earlier))
    assert not mechanism.state_covariance(Period(0)).any()


@pytest.mark.parametrize(
    ("entry", "table", "reason"),
    [
        ((0, 2), ((0, 1), (0, 1)), "does not exist"),
        ((0, -1), ((0, 1), (0, 1)), "does not exist"),
        ((0, 1), ((0, 1), (0, 2)), "does not exist"),
        ((0, 1), ((0, 1), (0,)), "as many next states"),
        ((0,), ((0, 0),), "as many next states"),
        ((0, 1), (), "at least one state"),
        ((), ((), ()), "at least one state"),
    ],
)
def test_a_table_that_is_no_automaton_is_refused(
    entry: tuple[int, ...], table: tuple[tuple[int, ...], ...], reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        OpenAutomaton(entry, table)


# Transitions


@settings(max_examples=100, deadline=None, derandomize=True)
@given(automaton=automata())
def test_transitions_are_in_the_order_of_their_cells(automaton: OpenAutomaton) -> None:
    transitions, (leaves, enters) = automaton.transitions, conservation(automaton)
    assert transitions.cells.tolist() == cells_of_transitions(automaton)
    assert transitions.free == leaves.shape[1] - automaton.states
    identity = np.eye(len(transitions))
    np.testing.assert_array_equal(transitions.leaving_totals(identity), leaves)
    np.testing.assert_array_equal(transitions.entering_totals(identity), enters)
    assert automaton.cells == (1 + automaton.states) * (1 + automaton.classes)
    for state in (None, *range(automaton.states)):
        start = 0 if state is None else (1 + state) * (1 + automaton.classes)
        merged = automaton.merged_cells[start : start + automaton.classes].tolist()
        assert merged == [cell(automaton, state, symbol) for symbol in range(automaton.classes)]
    assert sorted([*transitions.entering, *transitions.leaving, *transitions.staying]) == list(range(len(transitions)))


@settings(max_examples=50, deadline=None, derandomize=True)
@given(automaton=automata())
def test_spread_and_contrasts_split_counts_into_totals_and_the_rest(automaton: OpenAutomaton) -> None:
    transitions, (leaves, _) = automaton.transitions, conservation(automaton)
    np.testing.assert_allclose(leaves @ transitions.spread, np.eye(automaton.states), atol=1e-12)
    np.testing.assert_allclose(leaves @ transitions.contrasts, 0, atol=1e-12)
    np.testing.assert_allclose(transitions.contrasts.T @ transitions.contrasts, np.eye(transitions.free), atol=1e-12)
    np.testing.assert_allclose(transitions.spread.T @ transitions.contrasts, 0, atol=1e-12)


def test_the_automata_of_the_kinds_count_what_they_say() -> None:
    windows, kept = open_windows(2, 3), [(0,), (1,), (0, 0), (0, 1), (1, 0), (1, 1)]
    for reports in product((0, 1), repeat=6):
        window, spell, event = windows.entry[reports[0]], open_spells(3).entry[reports[0]], open_events(3).entry[reports[0]]
        for age in range(1, 7):
            seen = reports[:age]
            if age > 1:
                window = windows.table[window][seen[-1]]
                spell, event = open_spells(3).table[spell][seen[-1]], open_events(3).table[event][seen[-1]]
            assert kept[window] == seen[-2:]
            assert spell == next((run for run in range(3) if run == age or seen[-1 - run] == 0), 3)
            assert event == min(sum(seen), 3)
    assert open_windows(3, 1) == OpenAutomaton((0, 0, 0), ((0, 0, 0),), told_apart=True)
