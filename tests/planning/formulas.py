"""A study to plan, and the formulas of docs/privacy.md by arithmetic that shares no code with the plan's."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, combinations, product

import numpy as np
import numpy.typing as npt

from streamproc.planning import QueryPlan, ReleasePlan, StudyPlan
from streamproc.privacy.adjacency import Adjacency
from streamproc.study import CumulativeRelease, WindowRelease
from tests.studies import build_study

N = 23_374
"""People."""

Matrix = npt.NDArray[np.float64]


poverty_study = partial(build_study, name="poverty", horizon=12, rho=0.005, roster="people.txt")


def quarterly(**changes: object) -> WindowRelease:
    return replace(WindowRelease("quarterly", k=3), **changes)  # type: ignore[arg-type]


def months(**changes: object) -> CumulativeRelease:
    weights = {} if changes.get("measure") == "paper" else {"weights": "rule"}
    return replace(CumulativeRelease("months", event=("1",)), **(weights | changes))  # type: ignore[arg-type]


def only(plan: StudyPlan) -> ReleasePlan:
    (release,) = plan.releases
    return release


def named(release: ReleasePlan, name: str) -> QueryPlan:
    (query,) = [query for query in release.queries if query.name == name]
    return query


def paper_window_variance(k: int, horizon: int, adjacency: Adjacency, rho: float) -> float:
    """Noise variance of a bin of a histogram: a history is in one bin of each step, its replacement in another."""
    sensitivity = 2 if adjacency is Adjacency.REPLACE_ONE else 1
    return (horizon - k + 1) * sensitivity / (2 * rho)


@dataclass(frozen=True)
class WindowFlow:
    """The flow mechanism of windows with published weights, from the sums over sets of periods that define it."""

    q: int
    k: int
    weights: Sequence[float]
    """`lambda_t` for the periods with full windows."""
    noise_for: Adjacency

    @property
    def horizon(self) -> int:
        return self.k + len(self.weights) - 1

    def sets(self, first: int, newest: int) -> list[tuple[int, ...]]:
        """The sets of periods from `first` on that end in `newest`."""
        older = range(first, newest)
        chosen = chain.from_iterable(combinations(older, size) for size in range(len(older) + 1))
        return [(*some, newest) for some in chosen]

    def weight(self, periods: tuple[int, ...]) -> float:
        """`w_B`: the sum of the weights of the full windows that contain the set, or its square root."""
        full = enumerate(self.weights, start=self.k)
        total = sum(weight for last, weight in full if last - self.k < periods[0] and periods[-1] <= last)
        return math.sqrt(total) if self.noise_for is Adjacency.ZERO_OUT else total

    def variance(self, period: int, holds: Callable[[tuple[int, ...]], bool]) -> float:
        """Noise variance of the number of people for whose window of `period` something holds."""
        first = max(period - self.k, 0) + 1
        length = period - first + 1
        windows = [window for window in product(range(self.q), repeat=length) if holds(window)]
        variance = 0.0
        for periods in chain.from_iterable(self.sets(first, newest) for newest in range(first, period + 1)):
            noise = self.q ** len(periods) / self.weight(periods)
            for symbols in product(range(self.q), repeat=len(periods)):
                asked = list(zip(periods, symbols, strict=True))
                factor = sum(math.prod(self.q * (window[i - first] == a) - 1 for i, a in asked) for window in windows)
                variance += (factor * float(self.q) ** -(length + len(periods))) ** 2 * noise
        return variance

    def costs(self, adjacency: Adjacency) -> list[float]:
        """The cost after each period: of the worst pair of all histories, or of leaving a history out of every sum."""
        differs = np.array(list(product((False, True), repeat=self.horizon)))
        totals, found = np.zeros(len(differs)), []
        for newest in range(1, self.horizon + 1):
            for periods in self.sets(max(newest - self.k, 0) + 1, newest):
                size, moved = len(periods), differs[:, [i - 1 for i in periods]].sum(axis=1)
                if adjacency is Adjacency.ZERO_OUT:
                    distance = np.full(len(differs), (self.q - 1) ** size / 2)
                else:
                    distance = (self.q - 1.0) ** size - (self.q - 1.0) ** (size - moved) * (-1.0) ** moved
                totals = totals + self.weight(periods) * distance
            found.append(float(totals.max()))
        return found


def tree_counter(horizon: int) -> Matrix:
    """The matrix `C` of the binary tree: the node that ends at `t` is as long as the largest power of 2 that divides `t`."""
    sizes = [max(2**level for level in range(20) if t % 2**level == 0) for t in range(1, horizon + 1)]
    return np.array([[float(t - size < i <= t) for i in range(1, horizon + 1)] for t, size in enumerate(sizes, start=1)])


def tree_gains(horizon: int) -> list[int]:
    """The number of nodes whose sum is the running sum at each time: one for each binary digit 1."""
    return [t.bit_count() for t in range(1, horizon + 1)]


def event_transition(history: Sequence[int], period: int) -> int:
    """The column of `W_t` that a history of 0 and 1 is in: two for each number of earlier events."""
    return 2 * sum(history[: period - 1]) + history[period - 1]


def at_least_variances(matrices: Sequence[npt.NDArray[np.int64]], sigma: float) -> dict[tuple[int, int], float]:
    """The noise variance of "at least `b` events" at period `t`, by `(b, t)`, if all numbers of events are told apart.

    The measurements of all periods and the conservation of flow are as many equations as there are counts of transitions,
    so all counts follow from one dense solution.
    """
    cells = [(t, before, event) for t in range(1, len(matrices) + 1) for before in range(t) for event in (0, 1)]
    place = {cell: i for i, cell in enumerate(cells)}
    measured = np.zeros((len(cells) // 2, len(cells)))
    conserved = np.zeros((len(cells) // 2, len(cells)))
    row = 0
    for t, matrix in enumerate(matrices, start=1):
        start = place[t, 0, 0]
        measured[row : row + t, start : start + 2 * t] = matrix
        for before in range(t):
            conserved[row + before, [place[t, before, 0], place[t, before, 1]]] = 1
            enter = [(t - 1, before - event, event) for event in (0, 1)]
            conserved[row + before, [place[cell] for cell in enter if cell in place]] = -1
        row += t
    solved = np.linalg.inv(np.vstack([measured, conserved]))[:, : len(measured)]
    variances = {}
    for t in range(1, len(matrices) + 1):
        for b in range(1, t + 1):
            counted = solved[[place[cell] for cell in cells if cell[0] == t and cell[1] + cell[2] >= b]].sum(axis=0)
            variances[b, t] = sigma**2 * float(counted @ counted)
    return variances
