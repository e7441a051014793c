"""How far a run's answers are from the truth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from streamproc.replay.errors_table import Answers, Questions, answers_of, rows_of
from streamproc.replay.study import Replayed


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
class Examined:
    """What is kept of one run: its rows of `errors.csv`, its score in each release, and of run 0 the whole study."""

    rows: bytes
    scores: Mapping[str, Score]
    replayed: Replayed | None


@dataclass(frozen=True, eq=False)
class Examine:
    """Compares a run with the truth. A value with a call, so that it can be sent to other processes.

    Rows are written where the run is made: on every core, and less travels than a panel.
    """

    questions: Mapping[str, Questions]

    def __call__(self, run: int, replayed: Replayed) -> Examined:
        rows = []
        scores = {}
        for name, questions in self.questions.items():
            answers = answers_of(questions, [period[name] for period in replayed.steps])
            rows.append(rows_of(run, questions, answers))
            scores[name] = score_of(questions, answers)
        return Examined("".join(rows).encode(), scores, replayed if run == 0 else None)


def score_of(questions: Questions, answers: Answers) -> Score:
    """How far one run's answers to one release are from the truth."""
    errors = answers.estimate - questions.truth
    covered = (answers.low <= questions.truth) & (questions.truth <= answers.high)
    return Score(len(errors), float(errors @ errors), int(np.count_nonzero(covered)))
