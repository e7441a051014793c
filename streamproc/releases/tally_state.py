"""Real people, as few numbers as a study needs: their last symbols and their number of ones, and the tallies of these.

This is the exact, secret side. A gatherer keeps one cohort per partition; their tallies add up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from streamproc.privacy.types import IntArray, Period
from streamproc.releases.row_assignment import Codes, narrowest_dtype
from streamproc.study import CumulativeRelease, Study, WindowRelease


@dataclass(frozen=True, eq=False)
class TallyState:
    """A row per person; folding a period makes a new cohort."""

    study: Study
    period: Period
    windows: Codes
    """The last `max k` symbols of each person, coded in base `q`."""
    weights: Mapping[str, npt.NDArray[np.uint16]]
    """For each cumulative release, each person's ones so far."""

    @classmethod
    def of(cls, study: Study, people: int) -> TallyState:
        """`people` individuals before period 1."""
        widest = max((r.k for r in study.releases if isinstance(r, WindowRelease)), default=1)
        windows = np.zeros(people, dtype=narrowest_dtype(study.q**widest))
        ones = [r.name for r in study.releases if isinstance(r, CumulativeRelease)]
        return cls(study, Period(0), windows, {name: np.zeros(people, dtype=np.uint16) for name in ones})

    def fold(self, symbols: npt.NDArray[np.uint8]) -> tuple[TallyState, dict[str, IntArray]]:
        """Everyone's symbol of the next period, missing ones filled in: the new cohort and its tally for each release."""
        if symbols.shape != self.windows.shape:
            raise ValueError(f"{len(symbols)} symbols for {len(self.windows)} people")
        period = Period(self.period + 1)
        windows = self._windows_with(symbols)
        weights = dict(self.weights)
        tally: dict[str, IntArray] = {}
        for release in self.study.releases:
            if isinstance(release, WindowRelease):
                bins = self.study.q**release.k
                counted = _newest(windows, bins) if period >= release.k else windows[:0]
                tally[release.name] = np.bincount(counted, minlength=bins).astype(np.int64)
            else:
                ones = self.study.event_mask(release)[symbols]
                weights[release.name] = weights[release.name] + ones
                reached = np.bincount(weights[release.name][ones], minlength=self.study.horizon + 1)
                tally[release.name] = reached[1:].astype(np.int64)
        return TallyState(self.study, period, windows, weights), tally

    def _windows_with(self, symbols: npt.NDArray[np.uint8]) -> Codes:
        widest = max((r.k for r in self.study.releases if isinstance(r, WindowRelease)), default=1)
        overlap = _newest(self.windows, self.study.q ** (widest - 1))
        return overlap * self.windows.dtype.type(self.study.q) + symbols.astype(self.windows.dtype)


def _newest(windows: Codes, states: int) -> Codes:
    """The newest symbols of each window, as many as `states` codes can tell apart."""
    return windows if states > np.iinfo(windows.dtype).max else windows % windows.dtype.type(states)
