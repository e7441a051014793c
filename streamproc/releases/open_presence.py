"""The exact, secret side of an open study: who is present, the state of each of them, and the tallies that follow.

A person enters with a first report, is present for at most `tenure` periods, and leaves: in the period after the last of
them, or with the `absent_after`-th missing report in a row. A missing report before that is filled from the person's own
history. Nobody comes back. All of this is a function of one person's reports, so a person changes nothing but their own row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from streamproc.privacy.types import IntArray, Period
from streamproc.releases.contracts import make_tallier
from streamproc.releases.kind import BoolArray
from streamproc.releases.open_state import OpenTallier
from streamproc.study import Study

NO_REPORT = 255
"""Stands for a missing report. No alphabet has so many symbols."""

PRESENT, TENURE_OVER, ABSENT = 0, 1, 2
"""Why a row is no longer present; `PRESENT` also if it is not present yet."""


@dataclass(frozen=True, eq=False)
class PresenceState:
    """One row for each person who is present or has not entered yet. It is immutable: `fold` returns the next state."""

    study: Study
    period: Period
    ages: npt.NDArray[np.uint16]
    """Number of periods in which each person was present; 0 before the first report."""
    missed: npt.NDArray[np.uint16]
    """Number of missing reports in a row."""
    last: npt.NDArray[np.uint8]
    """The symbol of each person in the last period."""
    gone: npt.NDArray[np.uint8]
    """`TENURE_OVER` or `ABSENT` for a person who has left."""
    places: Mapping[str, npt.NDArray[np.uint16]]
    """For each release, 1 + the state of each person in its automaton; 0 outside."""

    @classmethod
    def of(cls, study: Study, rows: int, period: Period = Period(0)) -> PresenceState:
        """The state of `rows` people who have not entered."""
        return cls(
            study,
            period,
            np.zeros(rows, dtype=np.uint16),
            np.zeros(rows, dtype=np.uint16),
            np.zeros(rows, dtype=np.uint8),
            np.zeros(rows, dtype=np.uint8),
            {release.name: np.zeros(rows, dtype=np.uint16) for release in study.releases},
        )

    @property
    def present(self) -> int:
        """Number of people who are present."""
        return int(np.count_nonzero(self.ages)) - int(np.count_nonzero(self.gone))

    def arrays_by_row(self) -> Iterator[npt.NDArray[Any]]:
        """All arrays; each has an entry for each row."""
        yield from (self.ages, self.missed, self.last, self.gone)
        yield from self.places.values()

    def with_rows(self, rows: int) -> PresenceState:
        """The same state with further rows at its end, of people who have not entered."""
        more = rows - len(self.ages)
        return self._mapped(lambda array: np.pad(array, (0, more))) if more else self

    def retain(self, rows: BoolArray) -> PresenceState:
        """The state without the other rows."""
        return self._mapped(lambda array: array[rows])

    def _mapped(self, change: Any) -> PresenceState:
        return PresenceState(
            self.study,
            self.period,
            change(self.ages),
            change(self.missed),
            change(self.last),
            change(self.gone),
            {name: change(places) for name, places in self.places.items()},
        )

    def fold(self, reported: npt.NDArray[np.uint8]) -> tuple[PresenceState, dict[str, IntArray]]:
        """The state after one more period in which these symbols, or `NO_REPORT`, came, and its tally for each release."""
        if reported.shape != self.ages.shape:
            raise ValueError(f"{len(reported)} symbols for {len(self.ages)} rows")
        population, silent = self.study.population, reported == NO_REPORT
        here = (self.ages > 0) & (self.gone == PRESENT)
        entering = (self.ages == 0) & ~silent
        missed = np.where(here & silent, self.missed + 1, 0).astype(np.uint16)
        over = here & (self.ages == population.tenure)
        absent = here & ~over & (missed == (population.absent_after or 0)) & silent
        leaving = over | absent
        fill = population.missing.fill
        instead = self.last if fill is None else np.uint8(self.study.symbol_index[fill])
        symbols = np.where(silent, instead, reported).astype(np.uint8)
        gone = self.gone.copy()
        gone[over], gone[absent] = TENURE_OVER, ABSENT
        active = here | entering
        made = np.where(leaving, np.uint8(self.study.q), symbols)[active]
        places, tally = {}, {}
        for name, tallier in self._talliers().items():
            after, tally[name] = tallier.tally_transitions(self.places[name][active], made)
            places[name] = np.zeros_like(self.places[name])
            places[name][active] = after
        ages = np.where(active & ~leaving, self.ages + 1, self.ages).astype(np.uint16)
        last = np.where(active & ~leaving, symbols, self.last)
        following = PresenceState(self.study, Period(self.period + 1), ages, missed, last, gone, places)
        return following, tally

    def _talliers(self) -> dict[str, OpenTallier]:
        found = {release.name: make_tallier(self.study, release) for release in self.study.releases}
        assert all(isinstance(tallier, OpenTallier) for tallier in found.values())
        return found  # type: ignore[return-value]
