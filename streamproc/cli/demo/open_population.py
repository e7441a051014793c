"""The people of `demo --open`, who are simulated: they sign up and leave for three years.

The true numbers may therefore be printed. They follow from the same rules as those of the gatherers (`PresenceState`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from streamproc.offline.people import MISSING, People
from streamproc.privacy.types import IntArray, Period
from streamproc.releases.kind import Contract
from streamproc.releases.open_presence import NO_REPORT, PresenceState
from streamproc.releases.query import Query
from streamproc.study import Study

MONTHS = 36
TENURE = 12
ABSENT_AFTER = 3

MISSING_SHARE = 0.04
"""Share of the reports of people who still report that are missing."""

STOPS = 0.03
"""Probability that a person reports for the last time in a month, before the tenure ends."""

PRESENT_PER_SIGN_UP = 11
"""About the number of people present for each one who signs up in a month, after the first year."""

PRICE_RISE = range(25, 31)
"""The months in which more people overdraw their accounts."""

_SEED = 2025
"""Seed of the simulation: every run has the same people, and different noise."""


def open_study_text(people: int) -> str:
    """Return the text of the study file; `people` is about the number who are present after the first year."""
    return f"""\
[study]
name = "accounts"            # no horizon: the study ends when its steward says so
alphabet = ["0", "1"]        # 1: overdrew the account this month

[population]
size = {people}              # people present, about; for planning only
open = true                  # people may enter in any month, and leave
tenure = {TENURE}                  # months a person is present at most
absent_after = {ABSENT_AFTER}             # the third missing report in a row means that the person has left
missing = "carry"            # before that, a person without a report counts as in the month before

[privacy]
rho = 0.02                   # for a person's whole participation, however long the study goes on
adjacency = "add-remove"     # whether somebody takes part at all is protected

[[release]]
name = "quarterly"           # overdrawn when, within any three months in a row
kind = "window"
k = 3

[[release]]
name = "spells"              # for how many months in a row
kind = "spell"
length = 6

[broker]
url = "embedded:log"         # a folder; or "kafka://host:port"
partitions = 4
"""


def simulate_open_reports(people: int) -> People:
    """Return the reports of everybody who signs up within three years; about `people` are present after the first year.

    Each month about as many sign up. 10% of them have overdrawn their accounts. Every month 2% of the others begin to, 6%
    from month 25 to 30, and 20% of those who have stop. People stop reporting at the end of their tenure or before it.
    Nobody reports who has left.
    """
    rng = np.random.default_rng(_SEED)
    arrivals = rng.poisson(people / PRESENT_PER_SIGN_UP, MONTHS)
    arrivals[0] = max(arrivals[0], 1)
    entry = np.repeat(np.arange(MONTHS), arrivals)
    stays = np.minimum(rng.geometric(STOPS, len(entry)), TENURE)
    symbols = np.full((len(entry), MONTHS), MISSING, dtype=np.int8)
    overdrawn, missed = rng.random(len(entry)) < 0.10, np.zeros(len(entry), dtype=np.int64)
    for month in range(MONTHS):
        begins = 0.06 if month + 1 in PRICE_RISE else 0.02
        overdrawn = np.where(entry >= month, overdrawn, rng.random(len(entry)) < np.where(overdrawn, 0.80, begins))
        present = (entry <= month) & (month < entry + stays) & (missed < ABSENT_AFTER)
        reports = present & ((entry == month) | (rng.random(len(entry)) >= MISSING_SHARE))
        missed = np.where(reports, 0, missed + (present & ~reports))
        symbols[reports, month] = overdrawn[reports]
    return People(tuple(f"person-{row}" for row in range(1, len(entry) + 1)), symbols)


@dataclass(frozen=True, eq=False)
class TrueMonth:
    """The exact tallies of a month, of everybody together."""

    period: Period
    tallies: Mapping[str, IntArray]

    def number(self, contract: Contract, query: Query) -> int:
        """How many people a query holds for; `contract` is that of the release that is asked."""
        return round(self._sum(contract, contract.query_weights(query, self.period)))

    def share(self, contract: Contract, query: Query) -> float:
        """The share of people a query holds for, of those among whom it asks."""
        among = contract.denominator_weights(query, self.period)
        assert among is not None
        return self._sum(contract, contract.query_weights(query, self.period)) / max(self._sum(contract, among), 1.0)

    def _sum(self, contract: Contract, weights: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> float:
        [counts] = contract.true_counts([self.tallies[contract.name]])
        return float(weights @ counts)


def true_months(study: Study, reports: People) -> Iterator[TrueMonth]:
    """The truth of each month, in order."""
    codes = np.where(reports.symbols == MISSING, NO_REPORT, reports.symbols).astype(np.uint8)
    state = PresenceState.of(study, len(codes))
    for period in range(1, codes.shape[1] + 1):
        state, tallies = state.fold(codes[:, period - 1])
        yield TrueMonth(Period(period), tallies)
