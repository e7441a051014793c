"""How many people are present in an open study, and how many entered and left, from a `History`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from streamproc.panel.series import History, named_query, series
from streamproc.releases.query import Entered, Left, Present, Query

COUNT_QUERIES: Mapping[str, Query] = {"present": Present(), "entered": Entered(), "left": Left()}
"""The queries that ask for a number of people, by their names."""


@dataclass(frozen=True)
class Estimate:
    """An estimated number of real people, with its 95% interval."""

    value: float
    """The number of synthetic people, which follows the estimate."""
    stderr: float
    low: float
    high: float


def last_people_estimates(history: History) -> dict[str, Estimate]:
    """How many people are present after the last period, and how many entered and left in it."""
    found = {}
    for name in COUNT_QUERIES:
        last = series(history, named_query(history.contract, name), history.period)
        found[name] = Estimate(last.value[-1], last.stderr[-1], last.low[-1], last.high[-1])
    return found
