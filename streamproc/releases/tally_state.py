"""The state that is stored for each real person, and the tallies that follow from it.

This is the exact, secret side of a study. A gatherer keeps one state for each partition; the tallies of partitions add up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from streamproc.privacy.types import IntArray, Period
from streamproc.releases.contracts import make_tallier
from streamproc.releases.kind import Tallier
from streamproc.releases.row_assignment import Codes, last_symbols, narrowest_dtype
from streamproc.study import Study


@dataclass(frozen=True, eq=False)
class TallyState:
    """One row of state for each person. It is immutable: `fold` returns the next state."""

    study: Study
    period: Period
    windows: Codes
    """The newest symbols of each person as a number in base `q`, as many as the release that needs most of them."""
    weights: Mapping[str, npt.NDArray[Any]]
    """Additional state of each release, by its name. A cumulative release stores each person's number of events so far."""

    @classmethod
    def of(cls, study: Study, people: int) -> TallyState:
        """The state of `people` individuals before period 1."""
        talliers = _talliers(study)
        longest = max(tallier.window for tallier in talliers.values())
        windows = np.zeros(people, dtype=narrowest_dtype(study.q**longest))
        states = {name: tallier.initial_state(people) for name, tallier in talliers.items()}
        return cls(study, Period(0), windows, {name: state for name, state in states.items() if state is not None})

    @staticmethod
    def releases_with_state(study: Study) -> list[str]:
        """The names of the releases that store more about each person than the newest symbols."""
        return [name for name, tallier in _talliers(study).items() if tallier.initial_state(0) is not None]

    def fold(self, symbols: npt.NDArray[np.uint8]) -> tuple[TallyState, dict[str, IntArray]]:
        """The state after one more period in which everybody reported `symbols`, and its tally for each release."""
        if symbols.shape != self.windows.shape:
            raise ValueError(f"{len(symbols)} symbols for {len(self.windows)} people")
        period, talliers = Period(self.period + 1), _talliers(self.study)
        longest = max(tallier.window for tallier in talliers.values())
        windows = last_symbols(self.windows, self.study.q ** (longest - 1))
        windows *= windows.dtype.type(self.study.q)
        windows += symbols.astype(windows.dtype, copy=False)
        weights = dict(self.weights)
        tally: dict[str, IntArray] = {}
        for name, tallier in talliers.items():
            state, tally[name] = tallier.tally(period, windows, symbols, weights.get(name))
            if state is not None:
                weights[name] = state
        return TallyState(self.study, period, windows, weights), tally


def _talliers(study: Study) -> dict[str, Tallier]:
    return {release.name: make_tallier(study, release) for release in study.releases}
