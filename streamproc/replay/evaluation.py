"""The rows of `errors.csv`: every answer of every run beside the truth. They are as private as the panel itself.

What does not change from run to run (question, truth, standard error) is worked out once for all runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from streamproc.panel.accuracy import quantile, window_stderr
from streamproc.privacy.cumulative import CumulativeMechanism
from streamproc.privacy.types import FloatArray, IntArray, Period
from streamproc.releases.contract import Contract, CumulativeContract, WindowContract
from streamproc.releases.step import Step
from streamproc.replay.replay import ReplayResult, Tallies
from streamproc.study import bin_labels

_Number = TypeVar("_Number", np.int64, np.float64)

HEADER = (
    "# PRIVATE: holds the true shares of the panel beside the released ones. Do not publish.\n"
    "run,release,period,query,truth,estimate,stderr,low,high\n"
)

LEVEL = 0.95
"""How often an interval covers the truth, at least."""


@dataclass(frozen=True, eq=False)
class Questions:
    """Every bin (window) or every "at least `b`" (cumulative) of a release at every period, in the order of the file."""

    contract: Contract
    truth: FloatArray
    """Shares of the `n` people."""
    stderr: FloatArray
    """Of the unclamped estimate; shares of `n`."""
    cells: Sequence[tuple[str, str]]
    """The cells of a row from `release` to `truth`, and the one of `stderr`, as they are written."""


@dataclass(frozen=True, eq=False)
class Answers:
    """What one run answers to `Questions`, as shares of `n`: as `Panel.fraction` does, but all at once."""

    estimate: FloatArray
    low: FloatArray
    high: FloatArray


def questions_of(contract: Contract, tallies: Tallies) -> Questions:
    """All questions to a release, with their true answers from the exact tallies of every period."""
    counts = [tally[contract.name] for tally in tallies]
    return _of_window(contract, counts) if isinstance(contract, WindowContract) else _of_cumulative(contract, counts)


def _of_window(contract: WindowContract, counts: Sequence[IntArray]) -> Questions:
    mechanism = contract.mechanism
    labels = bin_labels(contract.alphabet, mechanism.k)
    periods = range(mechanism.k, mechanism.horizon + 1)
    asked = [(period, f"bin:{label}") for period in periods for label in labels]
    # Renaming symbols maps any bin to any other, so all have the same error.
    one_bin = np.eye(1, mechanism.bins).ravel()
    stderr = np.repeat([window_stderr(mechanism, one_bin, Period(period)) for period in periods], mechanism.bins)
    return _questions(contract, asked, np.concatenate(counts[mechanism.k - 1 :]), stderr)


def _of_cumulative(contract: CumulativeContract, counts: Sequence[IntArray]) -> Questions:
    periods = range(1, contract.mechanism.horizon + 1)
    asked = [(period, f"atleast:{b}") for period in periods for b in range(1, period + 1)]
    variances = [contract.mechanism.variance(b, Period(period)) for period in periods for b in range(1, period + 1)]
    return _questions(contract, asked, _up_to_now(np.cumsum(counts, axis=0)), np.sqrt(variances))


def _questions(contract: Contract, asked: Sequence[tuple[int, str]], people: IntArray, stderr: FloatArray) -> Questions:
    """Both arrays are in people."""
    truth, stderr = people / contract.n, stderr / contract.n
    cells = [
        (f"{contract.name},{period},{_quoted(query)},{true!r}", repr(error))
        for (period, query), true, error in zip(asked, truth.tolist(), stderr.tolist(), strict=True)
    ]
    return Questions(contract, truth, stderr, cells)


def _quoted(cell: str) -> str:
    return '"' + cell.replace('"', '""') + '"' if "," in cell or '"' in cell else cell


def answers_of(questions: Questions, steps: Sequence[Step]) -> Answers:
    """The answers of one run, whose `steps` of this release are given for every period.

    A cumulative answer is the panel's, but its interval is centred on the unclamped estimate and widened to hold it.
    """
    contract, half = questions.contract, quantile(LEVEL) * questions.stderr
    counts = np.concatenate([step.bins for step in steps])
    if isinstance(contract, WindowContract):
        estimate = centre = (counts - contract.n_pad) / contract.n
    else:
        estimate, centre = counts / contract.n, _unclamped(contract.mechanism, steps) / contract.n
    return Answers(estimate, np.minimum(centre - half, estimate), np.maximum(centre + half, estimate))


def _unclamped(mechanism: CumulativeMechanism, steps: Sequence[Step]) -> FloatArray:
    """Unclamped estimates of `S_1 .. S_t` for `t = 1..T`, one period after the other."""
    horizon = mechanism.horizon
    sums = np.zeros((horizon, horizon))
    for b in range(1, horizon + 1):
        measured = np.concatenate([step.measurements[b - 1] for step in steps[b - 1 :]])
        sums[b - 1 :, b - 1] = mechanism.counter.answers[: horizon - b + 1, : len(measured)] @ measured
    return _up_to_now(sums)


def _up_to_now(sums: npt.NDArray[_Number]) -> npt.NDArray[_Number]:
    """From a row per period and a column per weight, those with `b <= t`, one period after the other."""
    return sums[np.tril_indices(len(sums))]


def rows_of(run: int, questions: Questions, answers: Answers) -> str:
    """The rows of one run and one release, each with its line end. Floats are written so that they read back the same."""
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
    """Sum over all answers, in squared shares of `n`."""
    covered: int = 0
    """How many intervals held the truth."""

    def __add__(self, other: Score) -> Score:
        squared_error = self.squared_error + other.squared_error
        return Score(self.answers + other.answers, squared_error, self.covered + other.covered)

    @property
    def rms_error(self) -> float:
        """Root mean square error, as a share of `n`."""
        return float((self.squared_error / self.answers) ** 0.5)

    @property
    def coverage(self) -> float:
        """Share of the intervals that held the truth."""
        return self.covered / self.answers


@dataclass(frozen=True, eq=False)
class RunEvaluation:
    """What is kept of one run: its rows of `errors.csv`, its score in each release, and of run 0 the whole study."""

    rows: bytes
    scores: Mapping[str, Score]
    replayed: ReplayResult | None


@dataclass(frozen=True, eq=False)
class Evaluator:
    """Compares a run with the truth. A value with a call, so that it can be sent to other processes.

    Rows are written where the run is made: on every core, and less travels than a panel.
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
