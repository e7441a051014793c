"""What is kept of each repetition: small arrays of what an analyst would read off the released panel.

These values are called in other processes, so they hold questions as text, which can be sent there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from experiments.trials import Keep
from streamproc.offline import ReplayResult
from streamproc.panel import Panel
from streamproc.privacy.types import FloatArray, Period
from streamproc.releases.kind import Contract
from streamproc.releases.query import LEVEL, ask, quantile
from streamproc.releases.step import Step


@dataclass(frozen=True)
class Cells:
    """Keeps the released shares of all counts of all periods from `first` on, without padding, in one row."""

    first: int

    def __call__(self, run: int, replayed: ReplayResult) -> FloatArray:
        contract, steps = _contract_and_steps(replayed)
        kept = [step.counts - contract.padding(step.period) for step in steps if step.period >= self.first]
        return np.concatenate(kept) / contract.n


@dataclass(frozen=True)
class Values:
    """Keeps the answers to questions at periods, (questions, periods); NaN where the release has no answer yet."""

    questions: tuple[str, ...]
    periods: tuple[int, ...]

    def __call__(self, run: int, replayed: ReplayResult) -> FloatArray:
        contract, steps = _contract_and_steps(replayed)
        kept = np.full((len(self.questions), len(self.periods)), np.nan)
        for row, query in enumerate(map(ask, self.questions)):
            for column, period in enumerate(map(Period, self.periods)):
                if period >= contract.first_period(query):
                    debiased = steps[period - 1].counts - contract.padding(period)
                    kept[row, column] = contract.query_weights(query, period) @ debiased / contract.n
        return kept


@dataclass(frozen=True)
class Intervals:
    """Keeps the 95% intervals of questions at all periods: (ways, questions, periods, low and high).

    Ways: the interval of `Panel.fraction` with the measurements, that of a reader who has the columns alone, and, for
    comparison, the plain `value +- 1.96 stderr`, which is not offered. NaN where the release has no answer yet.
    """

    questions: tuple[str, ...]

    def __call__(self, run: int, replayed: ReplayResult) -> FloatArray:
        panel = _panel(replayed)
        without = replace(panel, measurements=None)
        kept = np.full((3, len(self.questions), panel.period, 2), np.nan)
        for row, query in enumerate(map(ask, self.questions)):
            for period in range(panel.contract.first_period(query), panel.period + 1):
                known, columns = panel.fraction(query, period), without.fraction(query, period)
                half = quantile(LEVEL) * known.stderr
                kept[:, row, period - 1] = [
                    (known.low, known.high),
                    (columns.low, columns.high),
                    (known.value - half, known.value + half),
                ]
        return kept


@dataclass(frozen=True)
class Differences:
    """Keeps 95% intervals of the differences between two periods: (questions, pairs of periods, low and high).

    A pair is (earlier, later). The centre is the difference of the estimates (the released counts where these are the
    estimates up to rounding), and its variance follows from `Contract.covariance`. NaN where there is no answer yet.
    """

    questions: tuple[str, ...]
    pairs: tuple[tuple[int, int], ...]

    def __call__(self, run: int, replayed: ReplayResult) -> FloatArray:
        contract, steps = _contract_and_steps(replayed)
        kept = np.full((len(self.questions), len(self.pairs), 2), np.nan)
        for row, query in enumerate(map(ask, self.questions)):
            for column, (earlier, later) in enumerate((Period(s), Period(t)) for s, t in self.pairs):
                if earlier < contract.first_period(query):
                    continue
                new, old = contract.query_weights(query, later), contract.query_weights(query, earlier)
                centre = new @ _estimates(steps[later - 1]) - old @ _estimates(steps[earlier - 1])
                # Padding is the same in both where both windows are full; before that it differs.
                centre -= contract.padding(later) * new.sum() - contract.padding(earlier) * old.sum()
                variance = contract.covariance(new, later, new, later) + contract.covariance(old, earlier, old, earlier)
                variance -= 2 * contract.covariance(new, later, old, earlier)
                half = quantile(LEVEL) * max(variance, 0.0) ** 0.5
                kept[row, column] = (centre - half) / contract.n, (centre + half) / contract.n
        return kept


@dataclass(frozen=True)
class Together:
    """Keeps what two others keep, flattened, one after the other."""

    first: Keep
    second: Keep

    def __call__(self, run: int, replayed: ReplayResult) -> FloatArray:
        return np.concatenate([self.first(run, replayed).ravel(), self.second(run, replayed).ravel()])


def _estimates(step: Step) -> FloatArray:
    return step.counts.astype(float) if step.estimates is None else step.estimates


def _panel(replayed: ReplayResult) -> Panel:
    (panel,) = replayed.panels.values()
    return panel


def _contract_and_steps(replayed: ReplayResult) -> tuple[Contract, list[Step]]:
    contract = _panel(replayed).contract
    return contract, [steps[contract.name] for steps in replayed.steps]
