"""How many people were present, entered and left in each period of an open study, as every release of it estimates.

These are numbers of people, not shares, since the number of people who take part is itself protected.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from streamproc.panel.series import History, Series, thinned
from streamproc.privacy.types import Period
from streamproc.releases.query import LEVEL, Entered, Left, Present, Query, interval, quantile
from streamproc.releases.step import NamedQuery

COUNT_QUERIES: Mapping[str, Query] = {"present": Present(), "entered": Entered(), "left": Left()}
"""The queries that ask for a number of people, by their names."""


@dataclass(frozen=True)
class PeopleEstimate:
    """An estimated number of real people, with its 95% interval."""

    value: float
    """The released count: synthetic people."""
    stderr: float
    low: float
    high: float


def is_count(query: Query) -> bool:
    """Whether a query asks for a number of people instead of a share."""
    return isinstance(query, Present | Entered | Left)


def people_estimate(history: History, query: Query, period: int) -> PeopleEstimate:
    """The answer to one of `COUNT_QUERIES` in a period. The interval is centred on the estimate before steering."""
    contract, place = history.contract, history.place_of(period)
    steady = contract.steady_period(Period(period))
    weights = contract.query_weights(query, steady)
    value, estimates = float(weights @ history.counts[place]), history.estimates[place]
    stderr = contract.stderr(weights, steady)
    low, high = interval(value, value if estimates is None else float(weights @ estimates), quantile(LEVEL) * stderr)
    return PeopleEstimate(value, stderr, float(low), float(high))


def last_people_estimates(history: History) -> dict[str, PeopleEstimate]:
    """Who is present after the last period, and who entered and left in it."""
    return {name: people_estimate(history, query, history.period) for name, query in COUNT_QUERIES.items()}


def people_series(history: History, asked: NamedQuery, first: int = 1, last: int | None = None) -> Series:
    """The numbers of people from period `first` to `last`, thinned as `panel.series.series` does."""
    periods: Sequence[int] = thinned(max(first, 1), min(last or history.period, history.period))
    found = [people_estimate(history, asked.query, period) for period in periods]
    columns = ([getattr(one, key) for one in found] for key in ("value", "stderr", "low", "high"))
    return Series(periods, *columns)
