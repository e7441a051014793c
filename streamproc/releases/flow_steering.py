"""Steers the synthetic people of a release on an automaton towards the estimates.

It chooses how many people of each state make which transition.

The panel has an integer number of people in each state and each must make one transition, so a period is a choice of
non-negative integers that add up to the people of each state. Only estimates, released counts and fresh randomness are used,
never tallies, so this is post-processing.

1. Project: the real numbers that come nearest to the estimated counts of the states (as far as the questions of the
   release depend on them), and among those nearest to the estimated transitions. Where noise asks for the impossible, the
   panel stays at the border and catches up later.
2. Round: every number goes up or down with the probability of its fraction, and the people of each state add up.
"""

from __future__ import annotations

import numpy as np

from streamproc.privacy.automaton import Transitions
from streamproc.privacy.types import FloatArray, IntArray

STATE_WEIGHT, TRANSITION_WEIGHT = 1e-3, 1e-6
"""Weights of a state's and of a transition's squared deviation, relative to that of a question."""

_MAX_PIVOTS = 200
"""Maximum number of changes of the set of transitions that are held at zero."""

SNAP = 1e-7
"""Relative distance below which a number counts as the integer next to it: far above the error of the projection."""


def project_transitions(
    transitions: Transitions, people: IntArray, estimate: FloatArray, questions: FloatArray
) -> FloatArray:
    """The non-negative numbers of people on each transition, with sums `people` per state, that follow `estimate` best.

    `people` are the panel's counts of the states before, `estimate` the estimated transitions, and each row of `questions`
    weighs the states after. The deviations of the questions count most, then those of the states, then those of the
    transitions: a strictly convex quadratic problem, solved by exchanging the set of transitions that are held at zero.
    """
    form = questions.T @ questions + STATE_WEIGHT * np.eye(len(transitions.after))
    form = form[np.ix_(transitions.target, transitions.target)] + TRANSITION_WEIGHT * np.eye(len(transitions))
    pull = form @ estimate
    empty = people[transitions.source] == 0
    held = empty.copy()
    scale = 1.0 + float(people.sum())
    found = np.zeros(len(transitions))
    for _ in range(_MAX_PIVOTS):
        found, multipliers = _solve_free(transitions, people, form, pull, held)
        below = found < -1e-12 * scale
        if below.any():
            held |= below
            continue
        loose = np.where(held & ~empty, multipliers, 0.0)
        if loose.min(initial=0.0) >= -1e-12 * scale:
            break
        held[int(loose.argmin())] = False
    return np.maximum(found, 0.0)


def _solve_free(
    transitions: Transitions, people: IntArray, form: FloatArray, pull: FloatArray, held: np.ndarray
) -> tuple[FloatArray, FloatArray]:
    """The minimum over the transitions that are not held at zero, and the multiplier of each that is."""
    free = np.flatnonzero(~held)
    states = np.unique(transitions.source[free])
    leaving = (transitions.source[free][None, :] == states[:, None]).astype(float)
    zero = np.zeros((len(states), len(states)))
    system = np.block([[form[np.ix_(free, free)], leaving.T], [leaving, zero]])
    solution = np.linalg.solve(system, np.concatenate((pull[free], people[states])))
    found = np.zeros(len(transitions))
    found[free] = solution[: len(free)]
    prices = np.zeros(len(transitions.before))
    prices[states] = solution[len(free) :]
    return found, form @ found - pull + prices[transitions.source]


def clamp_at_least(transitions: Transitions, people: IntArray, estimate: FloatArray) -> FloatArray:
    """The projection for a count of events: each "at least j" is clamped between its last value and that of `j - 1`.

    Every state has at most the transitions "no event" and "event", in this order; the last may have one for both.
    """
    entering = transitions.entering(estimate)
    at_least = np.cumsum(entering[::-1])[::-1][1:]
    before = np.cumsum(people[::-1])[::-1].astype(float)
    last = np.concatenate((before[1:], [0.0]))[: len(at_least)]
    events = np.clip(at_least, last, before[: len(at_least)]) - last
    moved = np.zeros(len(transitions))
    two_ways = transitions.degrees == 2
    first = np.searchsorted(transitions.source, np.arange(len(people)))
    moved[first] = people
    moved[first[two_ways]] -= events
    moved[first[two_ways] + 1] = events
    return moved


def round_transitions(source: IntArray, people: IntArray, wanted: FloatArray, rng: np.random.Generator) -> IntArray:
    """Round `wanted` so that each state keeps its people; each number goes up with the probability of its fraction.

    `source` is the state that each transition leaves, in ascending order. The running sums of a state's fractions, in a
    random order, are shifted by one uniform number before they are floored.
    """
    nearest = np.rint(wanted)
    wanted = np.where(np.abs(wanted - nearest) <= SNAP * (1 + np.abs(wanted)), nearest, wanted)
    whole = np.floor(wanted).astype(np.int64)
    order = np.lexsort((rng.random(len(source)), source))
    sorted_source = source[order]
    last = np.flatnonzero(np.diff(sorted_source, append=-1))
    sums = np.cumsum((wanted - whole)[order])
    sums -= np.concatenate(([0.0], sums[last[:-1]]))[sorted_source]
    sums[last] = people - np.bincount(source, whole, len(people)).astype(np.int64)
    shifted = np.floor(sums + rng.random(len(people))[sorted_source]).astype(np.int64)
    ups = np.diff(shifted, prepend=0)
    ups[last[:-1] + 1] = shifted[last[:-1] + 1]
    rounded = whole.copy()
    rounded[order] += ups
    return rounded
