"""Answers over time: the counts of a release in each period, and the answers to a query in each period.

A `History` holds the released counts of every period without the columns, so a reader of a long study need not store
them. A `Series` holds shares of the real people with their 95% intervals, as `Panel.fraction` gives them, or numbers of
people, as `Panel.people` does, if the query asks for a number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import islice

import numpy as np

from streamproc.errors import UnsupportedQuery
from streamproc.panel.panel import Answer, Denominator, Unit, denominator_of, make_answer
from streamproc.privacy.types import FloatArray, IntArray, Period
from streamproc.releases.kind import Contract
from streamproc.releases.open_flow import FLOW_QUERIES
from streamproc.releases.query import LEVEL
from streamproc.releases.row_assignment import Codes
from streamproc.releases.step import Column, ColumnCounter, Estimator, Measurements, NamedQuery, PanelState


@dataclass(frozen=True, eq=False)
class History:
    """A release as far as it is published."""

    contract: Contract
    rows: int
    """Number of synthetic people, in an open study also those who have left."""
    period: Period
    """The last period whose column is released."""
    counts: tuple[IntArray, ...]
    """The released counts, padding included, of every period from `first` or `contract.first_column` on."""
    estimates: tuple[FloatArray | None, ...]
    """The estimates before clamping, in people, of the same periods; None where the released counts are the estimates."""
    first: Period = Period(1)
    """The first period that was counted. It is not 1 for a reader who started at a summary."""

    def place_of(self, period: int) -> int:
        """The index of a period in `counts`. Periods up to `first_column`, which are released together, share index 0."""
        return max(period - max(self.contract.first_column, self.first), 0)


class HistoryBuilder:
    """Counts the columns of a release. Stores a small number for each synthetic person, and the measurements."""

    def __init__(self, contract: Contract, panel: PanelState | None = None) -> None:
        """With `panel`, the next column is the first one after it. Raises ValueError if it cannot be of the contract."""
        self._contract = contract
        self._counter: ColumnCounter
        self.estimator: Estimator | None
        """Estimates from the measurements so far; None if the released counts are the estimates up to rounding."""
        if panel is None:
            self._counter, self.estimator = contract.new_counter(), contract.new_estimator()
        else:
            self._counter, self.estimator = contract.continue_from(panel)
        self._before = Period(0) if panel is None else panel.period
        """The last period that is not counted here."""
        self._period = self._before
        self._counts: list[IntArray] = []
        self._estimates: list[FloatArray | None] = []

    @property
    def codes(self) -> Codes:
        """A small number for each synthetic person, which is all that later counts depend on."""
        return self._counter.codes

    @property
    def rows(self) -> int:
        """Number of synthetic people so far, in an open study also those who have left."""
        return self._counter.rows

    def add(self, column: Column, measured: Measurements) -> IntArray | None:
        """Add the next period's column and the noisy integers that it was made from.

        Returns the counts of the period; None if it has none yet.
        """
        self._period = Period(self._period + 1)
        if self.estimator is not None:
            self.estimator.add(measured)
        counts = self._counter.add(column)
        if counts is None:
            return None
        self._counts.append(counts)
        self._estimates.append(None if self.estimator is None else self.estimator.estimates())
        return counts

    def panel_state(self) -> PanelState:
        """The panel of an open study after the last column that was added. Raises ValueError in a closed one."""
        if self.estimator is None:
            raise ValueError("a release without an estimator has no summaries")
        return self._contract.panel_state_of(self._period, self._counter, self.estimator)

    def history(self) -> History:
        """The history so far."""
        counts, estimates = tuple(self._counts), tuple(self._estimates)
        return History(self._contract, self.rows, self._period, counts, estimates, Period(self._before + 1))


MAX_POINTS = 400
"""Maximum periods of one series. A longer one is thinned evenly, and keeps its first and its last period."""

MAX_SUGGESTIONS = 24
"""Maximum number of queries that a page suggests; a reader may ask any other."""


@dataclass(frozen=True)
class Series:
    """The answers to one query, one for each of `periods`.

    In an open study, periods in which noise could have made the number of people among whom it asks are left out.
    """

    periods: Sequence[int]
    value: Sequence[float]
    stderr: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]
    unit: Unit = "share"


@lru_cache(maxsize=256)
def named_query(contract: Contract, name: str) -> NamedQuery:
    """The query of this name; raises UnsupportedQuery, which says what the release can answer."""
    return contract.parse_query(name)


def suggested_queries(contract: Contract) -> list[NamedQuery]:
    """Queries that a reader is likely to ask, the most informative first."""
    return [named_query(contract, name) for name in islice(contract.suggested_queries(), MAX_SUGGESTIONS)]


def series(history: History, asked: NamedQuery, first: int = 1, last: int | None = None) -> Series:
    """The answers from period `first` to `last`, thinned to `MAX_POINTS`."""
    earliest = max(first, history.first, history.contract.first_period(asked.query))
    periods = _thinned(earliest, min(last or history.period, history.period))
    answers = [answer for period in periods if (answer := _answer(history, asked, Period(period))) is not None]
    return Series(
        [int(answer.period) for answer in answers],
        [answer.value for answer in answers],
        [answer.stderr for answer in answers],
        [answer.low for answer in answers],
        [answer.high for answer in answers],
        _unit(asked),
    )


def last_people_counts(history: History) -> dict[str, Answer]:
    """How many people of an open study are present after the last period, and how many entered and left in it."""
    found = {}
    for known in FLOW_QUERIES:
        answer = _answer(history, known, history.period)
        assert answer is not None, "a number of people has an answer in every period"
        found[known.name] = answer
    return found


def _thinned(first: int, last: int) -> list[int]:
    """The periods from `first` to `last`, at most `MAX_POINTS` of them, evenly spread."""
    if last < first:
        return []
    evenly = np.linspace(first, last, min(last - first + 1, MAX_POINTS))
    return sorted({round(period) for period in evenly.tolist()})


def _answer(history: History, asked: NamedQuery, period: Period) -> Answer | None:
    """The answer in one period; None if the share is among people whom noise could have made."""
    contract, place = history.contract, history.place_of(period)
    steady, unit = contract.steady_period(period), _unit(asked)
    weights, stderr = _weights(contract, asked.name, steady), _stderr(contract, asked.name, steady)
    among = _among(contract, asked.name, steady) if unit == "share" else None
    counts, estimates = history.counts[place], history.estimates[place]
    made = partial(make_answer, contract, asked.name, period, weights, counts, estimates, LEVEL)
    if among is None:
        return made(unit=unit, stderr=stderr)
    try:
        return made(among=among)
    except UnsupportedQuery:
        return None


def _unit(asked: NamedQuery) -> Unit:
    return "people" if asked.query.asks_number else "share"


@lru_cache(maxsize=64)
def _weights(contract: Contract, name: str, period: Period) -> FloatArray:
    return contract.query_weights(named_query(contract, name).query, period)


@lru_cache(maxsize=1024)
def _stderr(contract: Contract, name: str, period: Period) -> float:
    return contract.stderr(_weights(contract, name, period), period)


@lru_cache(maxsize=1024)
def _among(contract: Contract, name: str, period: Period) -> Denominator | None:
    return denominator_of(contract, named_query(contract, name).query, _weights(contract, name, period), period)
