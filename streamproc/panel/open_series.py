"""Answers over time of an open study, from a `History`: numbers of people present, entered and left, and shares of people.

A share is among the people whom a question can be asked of, who are estimated too. It is left out of a period in which noise
alone could have made that many people.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from streamproc.panel.ratios import Covariance, is_certain, ratio
from streamproc.panel.series import History, Series, thinned
from streamproc.privacy.types import FloatArray, Period
from streamproc.releases.kind import Contract
from streamproc.releases.query import LEVEL, Entered, Left, Present, Query, interval, quantile
from streamproc.releases.step import NamedQuery

COUNT_QUERIES: Mapping[str, Query] = {"present": Present(), "entered": Entered(), "left": Left()}
"""The queries that ask for a number of people, by their names."""

Unit = Literal["share", "people"]


@dataclass(frozen=True)
class Estimate:
    """An estimated share, or an estimated number of real people, with its 95% interval."""

    value: float
    """From the released counts: the share, or the number, of synthetic people."""
    stderr: float
    low: float
    high: float


def unit_of(query: Query) -> Unit:
    """What a query asks for: a share of people, or a number of people."""
    return "people" if isinstance(query, Present | Entered | Left) else "share"


def estimate(history: History, query: Query, period: int) -> Estimate | None:
    """The answer to a query in a period; None for a share of people of whom there may be none."""
    return _number(history, query, period) if unit_of(query) == "people" else _share(history, query, period)


def last_people_estimates(history: History) -> dict[str, Estimate]:
    """How many people are present after the last period, and how many entered and left in it."""
    return {name: _number(history, query, history.period) for name, query in COUNT_QUERIES.items()}


def open_series(history: History, asked: NamedQuery, first: int = 1, last: int | None = None) -> Series:
    """The answers from period `first` to `last`, thinned as `panel.series.series` does, without those that are None."""
    earliest = max(first, history.contract.first_period(asked.query))
    periods = thinned(earliest, min(last or history.period, history.period))
    found = {period: one for period in periods if (one := estimate(history, asked.query, period)) is not None}
    columns = ([getattr(one, key) for one in found.values()] for key in ("value", "stderr", "low", "high"))
    return Series(list(found), *columns)


def _number(history: History, query: Query, period: int) -> Estimate:
    weights, stderr = _number_noise(history.contract, query, history.contract.steady_period(Period(period)))
    value, centre = _sums(history, weights, period)
    low, high = interval(value, centre, quantile(LEVEL) * stderr)
    return Estimate(value, stderr, float(low), float(high))


def _share(history: History, query: Query, period: int) -> Estimate | None:
    weights, among, covariance = _share_noise(history.contract, query, history.contract.steady_period(Period(period)))
    (part, part_centre), (whole, whole_centre) = _sums(history, weights, period), _sums(history, among, period)
    if whole <= 0 or not is_certain(whole_centre, covariance.denominator, LEVEL):
        return None
    found, value = ratio(part_centre, whole_centre, covariance, LEVEL), part / whole
    return Estimate(value, found.stderr, min(found.low, value), max(found.high, value))


def _sums(history: History, weights: FloatArray, period: int) -> tuple[float, float]:
    """A weighted sum of the released counts of a period, and of the estimates before steering."""
    place = history.place_of(period)
    counts, estimates = history.counts[place], history.estimates[place]
    return float(weights @ counts), float(weights @ (counts if estimates is None else estimates))


@lru_cache(maxsize=256)
def _number_noise(contract: Contract, query: Query, period: Period) -> tuple[FloatArray, float]:
    """The weights of a number of people and its standard error."""
    weights = contract.query_weights(query, period)
    return weights, contract.stderr(weights, period)


@lru_cache(maxsize=1024)
def _share_noise(contract: Contract, query: Query, period: Period) -> tuple[FloatArray, FloatArray, Covariance]:
    """The weights of a share, those of the people among whom it is, and the covariance of both."""
    weights, among = contract.query_weights(query, period), contract.denominator_weights(query, period)
    assert among is not None, "a share of an open study is among people who are counted"
    pairs = ((weights, weights), (weights, among), (among, among))
    return weights, among, Covariance(*(contract.covariance(one, period, other, period) for one, other in pairs))
