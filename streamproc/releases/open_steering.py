"""Steers the synthetic people of an open study towards the estimates: who enters, who reports what, and who leaves.

As in `flow_steering`, only estimates, released counts and fresh randomness are used. The synthetic people of each state must
add up, synthetic people whose tenure is over must leave, and any number may enter up to a public maximum.

1. Project: the non-negative numbers on the transitions that bring the counts of the release nearest to their estimates, and
   among those the ones nearest to the estimated transitions.
2. Round: every number goes up or down with the probability of its fraction, and the people of each state add up.
"""

from __future__ import annotations

import numpy as np

from streamproc.privacy.open_automaton import OUTSIDE, OpenTransitions
from streamproc.privacy.types import FloatArray, IntArray
from streamproc.releases.flow_steering import SNAP, TRANSITION_WEIGHT, round_transitions

_MAX_PIVOTS = 200


def project_open(
    transitions: OpenTransitions,
    people: IntArray,
    forced: IntArray,
    estimate: FloatArray,
    questions: FloatArray,
    max_entrants: int,
) -> FloatArray:
    """The numbers of synthetic people on each transition, before rounding.

    `people` are in each state before, `forced` of them must leave, `estimate` are the estimated transitions, and each row of
    `questions` weighs the transitions in a count of the release. At most `max_entrants` enter.
    """
    shift = np.zeros(len(transitions))
    shift[transitions.leaving] = forced
    left = people - forced
    found = _nearest(transitions, left, estimate - shift, questions)
    entering = found[transitions.entering]
    if (total := float(entering.sum())) > max_entrants:
        found[transitions.entering] = entering * (max_entrants / total)
    return found + shift


def _nearest(transitions: OpenTransitions, people: IntArray, estimate: FloatArray, questions: FloatArray) -> FloatArray:
    """The strictly convex quadratic problem, solved by exchanging the set of transitions that are held at zero."""
    form = questions.T @ questions + TRANSITION_WEIGHT * np.eye(len(transitions))
    pull = form @ estimate
    inside = transitions.source != OUTSIDE
    empty = np.zeros(len(transitions), dtype=bool)
    empty[inside] = people[transitions.source[inside]] == 0
    held, scale = empty.copy(), 1.0 + float(np.abs(estimate).sum())
    found = np.zeros(len(transitions))
    for _ in range(_MAX_PIVOTS):
        found, multipliers = _solve_free(transitions, people, form, pull, held)
        below = found < -1e-12 * scale
        if below.any():
            held |= below
            _free_one_per_state(transitions, held, found, empty)
            continue
        loose = np.where(held & ~empty, multipliers, 0.0)
        if loose.min(initial=0.0) >= -1e-12 * scale:
            break
        held[int(loose.argmin())] = False
    return _made_possible(transitions, people, found)


def _free_one_per_state(transitions: OpenTransitions, held: np.ndarray, found: FloatArray, empty: np.ndarray) -> None:
    """Release the largest transition of each state with people whose transitions are all held: somebody must make one."""
    for state in range(transitions.states):
        own = np.flatnonzero(transitions.source == state)
        if held[own].all() and not empty[own].any():
            held[own[int(found[own].argmax())]] = False


def _solve_free(
    transitions: OpenTransitions, people: IntArray, form: FloatArray, pull: FloatArray, held: np.ndarray
) -> tuple[FloatArray, FloatArray]:
    """The minimum over the transitions that are not held at zero, and the multiplier of each that is."""
    free = np.flatnonzero(~held)
    source = transitions.source[free]
    states = np.unique(source[source != OUTSIDE])
    leaving = (source[None, :] == states[:, None]).astype(float)
    zero = np.zeros((len(states), len(states)))
    system = np.block([[form[np.ix_(free, free)], leaving.T], [leaving, zero]])
    solution = np.linalg.solve(system, np.concatenate((pull[free], people[states])))
    found = np.zeros(len(transitions))
    found[free] = solution[: len(free)]
    prices = np.zeros(transitions.states + 1)  # the last one is that of the outside, which has no total
    prices[states] = solution[len(free) :]
    return found, form @ found - pull + prices[transitions.source]


def _made_possible(transitions: OpenTransitions, people: IntArray, found: FloatArray) -> FloatArray:
    """The same numbers if they are possible; otherwise the nearest that are, state by state."""
    possible = np.maximum(found, 0.0)
    for state in range(transitions.states):
        own = np.flatnonzero(transitions.source == state)
        possible[own] = _onto_simplex(found[own], float(people[state]))
    return possible


def _onto_simplex(values: FloatArray, total: float) -> FloatArray:
    """The nearest non-negative numbers with this sum: every number is lowered alike, and none below zero."""
    descending = np.sort(values)[::-1]
    excess = (np.cumsum(descending) - total) / np.arange(1, len(values) + 1)
    lowered = excess[np.flatnonzero(descending > excess)[-1]] if total > 0 else 0.0
    return np.maximum(values - lowered, 0.0) if total > 0 else np.zeros_like(values)


def round_open(
    transitions: OpenTransitions, people: IntArray, forced: IntArray, wanted: FloatArray, rng: np.random.Generator
) -> IntArray:
    """Round `wanted` so that each state keeps its people; each number goes up with the probability of its fraction."""
    entering = transitions.entering
    first = len(entering)
    shift = np.zeros(len(transitions) - first, dtype=np.int64)
    shift[transitions.leaving - first] = forced
    inside = round_transitions(transitions.source[first:], people - forced, wanted[first:] - shift, rng) + shift
    nearest = np.rint(wanted[:first])
    numbers = np.where(np.abs(wanted[:first] - nearest) <= SNAP * (1 + nearest), nearest, wanted[:first])
    entrants = np.floor(numbers + rng.random(first)).astype(np.int64)
    return np.concatenate((entrants, inside))
