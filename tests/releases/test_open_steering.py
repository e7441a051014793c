"""Steering of open studies: as near to the estimates as the people of the panel allow, whole people, unbiased."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from streamproc.privacy.open_automaton import OpenAutomaton, OpenTransitions, open_events, open_spells, open_windows
from streamproc.privacy.types import FloatArray, IntArray
from streamproc.releases.flow_steering import TRANSITION_WEIGHT
from streamproc.releases.open_steering import project_open, round_open
from tests.releases.statistical_checks import assert_covariance


@st.composite
def cases(draw: st.DrawFn) -> tuple[OpenTransitions, IntArray, IntArray, FloatArray, FloatArray]:
    """Transitions, people and forced leavers by state, estimates that may be impossible, and questions."""
    row = st.tuples(st.integers(0, 3), st.integers(0, 3))
    random = st.builds(OpenAutomaton, row, st.tuples(row, row, row, row), st.booleans())
    known = st.sampled_from([open_windows(2, 1), open_windows(2, 3), open_windows(3, 2), open_spells(3), open_events(2)])
    transitions = draw(random | known).transitions
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    people = rng.integers(0, draw(st.sampled_from([2, 10, 10**5])), transitions.states)
    people[rng.random(len(people)) < 0.2] = 0
    forced = rng.binomial(people, draw(st.sampled_from([0.0, 0.1, 1.0])))
    noise = rng.normal(0, draw(st.sampled_from([0.1, 10, 10**4])), len(transitions))
    even = np.where(transitions.source >= 0, people[transitions.source] / 3, people.sum() / 5)
    questions = (rng.random((4, len(transitions))) < 0.4).astype(float)
    return transitions, people, forced, even + noise, questions


@settings(max_examples=200)
@given(cases())
def test_no_exchange_of_people_between_transitions_comes_nearer(
    case: tuple[OpenTransitions, IntArray, IntArray, FloatArray, FloatArray],
) -> None:
    """The loss is convex, so a point is its minimum if no small possible change lowers it."""
    transitions, people, forced, estimate, questions = case
    found = project_open(transitions, people, forced, estimate, questions, 10**9)
    scale = 1 + float(people.sum()) + float(np.abs(estimate).max())
    low = np.zeros(len(transitions))
    low[transitions.leaving] = forced
    assert (found >= low - 1e-9 * scale).all()
    inside = transitions.source >= 0
    totals = np.bincount(transitions.source[inside], found[inside], transitions.states)
    np.testing.assert_allclose(totals, people, atol=1e-8 * scale)
    deviation = found - estimate
    slope = questions.T @ (questions @ deviation) + TRANSITION_WEIGHT * deviation
    tolerance = 1e-7 * scale * (1 + np.abs(questions).sum())
    for state in range(transitions.states):
        own = np.flatnonzero(transitions.source == state)
        givers = own[found[own] > low[own] + 1e-6 * scale]
        assert givers.size == 0 or slope[givers].max() <= slope[own].min() + tolerance
    entering = transitions.entering
    assert (slope[entering] >= -tolerance).all()
    assert (slope[entering][found[entering] > 1e-6 * scale] <= tolerance).all()


@settings(max_examples=200)
@given(cases(), st.integers(0, 2**32 - 1))
def test_rounding_keeps_the_people_of_every_state_and_the_forced_leavers(
    case: tuple[OpenTransitions, IntArray, IntArray, FloatArray, FloatArray], seed: int
) -> None:
    transitions, people, forced, estimate, questions = case
    wanted = project_open(transitions, people, forced, estimate, questions, 50)
    moved = round_open(transitions, people, forced, wanted, np.random.default_rng(seed))
    inside = transitions.source >= 0
    assert np.bincount(transitions.source[inside], moved[inside], transitions.states).tolist() == people.tolist()
    assert (moved >= 0).all()
    assert (moved[transitions.leaving] >= forced).all()
    assert (np.abs(moved - wanted) < 1 + 1e-6 * (1 + people.sum())).all()
    assert wanted[transitions.entering].sum() <= 50 + 1e-6


def test_rounding_is_unbiased() -> None:
    """The means of 4,000 roundings of every transition; chi-square with a false-alarm rate of 1e-6, seeds fixed."""
    transitions = open_windows(2, 2).transitions
    wanted = np.array([1.25, 2.5, 0.3, 0.3, 2.4, 1.5, 0.25, 1.25])
    people, forced = np.array([3, 3]), np.array([1, 0])
    rng = np.random.default_rng(5)
    errors = np.array([round_open(transitions, people, forced, wanted, rng) - wanted for _ in range(4000)])
    assert_covariance(errors, np.cov(errors.T))
    assert np.abs(errors.mean(axis=0)).max() < 5 * 0.5 / 4000**0.5
