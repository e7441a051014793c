"""Tunes the weights of the flow mechanism for the questions of a release: the largest or the mean variance becomes small.

Weights are put on every transition, on every state and on every question of every period. (Weights on transitions and states
alone are not enough: for "at least j events" over 12 periods their best largest variance is 6.8, with weights on the
questions too it is 5.8.) The variances of the questions and the cost of a pair of histories are both functions of the
weights (`flow_design`). Scaling all weights scales them in opposite directions, so their product is minimised, over the
logarithms of the weights, by L-BFGS.
Both maxima are smoothed: the largest variance by a power mean, the cost by a soft maximum over pairs of histories. Both
become sharper from stage to stage. The smoothing affects accuracy only: noise is calibrated by the exact cost of the
rounded matrices.

The derivative of a variance has a closed form. The precision is `P = sum_i w_i a_i a_i'` with a functional `a_i` for each
weight, so `d Var(c) / d w_i = -Cov(a_i, c)^2`. Summed over all questions with coefficients `omega`, this needs two
recursions: `Y_t` collects the questions of period `t` and later, `Z_t` those up to period `t`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Literal, NamedTuple

import numpy as np

from streamproc.privacy.automaton import Transitions
from streamproc.privacy.flow_design import FlowWeights, recursion, rule_weights
from streamproc.privacy.types import FloatArray

Objective = Literal["largest", "mean"]

Progress = Callable[[float], None]
"""Called with the part of the work that is done, between 0 and 1."""


class Stage(NamedTuple):
    """One run of L-BFGS, from where the stage before it ended."""

    sharpness: float
    """Factor of the exponents of the soft maximum over pairs of histories, for each period."""
    power: float
    """Exponent of the power mean of the variances, for each period. The objective "mean" has exponent 1 instead."""
    iterations: int
    """Maximum number of iterations."""


STAGES = (Stage(16, 4, 100), Stage(80, 20, 150), Stage(400, 100, 250))
"""There are up to `4^T` pairs of histories, so the soft maximum exceeds the maximum by up to `T log 4` exponents. Hence
sharpness grows with the number of periods, and a first stage below 16 would only lead to a place far from the optimum."""

START = 0.05
"""Weight of a state or a question at the start, as a part of a transition's: a weight of 0 has no logarithm."""

MAX_LOG_WEIGHT = 6.0
"""Weights stay between `e^-6` and `e^6`, with those of the rule near 1, so that 16 bits round no measurement to zero."""

SMALLEST_VARIANCE = 1e-9
"""A variance below this, with weights near 1, is that of a constant: its rounding errors."""

MAX_TUNED_WEIGHTS = 640
"""Tuning is the default up to this `tuning_size`. It takes about 3 seconds at 600: all counts of events over 24 periods."""


_progress: ContextVar[Progress] = ContextVar("tuning_progress", default=lambda done: None)


@contextmanager
def reported_progress(progress: Progress) -> Iterator[None]:
    """Call `progress` while weights are tuned inside this block, however deep in it."""
    token = _progress.set(progress)
    try:
        yield
    finally:
        _progress.reset(token)


def tuning_size(periods: Sequence[Transitions]) -> int:
    """Number of weights on transitions, over all periods: how much work tuning is."""
    return sum(len(period) for period in periods)


def tune_weights(
    periods: Sequence[Transitions],
    questions: Sequence[FloatArray],
    objective: Objective = "largest",
    progress: Progress | None = None,
) -> FlowWeights:
    """Weights for which the variances of the questions are small at a given cost.

    `questions[t-1]` has a row for each question of period `t`, with a weight for each state after it; it may be empty.
    If no question has an error, the weights are those of the rule. The result depends on the arguments alone, up to the
    rounding of floating-point algebra on a machine.
    """
    from scipy.optimize import minimize  # late, because only tuning needs it

    report = progress or _progress.get()
    problem = _Problem(periods, questions)
    point = problem.start()
    if not problem.has_errors(point):
        report(1.0)
        return rule_weights(periods)
    total, done = sum(stage.iterations for stage in STAGES), 0
    for stage in STAGES:
        counted = [done]

        def count(xk: FloatArray, counted: list[int] = counted) -> None:
            counted[0] += 1
            report(counted[0] / total)

        power = 1.0 if objective == "mean" else stage.power * len(periods)
        found = minimize(
            partial(problem.loss, sharpness=stage.sharpness * len(periods), power=power),
            point,
            jac=True,
            method="L-BFGS-B",
            bounds=[(-MAX_LOG_WEIGHT, MAX_LOG_WEIGHT)] * len(point),
            callback=count,
            options={"maxiter": stage.iterations, "maxfun": 2 * stage.iterations, "maxcor": 20, "ftol": 1e-10, "gtol": 1e-9},
        )
        point = found.x
        done += stage.iterations
    report(1.0)
    return problem.weights(point)


class _Problem:
    """The loss of weights, and its gradient, as functions of one vector: the logarithms of all weights."""

    def __init__(self, periods: Sequence[Transitions], questions: Sequence[FloatArray]) -> None:
        self._periods = periods
        self._questions = questions
        self._measured = [np.vstack((np.eye(len(p.after)), asked)) for p, asked in zip(periods, questions, strict=True)]
        """For each period, the functions of its states that have a weight: each state, and each question."""
        self._squared = [rows * rows for rows in self._measured]
        sizes = [size for p, rows in zip(periods, self._measured, strict=True) for size in (len(p), len(rows))]
        self._cuts = np.cumsum(sizes)[:-1]
        self._question_cuts = np.cumsum([len(asked) for asked in questions])[:-1]
        self._pairs = [_Pairs(period) for period in periods]
        evenly: list[FloatArray] = []
        for t, period in enumerate(periods):
            visits = np.full((len(period), len(period)), len(period) ** -2.0)
            evenly += self._by_weights(t, visits, self._pairs[t].entering(visits))
        self._typical = np.concatenate(evenly)
        """The derivative, by each weight, of the cost of a pair that makes any two transitions of a period equally often."""

    def start(self) -> FloatArray:
        """The logarithms of weights near those of the rule: per period its transitions, then its states and questions."""
        rule, parts = rule_weights(self._periods), []
        for own, states, rows in zip(rule.transitions, rule.states, self._measured, strict=True):
            others = np.full(len(rows), START * float(own.mean()))
            others[: len(states)] = np.maximum(np.diagonal(states), others[: len(states)])
            parts += [own, others]
        logarithms: FloatArray = np.log(np.concatenate(parts))
        return logarithms

    def weights(self, point: FloatArray) -> FlowWeights:
        """The weights at a point: the logarithms that `start` describes."""
        parts = np.split(np.exp(point), self._cuts)
        states = tuple(rows.T @ (own[:, None] * rows) for own, rows in zip(parts[1::2], self._measured, strict=True))
        return FlowWeights(tuple(parts[::2]), states)

    def has_errors(self, point: FloatArray) -> bool:
        """Whether some question has a variance, apart from rounding."""
        *_, covariances = self._errors(self.weights(point))
        return float(self._variances(covariances).max(initial=0.0)) > SMALLEST_VARIANCE

    def loss(self, point: FloatArray, *, sharpness: float, power: float) -> tuple[float, FloatArray]:
        """Logarithm of the smoothed variance times the smoothed cost, and its gradient."""
        weights, values = self.weights(point), np.exp(point)
        log_cost, cost_gradient = self._log_cost(weights, values, sharpness)
        log_variance, variance_gradient = self._log_variance(weights, power)
        return log_cost + log_variance, values * (cost_gradient + variance_gradient)

    def _log_cost(self, weights: FlowWeights, values: FloatArray, sharpness: float) -> tuple[float, FloatArray]:
        """Logarithm of the soft maximum of the cost of a pair of histories, with its derivative by each weight.

        A pair that makes different transitions in a period pays half of their weights, and half of the form of the states at
        the difference of the states that they enter. The scale of the soft maximum follows the weights, so that a common
        factor of all weights changes the result by just that factor.

        A pair of transitions enters the sums as `exp` of what it loses against the best way on: at most 1, and 1 along the
        worst pair of histories, so nothing overflows, and only what has no influence underflows.
        """
        typical = float(self._typical @ values)
        scale = sharpness / typical
        best, factors = np.zeros((len(self._periods[-1].after),) * 2), []
        for pairs, own, states in zip(self._pairs[::-1], weights.transitions[::-1], weights.states[::-1], strict=True):
            onward = pairs.by_target(scale * _half_distances(states) + best)
            half = own * (scale / 2)
            onward += half[:, None]
            onward += half
            onward[pairs.same] -= scale * own
            best = pairs.largest_leaving(onward)
            onward -= pairs.by_source(best)
            factors.append(np.exp(onward, out=onward))
        factors.reverse()
        reached = [np.ones((1, 1))]
        for pairs, factor in zip(self._pairs, factors, strict=True):
            reached.append(pairs.entering(factor * pairs.by_source(reached[-1])))
        total = float(reached[-1].sum())
        log_total = float(best[0, 0] + np.log(total))
        gradients: list[FloatArray] = []
        behind = np.full_like(reached[-1], 1 / total)
        for t in reversed(range(len(self._periods))):
            pairs, visits, visited = self._pairs[t], factors[t], reached[t + 1] * behind
            visits *= pairs.by_target(behind)
            behind = pairs.leaving(visits)
            visits *= pairs.by_source(reached[t])
            gradients += self._by_weights(t, visits, visited)[::-1]
        by_pairs = np.concatenate(gradients[::-1]) * (scale / log_total)
        return float(np.log(log_total / scale)), by_pairs + self._typical * ((1 - by_pairs @ values) / typical)

    def _by_weights(self, t: int, visits: FloatArray, visited: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The derivative of a mean cost of pairs by the weights of a period's transitions, and of its states and questions.

        `visits` says how often two histories make each pair of transitions, `visited` how often they enter each pair of
        states.
        """
        squares = self._squared[t] @ visited.sum(axis=1) - _diagonal(self._measured[t], visited)
        return visits.sum(axis=1) - np.diagonal(visits), squares

    def _log_variance(self, weights: FlowWeights, power: float) -> tuple[float, FloatArray]:
        """Logarithm of the power mean of the variances of all questions, with its derivative by each weight."""
        carried, steps, linked, covariances = self._errors(weights)
        everything = self._variances(covariances)
        largest = everything.max()
        ratios = everything / largest
        powers = ratios ** (power - 1)
        mean = (ratios * powers).mean()
        shares = np.split(powers / (len(powers) * largest * mean), self._question_cuts)
        gradient = self._variance_gradient(shares, carried, steps, linked, covariances)
        return float(np.log(largest) + np.log(mean) / power), gradient

    def _errors(self, weights: FlowWeights) -> tuple[list[FloatArray], list[FloatArray], list[FloatArray], list[FloatArray]]:
        """How errors of the states before a period carry over to its transitions and to the states after it, for each
        period; then `Cov(x_t, N_t)` for each, and `Cov(N_t)` from period 0 on."""
        carried, steps, linked, covariances = [], [], [], [np.zeros((1, 1))]
        for period, pairs, design in zip(self._periods, self._pairs, recursion(self._periods, weights), strict=True):
            carried.append(period.spread + period.contrasts @ design.gain)
            steps.append(pairs.into @ carried[-1])
            fresh = period.contrasts @ np.linalg.solve(design.precision, pairs.contrasts_into.T)
            linked.append(carried[-1] @ (covariances[-1] @ steps[-1].T) + fresh)
            covariances.append(pairs.into @ linked[-1])
        return carried, steps, linked, covariances

    def _variances(self, covariances: Sequence[FloatArray]) -> FloatArray:
        """The variances of all questions. Rounding must not make one negative: it is raised to a power."""
        each = [_diagonal(asked, covariance) for asked, covariance in zip(self._questions, covariances[1:], strict=True)]
        return np.maximum(np.concatenate(each), 0.0)

    def _variance_gradient(
        self,
        shares: Sequence[FloatArray],
        carried: Sequence[FloatArray],
        steps: Sequence[FloatArray],
        linked: Sequence[FloatArray],
        covariances: Sequence[FloatArray],
    ) -> FloatArray:
        """`-sum omega Cov(a_i, c)^2` for every weight `i`; `shares` are the `omega` of each period's questions."""
        asked = [q.T @ (share[:, None] * q) for q, share in zip(self._questions, shares, strict=True)]
        later = [asked[-1]]
        for step, own in zip(steps[:0:-1], asked[-2::-1], strict=True):
            later.append(own + step.T @ later[-1] @ step)
        later.reverse()
        gradients, before = [], np.zeros((1, 1))
        for t, (step, covariance) in enumerate(zip(steps, covariances[1:], strict=True)):
            gradients.append(-_diagonal(carried[t], before) - _diagonal(linked[t], later[t]))
            before = step @ before @ step.T
            gradients.append(-_diagonal(self._measured[t], before + covariance @ later[t] @ covariance))
            before += covariance @ asked[t] @ covariance
        return np.concatenate(gradients)


def _diagonal(rows: FloatArray, form: FloatArray) -> FloatArray:
    """The diagonal of `rows form rows'`."""
    diagonal: FloatArray = ((rows @ form) * rows).sum(axis=1)
    return diagonal


def _half_distances(form: FloatArray) -> FloatArray:
    """Half of the quadratic form at the difference of every two unit vectors."""
    own = np.diagonal(form) / 2
    halves: FloatArray = own[:, None] + own - form
    return halves


class _Pairs:
    """Pairs of transitions of one period, by the pairs of states that they leave and enter."""

    def __init__(self, period: Transitions) -> None:
        size = len(period)
        self.into = np.zeros((len(period.after), size))
        """`A`: 1 where a transition enters a state."""
        self.into[period.target, np.arange(size)] = 1
        self.contrasts_into = self.into @ period.contrasts
        self.same = np.arange(size), np.arange(size)
        self._from = np.zeros((len(period.before), size))
        self._from[period.source, np.arange(size)] = 1
        self._sources = period.source[:, None] * len(period.before) + period.source
        self._targets = period.target[:, None] * len(period.after) + period.target
        self._first = np.searchsorted(period.source, np.arange(len(period.before)))

    def by_source(self, states: FloatArray) -> FloatArray:
        """For each pair of transitions, the value of the pair of states that it leaves."""
        return states.take(self._sources)

    def by_target(self, states: FloatArray) -> FloatArray:
        """For each pair of transitions, the value of the pair of states that it enters."""
        return states.take(self._targets)

    def entering(self, values: FloatArray) -> FloatArray:
        """Sums over the pairs of transitions that enter each pair of states."""
        sums: FloatArray = self.into @ values @ self.into.T
        return sums

    def leaving(self, values: FloatArray) -> FloatArray:
        """Sums over the pairs of transitions that leave each pair of states."""
        sums: FloatArray = self._from @ values @ self._from.T
        return sums

    def largest_leaving(self, values: FloatArray) -> FloatArray:
        """The largest value of the pairs of transitions that leave each pair of states."""
        rows = np.maximum.reduceat(values, self._first, axis=0)
        largest: FloatArray = np.maximum.reduceat(rows, self._first, axis=1)
        return largest
