"""Answers with error bars: the one place where a value, its standard error and its interval are computed."""

from __future__ import annotations

from dataclasses import dataclass

from streamproc.privacy.types import FloatArray, IntArray, Period
from streamproc.releases.accuracy import interval, quantile
from streamproc.releases.kind import Contract


@dataclass(frozen=True)
class Answer:
    """An estimated share of the `n` real people, in `[0, 1]` up to noise.

    >>> str(Answer("1 in at least 2 of the last 3", Period(6), 0.143, 0.0043, 0.1345, 0.1514, 0.95))
    '14.3% (13.4% to 15.1%)'
    """

    query: str
    period: Period
    value: float
    stderr: float
    """Standard error of the unclamped estimate."""
    low: float
    high: float
    """The interval covers the truth with probability `level`, as nearly as docs/privacy.md says."""
    level: float
    clamped: bool | None = None
    """Whether clamping moved a count that the value is made of, so that the value is biased and, of a window release, the
    interval too narrow. None if the panel has no measurements, without which it cannot be known."""

    def __str__(self) -> str:
        return f"{self.value:.1%} ({self.low:.1%} to {self.high:.1%})"


def make_answer(
    contract: Contract,
    name: str,
    period: Period,
    weights: FloatArray,
    counts: IntArray,
    estimates: FloatArray | None,
    level: float,
    *,
    stderr: float | None = None,
    half: float | None = None,
    clamped: bool | None = None,
) -> Answer:
    """The answer to a query that weighs the released counts of a period by `weights`.

    The padding of each count is subtracted, and what is left is divided by `n`, not by the number of synthetic people. The
    interval is centred on the unclamped `estimates` where the release has these, else on the value. `stderr` and `half` (in
    people) are computed unless they are given: the standard error, and half of the width of the interval.
    """
    value = float(weights @ counts) - contract.n_pad * float(weights.sum())
    centre = value if estimates is None else float(weights @ estimates)
    error = contract.stderr(weights, period) if stderr is None else stderr
    low, high = interval(value, centre, quantile(level) * error if half is None else half)
    n = contract.n
    return Answer(name, period, value / n, error / n, float(low) / n, float(high) / n, level, clamped)
