"""Spells and patterns, which the paper does not have: "six months in a row", now and ever, on both panels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from experiments import subjects
from experiments.answers import Intervals, Together, Values
from experiments.coverage import Coverage
from experiments.report import Settings, percent
from experiments.subjects import SPELL, Subject
from experiments.summaries import Z95, covered, root_mean_square
from experiments.trials import Trial
from streamproc.privacy.types import Period
from streamproc.releases.query import ask
from streamproc.study import Release

RHO = 0.005
LENGTHS = (1, 3, SPELL)
MATCHED = "matched"


@dataclass(frozen=True)
class Accuracy:
    """One line of `kinds.csv`: one question over all periods in which it has an answer. Shares of the people."""

    panel: str
    question: str
    truth: float
    """In the last period."""
    rmse: float
    stderr: float
    """Root mean square of the standard errors of the estimates, which clamping and rounding are not part of."""
    bias: float
    """Mean error in the last period."""
    bias_range: float
    """Half-width of the 95% range of the bias."""
    coverage: Coverage

    @property
    def numbers(self) -> tuple[str | float, ...]:
        """The line as CSV holds it."""
        share = self.coverage.share
        errors = (self.rmse, self.stderr, self.bias, self.bias_range)
        return self.panel, self.question, self.truth, *errors, share.value, share.low, share.high, self.coverage.worst

    @property
    def line(self) -> tuple[str, ...]:
        """The line for people."""
        errors = (percent(self.truth), percent(self.rmse), percent(self.stderr))
        bias = f"{percent(self.bias)} +- {percent(self.bias_range)}"
        return self.panel, self.question, *errors, bias, str(self.coverage.share), f"{self.coverage.worst:.3f}"


def run(settings: Settings) -> None:
    """`kinds.csv`."""
    made = [line for subject in subjects.both_panels(settings) for line in accuracies(settings, subject)]
    errors = ("rmse", "stderr", "bias", "bias_range")
    header = ("panel", "question", "truth", *errors, "covered", "low", "high", "worst_cell")
    settings.csv("kinds.csv", header, [line.numbers for line in made])
    columns = ("panel", "question", "truth at T", "RMSE", "stderr", "bias at T", "covered", "worst cell")
    note = (
        f"In % of people, over all periods; {settings.runs} repetitions, rho {RHO} for each release, replace-one. Stderr: "
        "of the estimate, before clamping. Covered: intervals of level 0.95, with the measurements."
    )
    settings.show("Spells and patterns", columns, [line.line for line in made], note)


def accuracies(settings: Settings, subject: Subject) -> list[Accuracy]:
    """The spell release, then the pattern release."""
    spells = {f"in a spell of at least {length} now": f"spell >= {length}" for length in LENGTHS}
    return [
        *_of_release(settings, subject, subject.spell(), spells),
        *_of_release(settings, subject, subject.pattern(), {f"ever {SPELL} in a row": MATCHED}),
    ]


def _of_release(settings: Settings, subject: Subject, release: Release, asked: dict[str, str]) -> list[Accuracy]:
    questions, periods = tuple(asked.values()), tuple(range(1, subject.horizon + 1))
    trial = Trial.of(release, subject.alphabet, subject.symbols, RHO)
    keep = Together(Values(questions, periods), Intervals(questions))
    kept = trial.repeat(keep, settings.runs, f"{subject.name}: {release.kind}")
    shape = (len(kept), len(questions), len(periods))
    cells = len(questions) * len(periods)
    values, intervals = kept[:, :cells].reshape(shape), kept[:, cells:].reshape(len(kept), 3, *shape[1:], 2)[:, 0]
    truths = trial.truths(questions, periods)
    made = []
    for row, (label, question) in enumerate(asked.items()):
        query, truth = ask(question), truths[row]
        known = ~np.isnan(truth)
        stderrs = [
            trial.contract.stderr(trial.contract.query_weights(query, Period(t)), Period(t)) for t in periods if known[t - 1]
        ]
        last = values[:, row, -1] - truth[-1]
        spread = Z95 * float(last.std()) / len(last) ** 0.5
        holds = covered(intervals[:, row, known], truth[known])
        made.append(
            Accuracy(
                subject.name,
                label,
                float(truth[-1]),
                root_mean_square(values[:, row, known], truth[known]),
                float(np.sqrt(np.mean(np.square(stderrs)))) / trial.contract.n,
                float(last.mean()),
                spread,
                Coverage.of(label, subject.name, holds),
            )
        )
    return made
