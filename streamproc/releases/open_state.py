"""The parts of a release of an open study that have a state: its tallier, its synthetic people, its counter, its estimator.

`OpenContract` of `open_flow` makes them and says what they count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from streamproc.privacy.open_automaton import OpenAutomaton
from streamproc.privacy.types import FloatArray, IntArray, Period
from streamproc.releases.kind import Tallier
from streamproc.releases.row_assignment import Codes
from streamproc.releases.step import Column, ColumnCounter, Estimator, Measurements

if TYPE_CHECKING:
    from streamproc.releases.open_flow import OpenContract


class OpenTallier(Tallier):
    """Counts the real people who make each transition: enter, report, or leave."""

    def __init__(self, automaton: OpenAutomaton, class_of_symbol: npt.NDArray[np.uint8]) -> None:
        self._automaton = automaton
        self._class_of_symbol = np.append(class_of_symbol, automaton.classes).astype(np.int64)

    @property
    def size(self) -> int:
        return self._automaton.cells

    def tally_transitions(
        self, places: npt.NDArray[np.uint16], symbols: npt.NDArray[np.uint8]
    ) -> tuple[npt.NDArray[np.uint16], IntArray]:
        """The places after a period, and its counts. A place is 1 + the state, or 0 outside; symbol `q` is leaving."""
        cells = places.astype(np.int64) * (1 + self._automaton.classes) + self._class_of_symbol[symbols]
        counts = np.bincount(cells, minlength=self.size)
        merged = np.bincount(self._automaton.merged_cells, counts, self.size).astype(np.int64)
        return (1 + self._automaton.next_states[cells]).astype(np.uint16), merged

    def tally(
        self, period: Period, windows: Codes, symbols: npt.NDArray[np.uint8], state: npt.NDArray[Any] | None
    ) -> tuple[npt.NDArray[Any], IntArray]:
        assert state is not None
        return self.tally_transitions(state, symbols)

    def is_possible(self, counts: IntArray, people: int, period: Period) -> bool:
        """Whether the counts are those of transitions after which so many people are present."""
        transitions = self._automaton.transitions
        known = counts[transitions.cells]
        after = int(known[transitions.target >= 0].sum())
        return bool((counts >= 0).all()) and int(counts.sum()) == int(known.sum()) and after == people


@dataclass(frozen=True, eq=False)
class OpenState:
    """The state between periods. It is immutable, and holds nothing but public values."""

    period: Period
    rows: int
    """Number of synthetic people so far, also those who have left."""
    numbers: npt.NDArray[np.uint32]
    """The row numbers of the synthetic people who are present, ascending."""
    states: npt.NDArray[np.uint16]
    """The state of each of them."""
    ages: npt.NDArray[np.uint16]
    """Number of periods in which each of them was present."""
    counts: IntArray
    """The released counts of the last period."""
    estimates: FloatArray
    """Estimated real people in each state of the automaton."""


class OpenCounter(ColumnCounter):
    """Follows the synthetic people who are present. A code is `age * states + state`."""

    def __init__(
        self,
        contract: OpenContract,
        codes: Codes | None = None,
        numbers: npt.NDArray[np.uint32] | None = None,
        rows: int = 0,
    ) -> None:
        self._contract = contract
        self.codes = np.zeros(0, dtype=np.uint32) if codes is None else codes
        self.numbers = np.zeros(0, dtype=np.uint32) if numbers is None else numbers
        """The row numbers of the people who are present, ascending."""
        self._rows = rows

    @property
    def rows(self) -> int:
        return self._rows

    def add(self, column: Column) -> IntArray:
        contract = self._contract
        before = len(self.codes)
        moved = contract.moved_by(self.codes, column)
        states, ages, stay = contract.follow(self.codes, column)
        self.codes = (ages * contract.automaton.states + states).astype(np.uint32)
        entrants = len(column) - before
        entered = np.arange(self._rows, self._rows + entrants, dtype=np.uint32)
        self.numbers = np.concatenate((self.numbers[stay], entered))
        self._rows += entrants
        return contract.counts_of(moved)


class OpenEstimator(Estimator):
    """Estimates the counts of transitions and states from the measurements of all periods so far."""

    def __init__(self, contract: OpenContract, states: FloatArray | None = None) -> None:
        self._contract = contract
        self.states: FloatArray = np.zeros(contract.automaton.states) if states is None else states
        """Estimated people in each state of the automaton."""
        self.transitions: FloatArray = np.zeros(0)
        """Estimated people on each transition of the last period."""

    def add(self, measured: Measurements) -> None:
        estimator = self._contract.mechanism.estimator
        self.transitions = estimator.carried @ self.states + estimator.measured @ measured[0]
        self.states = self._contract.transitions.entering_totals(self.transitions)

    def estimates(self) -> FloatArray:
        estimates: FloatArray = self._contract.questions @ self.transitions
        return estimates
