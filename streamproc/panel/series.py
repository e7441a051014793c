"""Answers over time: shares of the real people with their 95% intervals, as `Panel.fraction` gives them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

import numpy as np

from streamproc.panel.answer import Answer, make_answer
from streamproc.panel.history import History
from streamproc.privacy.types import FloatArray, Period
from streamproc.releases.accuracy import LEVEL
from streamproc.releases.kind import Contract, NamedQuery

MAX_POINTS = 400
"""Periods of one series; a longer one is thinned evenly, and always has its first and its last period."""

MAX_SUGGESTIONS = 24
"""Queries that a page offers by itself; any other may be asked."""


@dataclass(frozen=True)
class Series:
    """The answers to one query, as shares of `n`, one for each of `periods`."""

    periods: Sequence[int]
    value: Sequence[float]
    stderr: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]


@lru_cache(maxsize=256)
def named_query(contract: Contract, name: str) -> NamedQuery:
    """The query of this name; raises UnsupportedQuery, which says what the release can answer."""
    return contract.parse_query(name)


def suggested_queries(contract: Contract) -> list[NamedQuery]:
    """Queries that a reader is likely to ask, the most telling first."""
    return [named_query(contract, name) for name in islice(contract.suggested_queries(), MAX_SUGGESTIONS)]


def series(history: History, asked: NamedQuery, first: int = 1, last: int | None = None) -> Series:
    """The answers from period `first` to `last`, thinned to `MAX_POINTS`."""
    earliest = max(first, history.contract.first_period(asked.query))
    periods = _thinned(earliest, min(last or history.period, history.period))
    answers = [_answer(history, asked, Period(period)) for period in periods]
    return Series(
        periods,
        [answer.value for answer in answers],
        [answer.stderr for answer in answers],
        [answer.low for answer in answers],
        [answer.high for answer in answers],
    )


def _thinned(first: int, last: int) -> list[int]:
    if last < first:
        return []
    evenly = np.linspace(first, last, min(last - first + 1, MAX_POINTS))
    return sorted({round(period) for period in evenly.tolist()})


def _answer(history: History, asked: NamedQuery, period: Period) -> Answer:
    contract, place = history.contract, history.place_of(period)
    steady = contract.steady_period(period)
    weights, stderr = _weights(contract, asked.name, steady), _stderr(contract, asked.name, steady)
    counts, estimates = history.counts[place], history.estimates[place]
    return make_answer(contract, asked.name, period, weights, counts, estimates, LEVEL, stderr=stderr)


@lru_cache(maxsize=64)
def _weights(contract: Contract, name: str, period: Period) -> FloatArray:
    return contract.query_weights(named_query(contract, name).query, period)


@lru_cache(maxsize=1024)
def _stderr(contract: Contract, name: str, period: Period) -> float:
    return contract.stderr(_weights(contract, name, period), period)
