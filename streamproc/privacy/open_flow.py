"""The flow mechanism of open studies: one integer matrix for every period, its exact cost for any horizon, its estimates.

In every period the mechanism measures `y_t = W x_t` with discrete Gaussian noise `sigma` on each entry. Here `x_t[e]` counts
the people who make transition `e` of an `OpenAutomaton`: enter, report, or leave. `W` is public and never changes.

**Sensitivity and cost.** A person enters at most once, is present for at most `tenure` periods, leaves in the period after
the last of them at the latest, and never comes back. So a history is: nothing for some periods, a path through the
automaton, nothing ever after; or nothing at all. In a period in which one history makes transition `e` and another `f`,
`W x` differs by `W (e - f)`, where "nothing" is the vector 0. The cost of a pair is the sum of `|W (e - f)|^2 / (2 sigma^2)`
over all periods. Under replace-one the cost is that of the worst pair of histories; under add-remove one of them is nothing
at all. Which periods a person takes part in is a part of the history, so it is protected like the reports.

**Any horizon.** The worst pair is a longest path over pairs of {not entered yet, (state, age), left}, on integers. It does
not depend on the horizon: after `2 tenure + 2` periods no pair can cost more, because every period costs a pair only while
one of the two is entering, present or leaving. The same path, cut off after `t` periods, is the exact cost of the first `t`.

A period that is drawn again counts once more. What it adds is an upper bound, because the path does not follow which period
of the study is which. It is the smaller of two: the cost without redraws, times the most redraws of one period; and for each
redraw the largest difference of any two transitions, for as many redraws as one participation of `tenure + 1` periods can
meet, under replace-one two such participations. So redraws that lie further apart do not add up without end.

**Estimates.** With `E` and `F` of `OpenTransitions`, `W F` is square and invertible, and

    x~_t = E N~_(t-1) + F (W F)^-1 (y_t - W E N~_(t-1)),    N~_t = A x~_t,    N~_0 = 0.

**Design.** `W` comes from the precision `sum_t |dx_t|^2` on all errors that conserve flow, by the recursion of
linear-quadratic control, iterated backwards to its fixed point. With weight `lambda` on every transition of every period, a
person's whole participation costs at most `(tenure + 1) lambda` under replace-one and half of that under add-remove. The
matrix is rounded to integers, and everything above is computed from the rounded matrix.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np

from streamproc.privacy.adjacency import Adjacency
from streamproc.privacy.directed_rounding import sqrt_up
from streamproc.privacy.flow import MAX_MATRIX_ENTRY, PeriodEstimator
from streamproc.privacy.flow_design import MATRIX_BITS
from streamproc.privacy.open_automaton import OpenAutomaton, OpenTransitions
from streamproc.privacy.types import FloatArray, IntArray, Period

MAX_ROUNDS = 10_000
"""Maximum number of steps of the backward recursion. It converges geometrically, in a few dozen."""

RELATIVE_CHANGE = 1e-13
"""A recursion is at its fixed point when a step changes no entry by more than this part of the largest one."""

MAX_DOUBLINGS = 20
"""Covariances of later periods than `2^MAX_DOUBLINGS` count as constant: no study has so many."""

_UNREACHABLE = -(2**60)
_CHUNK_LENGTHS = 2**17
"""Number of lengths of paths that are computed together: 1 MB, which fits a processor's cache."""


@dataclass(frozen=True, eq=False)
class OpenFlowMechanism:
    """The same measurements of the transitions of an open automaton in every period, and what they cost."""

    automaton: OpenAutomaton
    tenure: int
    """Maximum number of periods in which a person is present."""
    adjacency: Adjacency
    matrix: IntArray
    """`W`: measurements by transitions."""
    sigma: float
    """Discrete Gaussian parameter of every measurement."""

    def __post_init__(self) -> None:
        if self.tenure < 1:
            raise ValueError(f"a tenure of {self.tenure} periods lets nobody take part")
        if self.matrix.dtype != np.int64:
            raise ValueError("the matrix does not hold integers of 64 bits, in which its cost is computed")
        if self.matrix.shape != (self.transitions.free, len(self.transitions)):
            raise ValueError("the matrix does not have the shape that the automaton gives it")
        if ((self.matrix > MAX_MATRIX_ENTRY) | (self.matrix < -MAX_MATRIX_ENTRY)).any():
            raise ValueError(f"the matrix has an entry above {MAX_MATRIX_ENTRY}")
        if self.adjacency is Adjacency.ZERO_OUT:
            raise ValueError("an open study protects whether people take part, which zero-out does not describe")
        if not self.sigma > 0:
            raise ValueError("a flow mechanism without noise protects nobody")

    @classmethod
    def calibrated(cls, automaton: OpenAutomaton, tenure: int, adjacency: Adjacency, rho: float) -> OpenFlowMechanism:
        """The mechanism with the designed matrix and the least noise whose cost never exceeds `rho`."""
        unit = cls(automaton, tenure, adjacency, stationary_matrix(automaton), 1.0)
        unit.check_invertible()
        unit.check_errors_fade()
        worst = unit.worst_distances[-1]
        return cls(automaton, tenure, adjacency, unit.matrix, sqrt_up(Fraction(worst, 2) / Fraction(rho)))

    @property
    def transitions(self) -> OpenTransitions:
        """The transitions of a period."""
        return self.automaton.transitions

    @property
    def horizon(self) -> int:
        """The number of periods after which the cost grows no more."""
        return len(self.worst_distances) - 1

    @property
    def prefix_costs_are_quick(self) -> bool:
        """Whether the costs after all periods take about as long to compute as the cost after the last."""
        return True

    # Cost

    def cost(self, period: Period, redrawn: Sequence[Period] = ()) -> Fraction:
        """The exact cost of everything measured in periods `1..period`, an upper bound if periods were drawn again.

        A period counts once more for each time that it is in `redrawn`.
        """
        if period < 0:
            raise ValueError(f"period {period} is before the study")
        reached = self.worst_distances[min(period, len(self.worst_distances) - 1)]
        again = Counter(late for late in redrawn if late <= period)
        added = min(max(again.values(), default=0) * reached, self._most_met(again) * self.largest_distance)
        return Fraction(reached + added) / (2 * Fraction(self.sigma) ** 2)

    def _most_met(self, again: Counter[Period]) -> int:
        """The largest number of redraws in one participation; under replace-one, in two that do not overlap.

        Two that overlap cover no more periods than two in a row.
        """
        late = sorted(again.elements())
        one, two = [0] * (len(late) + 1), [0] * (len(late) + 1)
        for first in reversed(range(len(late))):
            after = bisect_right(late, late[first] + self.tenure)
            one[first] = max(one[first + 1], after - first)
            two[first] = max(two[first + 1], after - first + one[after])
        return one[0] if self.adjacency is Adjacency.ADD_REMOVE else two[0]

    @cached_property
    def _distances(self) -> IntArray:
        """`|W (e - f)|^2` for all pairs of transitions; the last row and column are "nothing"."""
        matrix = np.pad(self.matrix, ((0, 0), (0, 1)))
        gram = matrix.T @ matrix
        norms = np.diagonal(gram)
        distances: IntArray = norms[:, None] + norms[None, :] - 2 * gram
        return distances

    @property
    def largest_distance(self) -> int:
        """The largest squared distance of two neighbours in one period."""
        distances = self._distances if self.adjacency is Adjacency.REPLACE_ONE else self._distances[-1]
        return int(distances.max())

    @cached_property
    def worst_distances(self) -> list[int]:
        """The largest squared distance of two neighbours after 0, 1, 2, ... periods. Later ones equal the last."""
        return _LongestPath(self.transitions, self.tenure, self._distances).worst(self.adjacency)

    # Estimates

    def check_invertible(self) -> None:
        """Raise ValueError unless the measurements of a period determine its open counts."""
        if np.linalg.matrix_rank(self.matrix @ self.transitions.contrasts) < self.transitions.free:
            raise ValueError("the measurements of a period do not determine its counts")

    @cached_property
    def estimator(self) -> PeriodEstimator:
        """The estimator of every period. Raises ValueError if the measurements do not determine the open counts."""
        transitions, matrix = self.transitions, self.matrix
        try:
            measured = transitions.contrasts @ np.linalg.inv(matrix @ transitions.contrasts)
        except np.linalg.LinAlgError:
            raise ValueError("the measurements of a period do not determine its counts") from None
        return PeriodEstimator(transitions.spread - measured @ (matrix @ transitions.spread), measured)

    @cached_property
    def _carried(self) -> FloatArray:
        """`G`: how the errors of the states before a period carry over to the states after it."""
        return self.transitions.entering_totals(self.estimator.carried)

    def check_errors_fade(self) -> None:
        """Raise ValueError unless the error of a period fades from the later ones, so that error bars stay bounded."""
        if np.abs(np.linalg.eigvals(self._carried)).max() > 1 - 1e-9:  # an eigenvalue of 1 is computed up to rounding
            raise ValueError("the errors of the estimates grow without end")

    @cached_property
    def _doublings(self) -> list[tuple[FloatArray, FloatArray]]:
        """`G^t` and `Cov(N_t)` for `t = 1, 2, 4, ...`, as far as they were needed."""
        fresh = self.transitions.entering_totals(self.estimator.measured)
        return [(self._carried, self.sigma**2 * (fresh @ fresh.T))]

    def _doubling(self, exponent: int) -> tuple[FloatArray, FloatArray]:
        known = self._doublings
        while len(known) <= exponent:
            power, covariance = known[-1]
            known.append((power @ power, covariance + power @ covariance @ power.T))
        return known[exponent]

    def _is_constant_after(self, exponent: int) -> bool:
        """Whether `Cov(N_t)` is constant from period `2^exponent` on, up to rounding."""
        return _is_constant(self._doubling(exponent)[1], self._doubling(exponent + 1)[1])

    def state_covariance(self, period: Period) -> FloatArray:
        """`Cov(N_t)` of the estimated state counts, in people squared."""
        if period < 0:
            raise ValueError(f"period {period} is before the study")
        covariance = np.zeros((self.automaton.states, self.automaton.states))
        for exponent in range(period.bit_length()):
            if self._is_constant_after(exponent):
                return self._doubling(exponent)[1]
            if period >> exponent & 1:
                power, before = self._doubling(exponent)
                covariance = before + power @ covariance @ power.T
        return covariance

    @cached_property
    def _steady(self) -> Period:
        """The first period from which on `Cov(N_t)` is constant up to rounding, at most `2^MAX_DOUBLINGS`."""
        exponents = range(MAX_DOUBLINGS)
        end = 2 ** next((exponent for exponent in exponents if self._is_constant_after(exponent)), MAX_DOUBLINGS)
        last = self.state_covariance(Period(end))
        return Period(bisect_left(range(end), True, key=lambda t: _is_constant(self.state_covariance(Period(t)), last)))

    def steady_period(self, period: Period) -> Period:
        """The first period whose errors have the same covariance as those of `period`, up to rounding."""
        return Period(min(period, self._steady + 1))

    def transition_covariance(self, period: Period, earlier: Period | None = None) -> FloatArray:
        """`Cov(x_t, x_s)` of the estimated transitions; `s` is `t` unless an earlier period is given."""
        start = period if earlier is None else earlier
        if not 1 <= start <= period:
            raise ValueError(f"period {start} is outside 1..{period}")
        carried, measured = self.estimator.carried, self.estimator.measured
        covariance: FloatArray = carried @ self.state_covariance(Period(start - 1)) @ carried.T
        covariance = covariance + self.sigma**2 * (measured @ measured.T)
        if period > start:
            # The errors of the states after `start`, carried on to those before `period`.
            later, steps = self.transitions.entering_totals(covariance), period - 1 - start
            for exponent in range(steps.bit_length()):
                if steps >> exponent & 1:
                    later = self._doubling(exponent)[0] @ later
            covariance = carried @ later
        return covariance


def _is_constant(before: FloatArray, after: FloatArray) -> bool:
    return bool(np.abs(after - before).max() <= RELATIVE_CHANGE * np.abs(after).max())


class _LongestPath:
    """Longest paths over pairs of histories. Ages count the periods of a person's presence so far, from 1 on."""

    def __init__(self, transitions: OpenTransitions, tenure: int, distances: IntArray) -> None:
        self._transitions, self._tenure, self._distances = transitions, tenure, distances
        self._alone = distances[-1, :-1]
        """The distance of each transition from nothing."""
        staying = transitions.staying
        by_target = np.argsort(transitions.target[staying], kind="stable")
        self._staying = staying[by_target]
        targets = transitions.target[self._staying]
        self._reached, self._starts = np.unique(targets, return_index=True)
        """The states that a later report can lead to, and where their transitions begin in `_staying`."""
        self._from = transitions.source[self._staying]
        self._arrivals = np.split(np.arange(len(self._from)), self._starts[1:])
        """For each of those states, the places of its transitions in `_staying`."""
        self._singles = self._one_person()

    def worst(self, adjacency: Adjacency) -> list[int]:
        """The longest path after 0, 1, 2, ... periods, until it can grow no more."""
        leaving = self._alone[self._transitions.leaving]
        present = [int(single.max()) for single in self._singles]
        left = [int((single + leaving).max()) for single in self._singles]
        alone = np.maximum.accumulate([0, *np.maximum([*present, 0], [0, *left])])
        return [int(length) for length in (alone if adjacency is Adjacency.ADD_REMOVE else self._two_people(alone))]

    def _one_person(self) -> list[IntArray]:
        """For age 1, 2, ..., tenure, the longest path to each state beside nothing."""
        entering = self._transitions.entering
        first = np.full(self._transitions.states, _UNREACHABLE, dtype=np.int64)
        np.maximum.at(first, self._transitions.target[entering], self._alone[entering])
        singles = [first]
        while len(singles) < self._tenure:
            singles.append(self._report(singles[-1]))
        return singles

    def _report(self, before: IntArray) -> IntArray:
        """One more report beside nothing. The last axis of `before` is the state."""
        longer = before[..., self._from] + self._alone[self._staying]
        return self._by_target(longer, axis=-1)

    def _by_target(self, lengths: IntArray, axis: int) -> IntArray:
        """The maximum over the later reports that lead to each state; no such report leads to some states."""
        shape = list(lengths.shape)
        shape[axis] = self._transitions.states
        found = np.full(shape, _UNREACHABLE, dtype=np.int64)
        places = [slice(None)] * lengths.ndim
        places[axis] = self._reached  # type: ignore[call-overload]
        found[tuple(places)] = np.maximum.reduceat(lengths, self._starts, axis=axis)
        return found

    def _two_people(self, alone: IntArray) -> list[int]:
        """The longest paths of two people of whom one may be nothing, from those of one person beside nothing.

        The first person enters in period 1: where both wait, the same path ends later, and the largest so far covers it.
        After period `t`, `lone[t, b]` are the states of one person of age `b` when the other has left, and `ended[t]` is the
        longest path of two people who have both left.
        """
        tenure, states, last = self._tenure, self._transitions.states, 2 * self._tenure + 2
        lone = np.full((last + 2, tenure + 2, states), _UNREACHABLE, dtype=np.int64)
        ended = np.full(last + 2, _UNREACHABLE, dtype=np.int64)
        longest = np.concatenate((alone, np.full(last + 2 - len(alone), alone[-1]))).astype(np.int64)
        self._add_present_together(lone, ended, longest)
        self._add_handovers(lone)
        leaving, entering = self._alone[self._transitions.leaving], self._transitions.entering
        left = np.array([int((single + leaving).max()) for single in self._singles])
        for period in range(2, last + 1):
            ended[period] = max(ended[period], int((lone[period - 1, 1:-1] + leaving).max()))
            if period >= 3:
                # The other person has left by the period before, and may have been of any age that fits.
                gone = int(left[: period - 2].max())
                targets = self._transitions.target[entering]
                np.maximum.at(lone[period, 1], targets, gone + self._alone[entering])
            lone[period, 2:-1] = np.maximum(lone[period, 2:-1], self._report(lone[period - 1, 1:-2]))
            longest[period] = max(longest[period], int(lone[period].max()), int(ended[period]))
        return [int(length) for length in np.maximum.accumulate(longest[: last + 1])]

    def _add_present_together(self, lone: IntArray, ended: IntArray, longest: IntArray) -> None:
        """Follow two people while both are present. The first entered `d` periods before the second, in period 1."""
        transitions, distances, tenure = self._transitions, self._distances, self._tenure
        leaving, staying = transitions.leaving, self._staying
        last_leaving = distances[np.ix_(leaving, leaving)]
        first_leaves = distances[np.ix_(leaving, staying)]
        second_leaves = distances[np.ix_(staying, leaving)]
        both_report = distances[np.ix_(staying, staying)]
        step = max(_CHUNK_LENGTHS // (transitions.states * len(staying)), 1)
        together = self._second_enters()
        for age in range(1, tenure + 1):
            # `together[d]`: the second person has this age, the first is `d` periods older.
            following = [together[:0]]
            for start in range(0, len(together), step):
                lengths = together[start : start + step]
                older = age + start + np.arange(len(lengths))
                longest[older] = np.maximum(longest[older], lengths.max(axis=(1, 2)))
                ended[older + 1] = np.maximum(ended[older + 1], (lengths + last_leaving).max(axis=(1, 2)))
                second_reports = lengths[:, :, self._from]
                if age < tenure:
                    stays = self._by_target((second_reports + first_leaves).max(axis=1), axis=1)
                    lone[older + 1, age + 1] = np.maximum(lone[older + 1, age + 1], stays)
                young = older < tenure
                older, lengths, second_reports = older[young], lengths[young], second_reports[young]
                stays = self._by_target((lengths[:, self._from] + second_leaves).max(axis=2), axis=1)
                lone[older + 1, older + 1] = np.maximum(lone[older + 1, older + 1], stays)
                following.append(self._both_report(second_reports, both_report))
            together = np.concatenate(following)

    def _both_report(self, second_reports: IntArray, distances: IntArray) -> IntArray:
        """One more report of both, from the paths to the first person's state and what the second reports."""
        longer = np.full_like(second_reports, _UNREACHABLE)
        for state, arrivals in zip(self._reached.tolist(), self._arrivals, strict=True):
            longer[:, state] = (second_reports[:, self._from[arrivals]] + distances[arrivals]).max(axis=1)
        return self._by_target(longer, axis=2)

    def _second_enters(self) -> IntArray:
        """The longest paths to each pair of states in the period in which the second person enters, by `d`."""
        transitions, distances = self._transitions, self._distances
        entering = transitions.entering
        entered = transitions.target[entering]
        together = np.full((self._tenure, transitions.states, transitions.states), _UNREACHABLE, dtype=np.int64)
        np.maximum.at(together[0], (entered[:, None], entered[None, :]), distances[np.ix_(entering, entering)])
        for d, single in enumerate(self._singles[:-1], start=1):
            longer = single[self._from, None] + distances[np.ix_(self._staying, entering)]
            np.maximum.at(together[d].T, entered, self._by_target(longer, axis=0).T)
        return together

    def _add_handovers(self, lone: IntArray) -> None:
        """One person leaves in the period in which the other enters."""
        transitions, distances = self._transitions, self._distances
        entered = transitions.target[transitions.entering]
        steps = distances[np.ix_(transitions.leaving, transitions.entering)]
        for age, single in enumerate(self._singles, start=1):
            longer = (single[:, None] + steps).max(axis=0)
            np.maximum.at(lone[age + 1, 1], entered, longer)


def stationary_recursion(transitions: OpenTransitions) -> tuple[FloatArray, FloatArray]:
    """`M` and `K` of the precision `sum_t |dx_t|^2` without an end: the fixed point of the backward recursion.

    Because `F' F = I` and `F' E = 0`, the recursion needs matrices of the size of the states only.
    """
    spread, contrasts = transitions.spread, transitions.contrasts
    evenly, moved = transitions.entering_totals(spread), transitions.entering_totals(contrasts)
    own, reached, identity = spread.T @ spread, moved @ moved.T, np.eye(transitions.states)
    later = np.zeros_like(own)
    for _ in range(MAX_ROUNDS):
        before = own + evenly.T @ np.linalg.solve(identity + later @ reached, later) @ evenly
        before = (before + before.T) / 2
        done, later = _is_constant(later, before), before
        if done:
            precision = np.eye(transitions.free) + moved.T @ later @ moved
            gain: FloatArray = -np.linalg.solve(precision, moved.T @ later @ evenly).astype(np.float64)
            return precision, gain
    raise ValueError("the recursion has no fixed point")


@lru_cache(maxsize=32)
def stationary_matrix(automaton: OpenAutomaton) -> IntArray:
    """`W = R (F' - K U)` with `R' R = M`, multiplied by one factor and rounded to integers of 16 bits."""
    transitions = automaton.transitions
    precision, gain = stationary_recursion(transitions)
    carried = np.zeros((transitions.free, len(transitions)))
    inside = transitions.source >= 0
    carried[:, inside] = gain[:, transitions.source[inside]]
    exact = np.linalg.cholesky(precision).T @ (transitions.contrasts.T - carried)
    scale = ((1 << MATRIX_BITS) - 1) / float(np.abs(exact).max())
    matrix: IntArray = np.rint(scale * exact).astype(np.int64)
    matrix.flags.writeable = False
    return matrix
