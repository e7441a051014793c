"""Answers over time: shares of the real people with their 95% intervals, as `Panel.fraction` gives them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from streamproc.panel.accuracy import quantile
from streamproc.panel.history import History
from streamproc.panel.question import CountQuestion, Question, WindowQuestion
from streamproc.privacy.types import Period

LEVEL = 0.95
MAX_POINTS = 400
"""Periods of one series; of a longer one every so-manieth is given, and always the first and the last."""


@dataclass(frozen=True)
class Series:
    """One question's answers, as shares of `n`, one for each of `periods`."""

    periods: Sequence[int]
    value: Sequence[float]
    stderr: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]


def series(history: History, asked: Question, first: int = 1, last: int | None = None) -> Series:
    """The answers from period `first` to `last`, thinned to `MOST_POINTS`."""
    periods = _thinned(max(first, asked.first), min(last or history.period, history.period))
    points = [_answer(history, asked, period) for period in periods]
    columns = zip(*points, strict=True) if points else ((), (), (), ())
    return Series(periods, *(list(column) for column in columns))


def _thinned(first: int, last: int) -> list[int]:
    if last < first:
        return []
    evenly = np.linspace(first, last, min(last - first + 1, MAX_POINTS))
    return sorted({round(period) for period in evenly.tolist()})


def _answer(history: History, asked: Question, period: int) -> tuple[float, float, float, float]:
    people = history.contract.n or 1  # a study of nobody has shares of nobody, all 0
    value, centre, stderr = _in_people(history, asked, period)
    half = quantile(LEVEL) * stderr
    low, high = min(centre - half, value), max(centre + half, value)
    return value / people, stderr / people, low / people, high / people


def _in_people(history: History, asked: Question, period: int) -> tuple[float, float, float]:
    """The value, what its interval is centred on, and the standard error."""
    counts = history.counts_at(period)
    if isinstance(asked, WindowQuestion):
        codes = asked.codes(period)
        value = float(counts[codes].sum() - asked.contract.n_pad * len(codes))
        return value, value, asked.stderr(period)
    assert isinstance(asked, CountQuestion)
    b = asked.query.b
    # A released count is a ratchet: the interval is around the estimate before it was clamped.
    centre = float(history.unclamped[period - 1][b - 1])
    return float(counts[b - 1]), centre, asked.contract.mechanism.variance(b, Period(period)) ** 0.5
