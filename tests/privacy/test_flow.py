"""The flow mechanism costs what its worst pair of histories costs, and its errors are those of least squares.

Costs are compared with all pairs of histories, from the definition: each history is followed through the table of the
automaton, and nothing of the mechanism is used but its matrices and `sigma`. Errors are compared with dense least squares
over all counts of all periods at once, which knows nothing of the recursion.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import null_space

from streamproc.privacy.adjacency import CLOSED_ADJACENCIES, Adjacency
from streamproc.privacy.automaton import (
    Automaton,
    event_counter,
    spell_counter,
    transitions_of,
    window_automaton,
)
from streamproc.privacy.directed_rounding import sqrt_up
from streamproc.privacy.flow import MAX_MATRIX_ENTRY, FlowMechanism, matrix_numbers
from streamproc.privacy.flow_design import FlowWeights, design_matrices, recursion, rule_weights
from streamproc.privacy.types import FloatArray, IntArray, Period
from tests.privacy.opendp_cost import gaussian_cost


def run_of(length: int) -> Automaton:
    """The automaton of "ever `length` events in a row": its last state is never left."""
    return Automaton((*((0, run + 1) for run in range(length)), (length, length)))


EXAMPLES = {
    "windows of two of two symbols": (window_automaton(2, 2), 5),
    "windows of three of two symbols": (window_automaton(2, 3), 5),
    "windows of two of three symbols": (window_automaton(3, 2), 4),
    "events": (event_counter(6), 6),
    "events up to two": (event_counter(2), 6),
    "spells up to three": (spell_counter(3), 6),
    "ever three in a row": (run_of(3), 6),
    "merged symbols and a state that comes late": (Automaton(((1, 1, 0), (2, 0, 0), (2, 2, 2))), 4),
}


@dataclass(frozen=True)
class Shape:
    """The transitions of each period, by their definition: `(state, first class that leads to the same next state)`."""

    automaton: Automaton
    horizon: int

    def first_class(self, state: int, symbol: int) -> int:
        row = self.automaton.table[state]
        return row.index(row[symbol])

    def path(self, history: Sequence[int]) -> list[tuple[int, int]]:
        """The transitions that a person with this history makes."""
        state, path = 0, []
        for symbol in history:
            path.append((state, self.first_class(state, symbol)))
            state = self.automaton.table[state][symbol]
        return path

    def histories(self) -> list[tuple[int, ...]]:
        return list(product(range(self.automaton.classes), repeat=self.horizon))

    def transitions(self) -> list[list[tuple[int, int]]]:
        """For each period, all transitions that some history makes, in order."""
        paths = [self.path(history) for history in self.histories()]
        return [sorted({path[t] for path in paths}) for t in range(self.horizon)]

    def states(self, period: int) -> list[int]:
        """The states after `period`, in order; those after period 0 are the start alone."""
        paths = [self.path((*history, 0)) for history in self.histories()]
        return sorted({path[period][0] for path in paths})


def worst_distances(mechanism: FlowMechanism, redrawn: Sequence[int] = ()) -> list[int]:
    """For every prefix, the largest `sum_t draws_t |W_t (x_t - x'_t)|^2` over all pairs of neighbours."""
    shape = Shape(mechanism.automaton, mechanism.horizon)
    transitions = shape.transitions()
    histories = shape.histories()
    others = histories if mechanism.adjacency is Adjacency.REPLACE_ONE else [(0,) * mechanism.horizon]
    total, worst = np.zeros((len(histories), len(others)), dtype=object), [0]
    for t, known in enumerate(transitions):
        columns = mechanism.matrices[t].T.tolist()
        assert len(columns) == len(known)
        apart = [[sum((a - b) ** 2 for a, b in zip(one, two, strict=True)) for two in columns] for one in columns]
        own = [known.index(shape.path(history)[t]) for history in histories]
        other = [known.index(shape.path(history)[t]) for history in others]
        total = total + (1 + redrawn.count(t + 1)) * np.array(apart, dtype=object)[np.ix_(own, other)]
        worst.append(max(total.ravel().tolist()))
    return worst


def assert_costs_are_those_of_the_worst_pair(mechanism: FlowMechanism, redrawn: Sequence[int] = ()) -> None:
    for t, distance in enumerate(worst_distances(mechanism, redrawn)):
        cost = mechanism.cost(Period(t), [Period(again) for again in redrawn])
        assert cost == Fraction(distance) / (2 * Fraction(mechanism.sigma) ** 2)


def designed(
    automaton: Automaton, horizon: int, adjacency: Adjacency = Adjacency.REPLACE_ONE, rho: float = 1.0
) -> FlowMechanism:
    """The calibrated mechanism with the weights of the rule."""
    periods = transitions_of(automaton, horizon)
    return FlowMechanism.calibrated(automaton, horizon, design_matrices(periods, rule_weights(periods)), adjacency, rho)


def arbitrary(automaton: Automaton, horizon: int, adjacency: Adjacency, seed: int, most: int = 9) -> FlowMechanism:
    """Matrices of random integers: the worst pair then has no structure."""
    rng = np.random.default_rng(seed)
    matrices = tuple(
        rng.integers(-most, most + 1, size=(period.free, len(period))) for period in transitions_of(automaton, horizon)
    )
    return FlowMechanism(automaton, horizon, adjacency, matrices, float(rng.uniform(0.5, 20)))


@st.composite
def automata(draw: st.DrawFn) -> Automaton:
    states, classes = draw(st.integers(2, 5)), draw(st.integers(2, 3))
    row = st.tuples(*[st.integers(0, states - 1)] * classes)
    return Automaton(draw(st.tuples(*[row] * states)))


# Cost


@pytest.mark.parametrize(("automaton", "horizon"), EXAMPLES.values(), ids=EXAMPLES)
@pytest.mark.parametrize("adjacency", CLOSED_ADJACENCIES)
def test_every_prefix_costs_what_its_worst_pair_costs(automaton: Automaton, horizon: int, adjacency: Adjacency) -> None:
    for mechanism in (designed(automaton, horizon, adjacency, 0.005), arbitrary(automaton, horizon, adjacency, 1)):
        assert mechanism.cost(Period(0)) == 0
        assert_costs_are_those_of_the_worst_pair(mechanism)


@pytest.mark.parametrize(("automaton", "horizon"), EXAMPLES.values(), ids=EXAMPLES)
@pytest.mark.parametrize("adjacency", CLOSED_ADJACENCIES)
def test_a_period_that_is_drawn_again_counts_once_more(automaton: Automaton, horizon: int, adjacency: Adjacency) -> None:
    mechanism = arbitrary(automaton, horizon, adjacency, 2)
    for redrawn in [(1,), (horizon,), (2, horizon, 2), tuple(range(1, horizon + 1))]:
        assert_costs_are_those_of_the_worst_pair(mechanism, redrawn)
    everything_twice = mechanism.cost(Period(horizon), [Period(t) for t in range(1, horizon + 1)])
    assert everything_twice == 2 * mechanism.cost(Period(horizon))


@settings(max_examples=220, deadline=None, derandomize=True)
@given(
    automaton=automata(),
    horizon=st.integers(1, 5),
    adjacency=st.sampled_from(CLOSED_ADJACENCIES),
    seed=st.integers(0, 2**32 - 1),
    redrawn=st.lists(st.integers(1, 5), max_size=3),
)
def test_any_automaton_costs_what_its_worst_pair_costs(
    automaton: Automaton, horizon: int, adjacency: Adjacency, seed: int, redrawn: list[int]
) -> None:
    again = tuple(min(t, horizon) for t in redrawn)
    for most in (2, MAX_MATRIX_ENTRY):
        assert_costs_are_those_of_the_worst_pair(arbitrary(automaton, horizon, adjacency, seed, most), again)
    if matrix_numbers(automaton, horizon):
        mechanism = designed(automaton, horizon, adjacency)
        assert_costs_are_those_of_the_worst_pair(mechanism)
        assert_costs_are_those_of_the_worst_pair(mechanism, again)


@pytest.mark.parametrize("name", ["events", "spells up to three", "ever three in a row"])
@pytest.mark.parametrize("adjacency", CLOSED_ADJACENCIES)
def test_opendp_charges_no_less_for_the_worst_pair_and_hardly_more(name: str, adjacency: Adjacency) -> None:
    """All measurements have the same noise, so OpenDP charges for one vector of all periods."""
    automaton, horizon = EXAMPLES[name]
    mechanism = designed(automaton, horizon, adjacency, 0.1)
    theirs = gaussian_cost(mechanism.sigma, sqrt_up(Fraction(worst_distances(mechanism)[-1])))
    assert mechanism.cost(Period(horizon)) <= Fraction(theirs) <= Fraction(0.1) * (1 + Fraction(1, 10**9))


@pytest.mark.parametrize("rho", [1e-12, 0.005, 0.1, 1.0, 1000.0])
@pytest.mark.parametrize("adjacency", CLOSED_ADJACENCIES)
@pytest.mark.parametrize("automaton", [event_counter(12), spell_counter(4), run_of(3), window_automaton(2, 3)])
def test_a_calibrated_mechanism_spends_its_budget_and_a_bit_less_noise_would_exceed_it(
    automaton: Automaton, adjacency: Adjacency, rho: float
) -> None:
    mechanism = designed(automaton, 12, adjacency, rho)
    assert Fraction(rho) * (1 - Fraction(1, 10**12)) <= mechanism.cost(Period(12)) <= Fraction(rho)
    less = math.nextafter(mechanism.sigma, 0)
    assert FlowMechanism(automaton, 12, adjacency, mechanism.matrices, less).cost(Period(12)) > Fraction(rho)


@pytest.mark.parametrize("adjacency", CLOSED_ADJACENCIES)
def test_spending_never_falls_and_no_redraw_of_a_later_period_counts(adjacency: Adjacency) -> None:
    for automaton, horizon in EXAMPLES.values():
        for mechanism in (designed(automaton, horizon, adjacency), arbitrary(automaton, horizon, adjacency, 3)):
            costs = [mechanism.cost(Period(t)) for t in range(horizon + 1)]
            assert all(before <= after for before, after in pairwise(costs))
            assert costs[0] == 0 < costs[-1]
            assert mechanism.cost(Period(horizon - 1), [Period(horizon)]) == costs[horizon - 1]


def test_without_events_costs_as_much_as_any_other_history_for_running_counts() -> None:
    """Why `plan` says that zero-out saves nothing for these kinds."""
    replaced, zero_out = (designed(event_counter(12), 12, adjacency) for adjacency in CLOSED_ADJACENCIES)
    assert zero_out.sigma == pytest.approx(replaced.sigma, rel=1e-3)


@pytest.mark.parametrize("period", [-1, 5])
def test_a_period_outside_the_study_has_no_cost(period: int) -> None:
    with pytest.raises(ValueError, match=r"outside 0\.\.4"):
        designed(event_counter(2), 4).cost(Period(period))


# Errors


def at_least_variances(mechanism: FlowMechanism) -> list[FloatArray]:
    """For each period, the variances of "at least j" for `j = 1, 2, ...`."""
    found = []
    for t, period in enumerate(mechanism.periods, start=1):
        rows = (period.after[None, :] >= period.after[1:, None]).astype(float)
        found.append(np.einsum("qs,st,qt->q", rows, mechanism.state_covariance(Period(t)), rows))
    return found


@pytest.mark.parametrize(("horizon", "largest", "mean"), [(12, 7.255, 6.001), (24, 17.04, 13.58), (48, 40.5, 31.0)])
def test_running_counts_have_the_variances_of_the_reference(horizon: int, largest: float, mean: float) -> None:
    variances = np.concatenate(at_least_variances(designed(event_counter(horizon), horizon)))
    assert variances.max() == pytest.approx(largest, rel=0.01)
    assert variances.mean() == pytest.approx(mean, rel=0.01)


@pytest.mark.parametrize(("length", "last", "worst"), [(3, 3.74, 4.96), (6, 4.15, 4.22)])
def test_ever_in_a_row_has_the_variances_of_the_reference(length: int, last: float, worst: float) -> None:
    mechanism = designed(run_of(length), 12)
    matched = [mechanism.state_covariance(Period(t))[-1, -1] for t in range(length, 13)]
    assert matched[-1] == pytest.approx(last, rel=0.01)
    assert max(matched) == pytest.approx(worst, rel=0.01)


def constraints(shape: Shape) -> FloatArray:
    """A row for each state before each period: who leaves it, less who entered it in the period before; errors give 0."""
    transitions = shape.transitions()
    starts = np.cumsum([0, *map(len, transitions)])
    rows = []
    for t, known in enumerate(transitions):
        for state in shape.states(t):
            row = np.zeros(starts[-1])
            for place, (source, _) in enumerate(known):
                row[starts[t] + place] += source == state
            for place, (source, symbol) in enumerate(transitions[t - 1] if t else []):
                row[starts[t - 1] + place] -= shape.automaton.table[source][symbol] == state
            rows.append(row)
    return np.array(rows)


def entering(shape: Shape) -> list[FloatArray]:
    """For each period, the counts of the states after it as sums of all transitions of all periods."""
    transitions = shape.transitions()
    starts = np.cumsum([0, *map(len, transitions)])
    found = []
    for t, known in enumerate(transitions):
        sums = np.zeros((len(shape.states(t + 1)), starts[-1]))
        for place, (source, symbol) in enumerate(known):
            sums[shape.states(t + 1).index(shape.automaton.table[source][symbol]), starts[t] + place] = 1
        found.append(sums)
    return found


def dense_state_covariance(shape: Shape, weights: FlowWeights) -> dict[tuple[int, int], FloatArray]:
    """`Cov(N_t, N_s)` for `s <= t`: the inverse of the precision on all errors that conserve flow."""
    sums = entering(shape)
    precision = np.diag(np.concatenate(weights.transitions))
    for into, form in zip(sums, weights.states, strict=True):
        precision = precision + into.T @ form @ into
    basis = null_space(constraints(shape))
    covariance = basis @ np.linalg.inv(basis.T @ precision @ basis) @ basis.T
    return _between_states(sums, covariance)


def measured_state_covariance(shape: Shape, mechanism: FlowMechanism) -> dict[tuple[int, int], FloatArray]:
    """The same for the integer matrices: the counts that conserve flow and reproduce every measurement, which are unique."""
    sizes = [len(known) for known in shape.transitions()]
    starts = np.cumsum([0, *sizes])
    measured = []
    for t, matrix in enumerate(mechanism.matrices):
        rows = np.zeros((len(matrix), starts[-1]))
        rows[:, starts[t] : starts[t + 1]] = matrix
        measured.append(rows)
    noisy = np.vstack(measured)
    errors = np.linalg.inv(np.vstack((noisy, constraints(shape))))[:, : len(noisy)]
    return _between_states(entering(shape), mechanism.sigma**2 * errors @ errors.T)


def _between_states(sums: Sequence[FloatArray], covariance: FloatArray) -> dict[tuple[int, int], FloatArray]:
    horizon = len(sums)
    return {(t, s): sums[t - 1] @ covariance @ sums[s - 1].T for t in range(1, horizon + 1) for s in range(1, t + 1)}


def recursive_state_covariance(
    automaton: Automaton, horizon: int, weights: FlowWeights
) -> dict[tuple[int, int], FloatArray]:
    """The same by the recursion, before rounding."""
    periods = transitions_of(automaton, horizon)
    gains, found = [], {}
    covariance = np.zeros((1, 1))
    for t, (period, design) in enumerate(zip(periods, recursion(periods, weights), strict=True), start=1):
        gain = period.entering(period.spread + period.contrasts @ design.gain)
        fresh = period.entering(period.contrasts)
        covariance = gain @ covariance @ gain.T + fresh @ np.linalg.inv(design.precision) @ fresh.T
        gains.append(gain)
        found[t, t] = covariance
    for s in range(1, horizon + 1):
        for t in range(s + 1, horizon + 1):
            found[t, s] = gains[t - 1] @ found[t - 1, s]
    return found


def uneven_weights(automaton: Automaton, horizon: int, seed: int) -> FlowWeights:
    """An own weight for each transition, and a form with correlations on the states of each period."""
    rng, periods = np.random.default_rng(seed), transitions_of(automaton, horizon)
    roots = [rng.normal(size=(len(period.after), len(period.after))) for period in periods]
    return FlowWeights(
        tuple(10 ** rng.uniform(-1, 1, len(period)) for period in periods), tuple(root @ root.T for root in roots)
    )


@pytest.mark.parametrize(("automaton", "horizon"), EXAMPLES.values(), ids=EXAMPLES)
def test_the_recursion_has_the_errors_of_least_squares_over_all_periods(automaton: Automaton, horizon: int) -> None:
    for weights in (rule_weights(transitions_of(automaton, horizon)), uneven_weights(automaton, horizon, 4)):
        dense = dense_state_covariance(Shape(automaton, horizon), weights)
        ours = recursive_state_covariance(automaton, horizon, weights)
        assert ours.keys() == dense.keys()
        for pair, expected in dense.items():
            np.testing.assert_allclose(ours[pair], expected, rtol=0, atol=1e-9 * np.abs(dense[horizon, horizon]).max())


@pytest.mark.parametrize(("automaton", "horizon"), EXAMPLES.values(), ids=EXAMPLES)
def test_the_mechanism_states_the_errors_of_its_own_matrices(automaton: Automaton, horizon: int) -> None:
    """Within and between periods, whatever the matrices are: they need not come from any weights."""
    for mechanism in (designed(automaton, horizon), arbitrary(automaton, horizon, Adjacency.REPLACE_ONE, 8, 1000)):
        expected = measured_state_covariance(Shape(automaton, horizon), mechanism)
        scale = max(np.abs(covariance).max() for covariance in expected.values())
        for (t, s), covariance in expected.items():
            ours = mechanism.state_covariance(Period(t), Period(s))
            np.testing.assert_allclose(ours, covariance, rtol=0, atol=1e-9 * scale)
        np.testing.assert_array_equal(
            mechanism.state_covariance(Period(horizon)), mechanism.state_covariance(Period(horizon), Period(horizon))
        )


@pytest.mark.parametrize(("automaton", "horizon"), EXAMPLES.values(), ids=EXAMPLES)
def test_rounding_to_16_bits_hardly_changes_a_variance(automaton: Automaton, horizon: int) -> None:
    """The variances at equal cost: that of the exact matrices is the sum of the weights, by the theorem."""
    periods = transitions_of(automaton, horizon)
    weights = rule_weights(periods)
    cost = sum(float(each[0]) for each in weights.transitions if len(each) > 1) + float(weights.states[-1][0, 0])
    exact = recursive_state_covariance(automaton, horizon, weights)
    mechanism = designed(automaton, horizon)
    for t in range(1, horizon + 1):
        before, after = np.diagonal(exact[t, t]), np.diagonal(mechanism.state_covariance(Period(t)))
        ratios = after[before > 1e-12] / before[before > 1e-12]
        assert ratios.max() / ratios.min() < 1.005
        if automaton in (window_automaton(2, 2), event_counter(6), spell_counter(3)):
            # Two histories of these can differ in every period and at the end, so the bound is reached.
            assert ratios == pytest.approx(cost, rel=0.005)


def test_the_number_of_people_is_known_exactly() -> None:
    mechanism = designed(spell_counter(3), 6)
    for t in range(1, 7):
        everybody = np.ones(len(mechanism.periods[t - 1].after))
        assert everybody @ mechanism.state_covariance(Period(t)) @ everybody == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize(("automaton", "horizon"), EXAMPLES.values(), ids=EXAMPLES)
def test_estimates_without_noise_are_the_counts(automaton: Automaton, horizon: int) -> None:
    rng, mechanism = np.random.default_rng(5), designed(automaton, horizon)
    shape = Shape(automaton, horizon)
    people = [shape.path(history) for history in rng.integers(0, automaton.classes, (40, horizon)).tolist()]
    states = np.array([40.0])
    for t, (period, known) in enumerate(zip(mechanism.periods, shape.transitions(), strict=True), start=1):
        exact = np.array([sum(path[t - 1] == transition for path in people) for transition in known])
        estimator = mechanism.estimator(Period(t))
        estimate = estimator.carried @ states + estimator.measured @ (mechanism.matrices[t - 1] @ exact)
        np.testing.assert_allclose(estimate, exact, atol=1e-9)
        states = period.entering(estimate)


# What is refused


def changed(matrices: tuple[IntArray, ...], period: int, matrix: IntArray) -> tuple[IntArray, ...]:
    return (*matrices[: period - 1], matrix, *matrices[period:])


def test_matrices_that_do_not_determine_the_counts_are_refused() -> None:
    """A measurement that is repeated, one of nothing, and one of a number that is known anyway."""
    good = designed(event_counter(2), 3)
    matrix = good.matrices[2]
    known = np.repeat([[1, 1, 0, 0, 0]], len(matrix), axis=0)
    for bad in (matrix[[0, 0]], 0 * matrix, known):
        matrices = changed(good.matrices, 3, bad)
        with pytest.raises(ValueError, match="do not determine its counts"):
            FlowMechanism.calibrated(good.automaton, 3, matrices, Adjacency.REPLACE_ONE, 1.0)
        with pytest.raises(ValueError, match="do not determine its counts"):
            FlowMechanism(good.automaton, 3, Adjacency.REPLACE_ONE, matrices, 1.0).check_invertible()
    good.check_invertible()


def test_matrices_of_another_shape_are_refused() -> None:
    good = designed(event_counter(2), 3)
    wrong = [
        good.matrices[:2],
        (*good.matrices, good.matrices[-1]),
        changed(good.matrices, 2, good.matrices[1].T),
        changed(good.matrices, 2, good.matrices[1][:1]),
        changed(good.matrices, 2, good.matrices[1].ravel()),
    ]
    for matrices in wrong:
        with pytest.raises(ValueError, match="shapes"):
            FlowMechanism(good.automaton, 3, Adjacency.REPLACE_ONE, matrices, 1.0)


@pytest.mark.parametrize("entry", [MAX_MATRIX_ENTRY + 1, -MAX_MATRIX_ENTRY - 1, 2**40])
def test_entries_beyond_16_bits_are_refused(entry: int) -> None:
    good = designed(event_counter(2), 3)
    matrix = good.matrices[1].copy()
    matrix[0, 0] = entry
    with pytest.raises(ValueError, match="entry above 32767"):
        FlowMechanism(good.automaton, 3, Adjacency.REPLACE_ONE, changed(good.matrices, 2, matrix), 1.0)


@pytest.mark.parametrize("sigma", [0.0, -1.0, math.nan])
def test_a_mechanism_without_noise_is_refused(sigma: float) -> None:
    good = designed(event_counter(2), 3)
    with pytest.raises(ValueError, match="protects nobody"):
        FlowMechanism(good.automaton, 3, Adjacency.REPLACE_ONE, good.matrices, sigma)


def test_weights_that_leave_a_count_open_are_refused() -> None:
    """Weights on states alone are enough while each transition enters its own state, and not where two enter the same."""
    periods = transitions_of(Automaton(((0, 1), (0, 1))), 2)
    on_states = FlowWeights(
        tuple(np.zeros(len(period)) for period in periods), tuple(np.eye(len(period.after)) for period in periods)
    )
    assert len(design_matrices(periods[:1], on_states)) == 1
    with pytest.raises(ValueError, match="period 2 and later leave a count without a measurement"):
        design_matrices(periods, on_states)


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (((0, 1),), "does not exist"),
        (((0, -1), (0, 1)), "does not exist"),
        (((0, 1), (0,)), "as many next states"),
        ((), "at least one state"),
        (((), ()), "at least one state"),
    ],
)
def test_a_table_that_is_no_automaton_is_refused(table: tuple[tuple[int, ...], ...], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        Automaton(table)


# Transitions


@settings(max_examples=100, deadline=None, derandomize=True)
@given(automaton=automata(), horizon=st.integers(1, 4))
def test_transitions_are_those_that_histories_make(automaton: Automaton, horizon: int) -> None:
    """Symbols that lead to the same state are one transition, and a state that no history reaches has none."""
    shape = Shape(automaton, horizon)
    for t, (period, known) in enumerate(zip(transitions_of(automaton, horizon), shape.transitions(), strict=True)):
        assert [divmod(cell, automaton.classes) for cell in period.cells.tolist()] == known
        assert period.before.tolist() == shape.states(t)
        assert period.after.tolist() == shape.states(t + 1)
        assert period.before[period.source].tolist() == [state for state, _ in known]
        assert period.after[period.target].tolist() == [automaton.table[state][symbol] for state, symbol in known]
        assert period.free == len(known) - len(shape.states(t))


def test_symbols_that_lead_to_one_state_are_one_transition() -> None:
    automaton = Automaton(((0, 1, 1), (1, 1, 1)))
    assert automaton.merged_cells.tolist() == [0, 1, 1, 3, 3, 3]
    first, second = transitions_of(automaton, 2)
    assert (first.cells.tolist(), first.free) == ([0, 1], 1)
    assert (second.cells.tolist(), second.degrees.tolist(), second.free) == ([0, 1, 3], [2, 1], 1)


def test_states_that_cannot_be_reached_yet_are_left_out() -> None:
    numbers = [period.after.tolist() for period in transitions_of(event_counter(3), 4)]
    assert numbers == [[0, 1], [0, 1, 2], [0, 1, 2, 3], [0, 1, 2, 3]]
    never = Automaton(((0, 1), (0, 1), (2, 0)))
    assert all(2 not in period.after for period in transitions_of(never, 5))


@settings(max_examples=50, deadline=None, derandomize=True)
@given(automaton=automata())
def test_spread_and_contrasts_split_counts_into_totals_and_the_rest(automaton: Automaton) -> None:
    for period in transitions_of(automaton, 3):
        leaving = (period.source[None, :] == np.arange(len(period.before))[:, None]).astype(float)
        np.testing.assert_allclose(leaving @ period.spread, np.eye(len(period.before)), atol=1e-12)
        np.testing.assert_allclose(leaving @ period.contrasts, 0, atol=1e-12)
        np.testing.assert_allclose(period.contrasts.T @ period.contrasts, np.eye(period.free), atol=1e-12)
        np.testing.assert_allclose(period.spread.T @ period.contrasts, 0, atol=1e-12)


def test_the_automata_of_the_kinds_count_what_they_say() -> None:
    for history in product((0, 1), repeat=7):
        event, spell, match, window = 0, 0, 0, 0
        for t, symbol in enumerate(history, start=1):
            event, spell = event_counter(3).table[event][symbol], spell_counter(3).table[spell][symbol]
            match, window = run_of(3).table[match][symbol], window_automaton(2, 3).table[window][symbol]
            seen = history[:t]
            assert event == min(sum(seen), 3)
            assert spell == next((run for run in range(3) if run == t or seen[-1 - run] == 0), 3)
            assert (match == 3) == ("111" in "".join(map(str, seen)))
            assert window == int("1" + "".join(map(str, seen[-2:])), 2) - 1
