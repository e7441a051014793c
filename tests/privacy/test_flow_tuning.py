"""Tuned weights reach the reference values, improve on the rule, and their gradient is the derivative of the loss."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamproc.privacy.adjacency import Adjacency
from streamproc.privacy.automaton import Automaton, Transitions, event_counter, spell_counter, transitions_of
from streamproc.privacy.flow import FlowMechanism
from streamproc.privacy.flow_design import FlowWeights, design_matrices, rule_weights
from streamproc.privacy.flow_tuning import (
    MAX_LOG_WEIGHT,
    MAX_TUNED_WEIGHTS,
    Objective,
    _Problem,
    tune_weights,
    tuning_size,
)
from streamproc.privacy.types import FloatArray, Period


def at_least(periods: Sequence[Transitions]) -> list[FloatArray]:
    """For each period, the questions "at least j", where states are numbered by what they count."""
    return [np.triu(np.ones((len(period.after),) * 2))[1:] for period in periods]


def ever(periods: Sequence[Transitions], state: int) -> list[FloatArray]:
    """For each period, the question whether a person is in this state; none while nobody can be."""
    return [(period.after == state).astype(float)[None, :][: int(state in period.after)] for period in periods]


def run_of(length: int) -> Automaton:
    """The automaton of "ever `length` events in a row": its last state is never left."""
    rows = [(0, run + 1) for run in range(length)]
    return Automaton((*rows, (length, length)))


def variances(automaton: Automaton, horizon: int, questions: Sequence[FloatArray], weights: FlowWeights) -> FloatArray:
    """The variances of all questions at rho = 1, after rounding, from the exact cost."""
    matrices = design_matrices(transitions_of(automaton, horizon), weights)
    mechanism = FlowMechanism.calibrated(automaton, horizon, matrices, Adjacency.REPLACE_ONE, 1.0)
    found = [
        ((rows @ mechanism.state_covariance(Period(t))) * rows).sum(axis=1) for t, rows in enumerate(questions, start=1)
    ]
    return np.concatenate(found)


def tuned_counter(horizon: int, objective: Objective) -> FloatArray:
    """The variances of "at least j events" with tuned weights."""
    automaton = event_counter(horizon)
    periods = transitions_of(automaton, horizon)
    questions = at_least(periods)
    return variances(automaton, horizon, questions, tune_weights(periods, questions, objective))


@st.composite
def automata(draw: st.DrawFn) -> Automaton:
    states, classes = draw(st.integers(1, 4)), draw(st.integers(2, 3))
    row = st.tuples(*[st.integers(0, states - 1)] * classes)
    return Automaton(draw(st.tuples(*[row] * states)))


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    automaton=automata(), horizon=st.integers(1, 5), seed=st.integers(0, 2**32 - 1), power=st.sampled_from([1.0, 7.5, 60.0])
)
def test_the_gradient_is_the_derivative_of_the_loss(automaton: Automaton, horizon: int, seed: int, power: float) -> None:
    rng, periods = np.random.default_rng(seed), transitions_of(automaton, horizon)
    questions = [rng.normal(size=(int(rng.integers(0, 3)), len(period.after))) for period in periods]
    problem = _Problem(periods, questions)
    point = problem.start() + rng.normal(size=len(problem.start()))
    if not problem.has_errors(point):
        return
    _, gradient = problem.loss(point, sharpness=30.0, power=power)
    for _ in range(3):
        step = 1e-5 * rng.normal(size=len(point))
        above, _ = problem.loss(point + step, sharpness=30.0, power=power)
        below, _ = problem.loss(point - step, sharpness=30.0, power=power)
        assert (above - below) / 2 == pytest.approx(gradient @ step, rel=1e-4, abs=1e-9)


@settings(max_examples=10, deadline=None, derandomize=True)
@given(automaton=automata(), horizon=st.integers(1, 4), seed=st.integers(0, 2**32 - 1))
def test_the_soft_cost_is_the_soft_maximum_over_all_pairs_of_histories(
    automaton: Automaton, horizon: int, seed: int
) -> None:
    rng, periods = np.random.default_rng(seed), transitions_of(automaton, horizon)
    problem = _Problem(periods, [np.zeros((0, len(period.after))) for period in periods])
    point = rng.normal(size=len(problem.start()))
    weights, values = problem.weights(point), np.exp(point)
    paths: list[list[int]] = [[]]
    for t, period in enumerate(periods):
        paths = [
            [*path, e]
            for path in paths
            for e in range(len(period))
            if period.source[e] == (periods[t - 1].target[path[-1]] if path else 0)
        ]
    costs = np.zeros((len(paths), len(paths)))
    for i, one in enumerate(paths):
        for j, other in enumerate(paths):
            for t, (e, f) in enumerate(zip(one, other, strict=True)):
                moved = np.zeros(len(periods[t].after))
                moved[periods[t].target[e]] += 1
                moved[periods[t].target[f]] -= 1
                own = weights.transitions[t]
                costs[i, j] += (own[e] + own[f]) / 2 * (e != f) + moved @ weights.states[t] @ moved / 2
    if not costs.any():
        return
    sharpness = 30.0
    scale = sharpness / float(problem._typical @ values)
    expected = np.log(np.exp(scale * costs).sum()) / scale
    assert np.exp(problem._log_cost(weights, values, sharpness)[0]) == pytest.approx(expected, rel=1e-9)


def test_the_largest_variance_of_counts_over_12_periods_is_near_the_reference() -> None:
    assert tuned_counter(12, "largest").max() <= 5.9


def test_the_mean_variance_of_counts_over_12_periods_is_near_the_lower_bound() -> None:
    assert 5.117 <= tuned_counter(12, "mean").mean() <= 5.36


@pytest.mark.slow
@pytest.mark.parametrize(("horizon", "limit"), [(24, 13.5), (48, 30.0)])
def test_the_largest_variance_of_counts_over_many_periods_is_near_the_reference(horizon: int, limit: float) -> None:
    assert tuned_counter(horizon, "largest").max() <= limit


def test_tuning_twice_gives_the_same_weights() -> None:
    periods = transitions_of(event_counter(6), 6)
    one, two = (tune_weights(periods, at_least(periods)) for _ in range(2))
    for first, second in zip(one.transitions + one.states, two.transitions + two.states, strict=True):
        np.testing.assert_array_equal(first, second)


def test_progress_grows_and_ends_at_one() -> None:
    periods, seen = transitions_of(event_counter(4), 4), list[float]()
    tune_weights(periods, at_least(periods), progress=seen.append)
    assert len(seen) > 10
    assert seen == sorted(seen)
    assert seen[0] > 0
    assert seen[-1] == 1


@pytest.mark.parametrize("objective", ["largest", "mean"])
def test_tuning_for_spells_improves_on_the_rule(objective: Objective) -> None:
    automaton = spell_counter(6)
    periods = transitions_of(automaton, 12)
    questions = at_least(periods)
    value = np.max if objective == "largest" else np.mean
    tuned = value(variances(automaton, 12, questions, tune_weights(periods, questions, objective)))
    assert tuned < 0.95 * value(variances(automaton, 12, questions, rule_weights(periods)))


@pytest.mark.parametrize("length", [3, 6])
def test_tuning_for_a_run_that_ever_happened_improves_on_the_rule(length: int) -> None:
    automaton = run_of(length)
    periods = transitions_of(automaton, 12)
    questions = ever(periods, length)
    assert [len(rows) for rows in questions] == [0] * (length - 1) + [1] * (13 - length)
    tuned = variances(automaton, 12, questions, tune_weights(periods, questions)).max()
    assert tuned < 0.95 * variances(automaton, 12, questions, rule_weights(periods)).max()


def test_a_question_without_an_error_does_not_disturb_the_others() -> None:
    automaton = event_counter(6)
    periods = transitions_of(automaton, 6)
    questions = [np.vstack((rows, np.ones(rows.shape[1]))) for rows in at_least(periods)]
    tuned = variances(automaton, 6, questions, tune_weights(periods, questions))
    assert np.isfinite(tuned).all()
    assert tuned.max() < variances(automaton, 6, questions, rule_weights(periods)).max()


@pytest.mark.parametrize("questions", [np.zeros((0, 3)), np.ones((1, 3))])
def test_without_an_error_the_weights_are_those_of_the_rule(questions: FloatArray) -> None:
    periods, seen = transitions_of(event_counter(2), 5), list[float]()
    rows = [questions[:, : len(period.after)] for period in periods]
    tuned, rule = tune_weights(periods, rows, progress=seen.append), rule_weights(periods)
    for first, second in zip(tuned.transitions + tuned.states, rule.transitions + rule.states, strict=True):
        np.testing.assert_array_equal(first, second)
    assert seen == [1.0]


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    automaton=automata() | st.just(event_counter(12)) | st.just(spell_counter(6)),
    horizon=st.integers(1, 12),
    seed=st.integers(0, 2**32 - 1),
)
def test_extreme_weights_keep_the_rounded_matrices_invertible(automaton: Automaton, horizon: int, seed: int) -> None:
    rng, periods = np.random.default_rng(seed), transitions_of(automaton, horizon)
    problem = _Problem(periods, at_least(periods))
    point = rng.choice([-MAX_LOG_WEIGHT, MAX_LOG_WEIGHT], size=len(problem.start()))
    for period, matrix in zip(periods, design_matrices(periods, problem.weights(point)), strict=True):
        assert np.linalg.matrix_rank(matrix @ period.contrasts) == period.free


def test_counts_over_24_periods_are_tuned_by_default() -> None:
    assert tuning_size(transitions_of(event_counter(12), 12)) == 156
    assert tuning_size(transitions_of(event_counter(24), 24)) == 600 <= MAX_TUNED_WEIGHTS
