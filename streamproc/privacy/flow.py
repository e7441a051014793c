"""The flow mechanism: integer measurements of the transitions of an automaton, their exact cost, and their estimates.

In period `t` the mechanism measures `y_t = W_t x_t` with discrete Gaussian noise `sigma` on each entry. Here `x_t[e]` counts
the people who make transition `e`, and `W_t` is a public integer matrix, fixed before the study.

**Sensitivity and cost.** A person makes one transition in each period. Two histories that make transitions `e` and `f` in
period `t` move `W_t x_t` by `W_t (e - f)`, a squared L2 distance of integers, and noise `sigma` on a vector of squared
sensitivity `s` costs `s / (2 sigma^2)` in zCDP (Canonne, Kamath, Steinke 2020, Theorem 14). Costs of periods add up for a
fixed pair of histories, so the cost under replace-one is that of the worst pair: a longest path over pairs of states,

    V_t(s', u') = max over transitions e: s -> s', f: u -> u' of  V_(t-1)(s, u) + |W_t (e - f)|^2,
    cost after t periods = max V_t / (2 sigma^2).

No measurement depends on data, earlier output or noise, so this also is the cost of every prefix of a study. A period that
is drawn `r` times more counts `r + 1` times. Under zero-out the second path is fixed: the history of symbol class 0 alone
(no events). All of it is integer arithmetic; `sigma` is solved from it and rounded up.

**Estimates.** With `z` the open counts of a period (`F`, `E`: see `Transitions`), `W_t F_t` is square and invertible, and

    x~_t = E_t N~_(t-1) + F_t (W_t F_t)^-1 (y_t - W_t E_t N~_(t-1)),    N~_t = A_t x~_t,    N~_0 = n in the start state.

An estimate is made once, in its period, and never revised. It is unbiased, and its error follows a linear recursion, so the
covariance of any two counts of any two periods is known exactly (apart from discreteness, which is negligible).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from streamproc.privacy.adjacency import Adjacency
from streamproc.privacy.automaton import Automaton, Transitions, transitions_of
from streamproc.privacy.directed_rounding import sqrt_up
from streamproc.privacy.types import FloatArray, IntArray, Period

MAX_MATRIX_ENTRY = 2**15 - 1
MAX_MATRIX_NUMBERS = 2**23
"""Maximum number of integers in all matrices of a release. They are published, as 16 bits each."""


def matrix_numbers(automaton: Automaton, horizon: int) -> int:
    """Number of integers in the matrices of a release."""
    return sum(period.free * len(period) for period in transitions_of(automaton, horizon))


@dataclass(frozen=True, eq=False)
class PeriodEstimator:
    """How the estimates of one period follow from its measurements and the estimates before: `x~ = L N~ + B y`."""

    carried: FloatArray
    """`L`: transitions by states before."""
    measured: FloatArray
    """`B`: transitions by measurements."""


@dataclass(frozen=True, eq=False)
class FlowMechanism:
    """Measurements of the transitions of an automaton, and what they cost."""

    automaton: Automaton
    horizon: int
    adjacency: Adjacency
    matrices: tuple[IntArray, ...]
    """`W_t` for periods `1..T`: measurements by transitions."""
    sigma: float
    """Discrete Gaussian parameter of every measurement."""

    def __post_init__(self) -> None:
        shapes = [(period.free, len(period)) for period in self.periods]
        if [matrix.shape for matrix in self.matrices] != shapes:
            raise ValueError("the matrices do not have the shapes that the automaton gives them")
        if any(np.abs(matrix).max(initial=0) > MAX_MATRIX_ENTRY for matrix in self.matrices):
            raise ValueError(f"a matrix has an entry above {MAX_MATRIX_ENTRY}")
        if not self.sigma > 0:
            raise ValueError("a flow mechanism without noise protects nobody")

    @classmethod
    def calibrated(
        cls, automaton: Automaton, horizon: int, matrices: tuple[IntArray, ...], adjacency: Adjacency, rho: float
    ) -> FlowMechanism:
        """The mechanism with these matrices and the least noise whose cost after `horizon` periods is at most `rho`."""
        unit = cls(automaton, horizon, adjacency, matrices, 1.0)
        unit.check_invertible()
        worst = unit._worst_distances(())[-1]
        return cls(automaton, horizon, adjacency, matrices, sqrt_up(Fraction(worst, 2) / Fraction(rho)))

    @property
    def periods(self) -> tuple[Transitions, ...]:
        """The transitions of each period."""
        return transitions_of(self.automaton, self.horizon)

    @property
    def prefix_costs_are_quick(self) -> bool:
        """Whether the costs after all periods take about as long to compute as the cost after the last."""
        return True

    # Cost

    def cost(self, period: Period, redrawn: Sequence[Period] = ()) -> Fraction:
        """The exact cost of everything measured in periods `1..period`; a period in `redrawn` counts once more each time."""
        if not 0 <= period <= self.horizon:
            raise ValueError(f"period {period} is outside 0..{self.horizon}")
        again = tuple(sorted(late for late in redrawn if late <= period))
        if again not in self._known_distances:
            self._known_distances[again] = self._worst_distances(again)
        return Fraction(self._known_distances[again][period]) / (2 * Fraction(self.sigma) ** 2)

    @cached_property
    def _known_distances(self) -> dict[tuple[Period, ...], list[int]]:
        return {}

    def _worst_distances(self, redrawn: Sequence[Period]) -> list[int]:
        """`max V_t` for `t = 0..T`: the largest squared distance of two histories after each number of periods."""
        draws = np.ones(self.horizon + 1, dtype=np.int64)
        np.add.at(draws, list(redrawn), 1)
        if self.adjacency is Adjacency.ZERO_OUT:
            return self._worst_without_events(draws)
        worst, found = np.zeros((1, 1), dtype=np.int64), [0]
        for t, (period, matrix) in enumerate(zip(self.periods, self.matrices, strict=True), start=1):
            gram = matrix.T @ matrix
            norms = np.diagonal(gram)
            distances = norms[:, None] + norms[None, :] - 2 * gram
            longer = worst[np.ix_(period.source, period.source)] + draws[t] * distances
            order = np.argsort(period.target, kind="stable")
            starts = np.searchsorted(period.target[order], np.arange(len(period.after)))
            longer = np.maximum.reduceat(longer[np.ix_(order, order)], starts, axis=0)
            worst = np.maximum.reduceat(longer, starts, axis=1)
            found.append(int(worst.max()))
        return found

    def _worst_without_events(self, draws: IntArray) -> list[int]:
        """The same for pairs whose second history has symbols of class 0 only."""
        worst, found, state = np.zeros(1, dtype=np.int64), [0], 0
        for t, (period, matrix) in enumerate(zip(self.periods, self.matrices, strict=True), start=1):
            quiet = int(np.searchsorted(period.cells, state * self.automaton.classes))
            moved = matrix - matrix[:, [quiet]]
            longer = worst[period.source] + draws[t] * (moved * moved).sum(axis=0)
            worst = np.full(len(period.after), -1, dtype=np.int64)
            np.maximum.at(worst, period.target, longer)
            found.append(int(worst.max()))
            state = self.automaton.table[state][0]
        return found

    # Estimates

    def estimator(self, period: Period) -> PeriodEstimator:
        """The estimator of one period. Raises ValueError if its measurements do not determine the open counts."""
        transitions, matrix = self.periods[period - 1], self.matrices[period - 1]
        try:
            measured = transitions.contrasts @ np.linalg.inv(matrix @ transitions.contrasts)
        except np.linalg.LinAlgError:
            raise ValueError(f"the measurements of period {period} do not determine its counts") from None
        return PeriodEstimator(transitions.spread - measured @ (matrix @ transitions.spread), measured)

    def check_invertible(self) -> None:
        """Raise ValueError unless the measurements of every period determine its open counts."""
        for period, matrix in zip(self.periods, self.matrices, strict=True):
            if np.linalg.matrix_rank(matrix @ period.contrasts) < period.free:
                raise ValueError("the measurements of a period do not determine its counts")

    @cached_property
    def _errors(self) -> list[tuple[FloatArray, FloatArray]]:
        """For each period, `G_t` (how errors of the states before it carry over) and `Cov(N_t)`."""
        covariance, errors = np.zeros((1, 1)), []
        for t, period in enumerate(self.periods, start=1):
            estimator = self.estimator(Period(t))
            carried = period.entering(estimator.carried)
            fresh = period.entering(estimator.measured)
            covariance = carried @ covariance @ carried.T + self.sigma**2 * (fresh @ fresh.T)
            errors.append((carried, covariance))
        return errors

    def state_covariance(self, period: Period, earlier: Period | None = None) -> FloatArray:
        """`Cov(N_t, N_s)` of the estimated state counts, in people squared; `s` is `t` unless an earlier period is given."""
        start = period if earlier is None else earlier
        covariance = self._errors[start - 1][1]
        for t in range(start, period):
            covariance = self._errors[t][0] @ covariance
        return covariance
