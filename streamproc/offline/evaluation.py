"""The rows of `errors.csv`: every answer of every run with the truth. They are as private as the panel itself.

Answers are shares of the `n` people. Those of an open study, which has no `n`, are numbers of people. The question, the
truth and the standard error are the same in every run, so they are computed once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from streamproc.offline.replay import ReplayResult, Tallies
from streamproc.privacy.types import FloatArray, IntArray, Period
from streamproc.releases.kind import Contract
from streamproc.releases.query import LEVEL, interval, quantile
from streamproc.releases.step import Step

HEADER = (
    "# PRIVATE: holds the true shares of the panel beside the released ones. Do not publish.\n"
    "run,release,period,query,truth,estimate,stderr,low,high\n"
)


@dataclass(frozen=True, eq=False)
class Questions:
    """Every bin (window) or every "at least `b`" (cumulative) of a release at every period, in the order of the file."""

    contract: Contract
    truth: FloatArray
    """The true answers, as shares of the `n` people; in people in an open study, like every other value."""
    stderr: FloatArray
    """Standard errors of the unclamped estimates, as shares of `n`."""
    cells: Sequence[tuple[str, str]]
    """The text of each row from `release` to `truth`, and that of `stderr`."""


@dataclass(frozen=True, eq=False)
class Answers:
    """The answers of one run to `Questions`, as shares of `n`. They equal those of `Panel.fraction`.

    Those of an open study are in people, and equal those of `Panel.people`.
    """

    estimate: FloatArray
    low: FloatArray
    high: FloatArray


def questions_of(contract: Contract, tallies: Tallies) -> Questions:
    """All questions to a release, with their true answers from the exact tallies of every period."""
    periods = [Period(period) for period in range(contract.first_column, len(tallies) + 1)]
    true_counts = contract.true_counts([tally[contract.name] for tally in tallies])
    asked = [(period, contract.query_of(label)) for period in periods for label in contract.labels(period)]
    stderr = np.concatenate([contract.count_stderrs(period) for period in periods])
    return _questions(contract, asked, np.concatenate(true_counts), stderr)


def _questions(contract: Contract, asked: Sequence[tuple[int, str]], people: IntArray, stderr: FloatArray) -> Questions:
    """Make `Questions` from exact counts and standard errors, both in people."""
    truth, stderr = people / _divisor(contract), stderr / _divisor(contract)
    cells = [
        (f"{contract.name},{period},{_quoted(query)},{true!r}", repr(error))
        for (period, query), true, error in zip(asked, truth.tolist(), stderr.tolist(), strict=True)
    ]
    return Questions(contract, truth, stderr, cells)


def _divisor(contract: Contract) -> int:
    """The number of people by which counts are divided: `n`, or 1 in an open study, whose answers are in people."""
    return 1 if contract.is_open else contract.n


def _quoted(cell: str) -> str:
    return '"' + cell.replace('"', '""') + '"' if "," in cell or '"' in cell else cell


def answers_of(questions: Questions, steps: Sequence[Step]) -> Answers:
    """The answers of one run, whose `steps` of this release are given for every period.

    A cumulative answer comes from the released counts, and its interval is centred on the unclamped estimate and extended
    to hold the answer.
    """
    contract, half = questions.contract, quantile(LEVEL) * questions.stderr
    debiased = [step.counts - contract.padding(step.period) for step in steps if step.columns]
    estimate = np.concatenate(debiased) / _divisor(contract)
    unclamped = [step.estimates for step in steps if step.estimates is not None]
    centre = np.concatenate(unclamped) / _divisor(contract) if unclamped else estimate
    return Answers(estimate, *interval(estimate, centre, half))


def rows_of(run: int, questions: Questions, answers: Answers) -> str:
    """The rows of one run and one release, each with its line end. A float that is read back has the same value."""
    columns = (answers.estimate.tolist(), answers.low.tolist(), answers.high.tolist())
    return "".join(
        f"{run},{asked},{estimate!r},{stderr},{low!r},{high!r}\n"
        for (asked, stderr), estimate, low, high in zip(questions.cells, *columns, strict=True)
    )


@dataclass(frozen=True)
class Score:
    """How far answers were from the truth. Scores of several runs add up."""

    answers: int = 0
    squared_error: float = 0.0
    """Sum over all answers, in squared shares of `n`, or in people squared in an open study."""
    covered: int = 0
    """Number of intervals that contain the truth."""

    def __add__(self, other: Score) -> Score:
        squared_error = self.squared_error + other.squared_error
        return Score(self.answers + other.answers, squared_error, self.covered + other.covered)

    @property
    def rms_error(self) -> float:
        """Root mean square error, as a share of `n`, or in people in an open study."""
        return float((self.squared_error / self.answers) ** 0.5)

    @property
    def coverage(self) -> float:
        """Share of the intervals that contain the truth."""
        return self.covered / self.answers


@dataclass(frozen=True, eq=False)
class RunEvaluation:
    """The result of one run: its rows of `errors.csv`, its score in each release and, for run 0, the whole study."""

    rows: bytes
    scores: Mapping[str, Score]
    replayed: ReplayResult | None


@dataclass(frozen=True, eq=False)
class Evaluator:
    """Compares a run with the truth. It is a callable value, so that it can be sent to other processes.

    The process that makes a run formats its rows, which uses every core; the rows are also smaller than a panel.
    """

    questions: Mapping[str, Questions]

    def __call__(self, run: int, replayed: ReplayResult) -> RunEvaluation:
        rows = []
        scores = {}
        for name, questions in self.questions.items():
            answers = answers_of(questions, [period[name] for period in replayed.steps])
            rows.append(rows_of(run, questions, answers))
            scores[name] = score_of(questions, answers)
        return RunEvaluation("".join(rows).encode(), scores, replayed if run == 0 else None)


def score_of(questions: Questions, answers: Answers) -> Score:
    """How far one run's answers to one release are from the truth."""
    errors = answers.estimate - questions.truth
    covered = (answers.low <= questions.truth) & (questions.truth <= answers.high)
    return Score(len(errors), float(errors @ errors), int(np.count_nonzero(covered)))
