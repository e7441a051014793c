"""What is kept of each repetition: small arrays of what an analyst would read off the released panel.

These functions run in other processes, and questions hold functions that cannot be sent there: so each question is named
here, once, and asked where it is needed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from streamproc.offline import ReplayResult
from streamproc.panel import AtLeast, LastSymbols, Panel, count_of, in_a_row
from streamproc.panel.panel import make_answer
from streamproc.privacy.types import FloatArray, Period
from streamproc.releases.window import WindowContract

QUARTERLY: dict[str, LastSymbols] = {
    "at least one month": count_of("1", at_least=1, of=3),
    "at least two months": count_of("1", at_least=2, of=3),
    "two months in a row": in_a_row("1", length=2, of=3),
    "all three months": count_of("1", at_least=3, of=3),
}
"""The paper's four questions: was the household poor in ... of the quarter?"""

BIMONTHLY: dict[str, LastSymbols] = {
    "no work in at least one month": count_of("D", at_least=1, of=2),
    "no work in both months": count_of("D", at_least=2, of=2),
    "found work": LastSymbols("D, then work", 2, lambda window: window[0] == "D" != window[1]),
    "full time in both months": count_of("A", at_least=2, of=2),
}
"""Their like for `actcal`, whose levels are A full time, B long part time, C short part time, D no work."""


@dataclass(frozen=True)
class Questions:
    """Asks a window release; keeps (questions, periods) shares of the real people."""

    which: Literal["quarterly", "bimonthly"]
    periods: tuple[int, ...]

    @property
    def queries(self) -> dict[str, LastSymbols]:
        """By the name that tables and figures show."""
        return QUARTERLY if self.which == "quarterly" else BIMONTHLY

    def __call__(self, run: int, replayed: ReplayResult) -> FloatArray:
        panel = _only(replayed)
        return np.array([[panel.fraction(q, t).value for t in self.periods] for q in self.queries.values()])


def bins(run: int, replayed: ReplayResult) -> FloatArray:
    """Debiased shares of all bins, (periods, m)."""
    return bin_answers(run, replayed)[..., 0]


def bin_answers(run: int, replayed: ReplayResult) -> FloatArray:
    """Debiased share, low and high end of its interval, for all bins: (periods, m, 3)."""
    panel = _only(replayed)
    contract = panel.contract
    assert isinstance(contract, WindowContract)
    one_bin = np.eye(contract.mechanism.bins)
    answers = []
    for period in map(Period, range(contract.mechanism.k, panel.period + 1)):
        counts = panel.counts(period)
        given = [make_answer(contract, "", period, weights, counts, None, 0.95) for weights in one_bin]
        answers.append([(answer.value, answer.low, answer.high) for answer in given])
    return np.array(answers)


def sums(run: int, replayed: ReplayResult) -> FloatArray:
    """Released shares with at least `b` ones at `t`, at `[t-1, b-1]`; zero above the diagonal."""
    panel = _only(replayed)
    shares = np.zeros((panel.period, panel.period))
    for period, steps in enumerate(replayed.steps, start=1):
        shares[period - 1, :period] = steps[panel.contract.name].counts / panel.contract.n
    return shares


@dataclass(frozen=True)
class AtLeastIntervals:
    """Asks a cumulative release for intervals of these weights at all periods: (kinds, weights, periods, low and high).

    Kinds: the interval with the ledger's measurements, that of who has the columns alone, and, for comparison, the plain
    `value +- 1.96 stderr`, which is not offered.
    """

    weights: tuple[int, ...]

    def __call__(self, run: int, replayed: ReplayResult) -> FloatArray:
        panel = _only(replayed)
        without = replace(panel, measurements=None)
        return np.array(
            [[self._of(panel, without, b, t) for t in range(1, panel.period + 1)] for b in self.weights]
        ).transpose(2, 0, 1, 3)

    @staticmethod
    def _of(panel: Panel, without: Panel, b: int, period: int) -> list[tuple[float, float]]:
        known, columns = panel.fraction(AtLeast(b), period), without.fraction(AtLeast(b), period)
        half = 1.96 * known.stderr
        return [(known.low, known.high), (columns.low, columns.high), (known.value - half, known.value + half)]


def _only(replayed: ReplayResult) -> Panel:
    (panel,) = replayed.panels.values()
    return panel
