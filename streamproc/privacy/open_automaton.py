"""Automata of open studies: people enter in any period, are present for a while, and leave for good.

The states are those of people who are present. A person enters with a first report, which decides the first state; later
reports lead from state to state; and a person leaves from any state. Everybody outside, before and after, is not counted.
The transitions are the same in every period.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np

from streamproc.privacy.types import FloatArray, IntArray

OUTSIDE = -1
"""The source of a transition that enters, and the target of one that leaves."""


@dataclass(frozen=True)
class OpenAutomaton:
    """A deterministic automaton over classes of symbols, with the states of the people who are present."""

    entry: tuple[int, ...]
    """`entry[symbol class]` is the state after a first report."""
    table: tuple[tuple[int, ...], ...]
    """`table[state][symbol class]` is the next state."""
    told_apart: bool = False
    """Whether symbols of one state that lead to the same next state are different transitions."""

    def __post_init__(self) -> None:
        if not self.table or {len(row) for row in self.table} != {len(self.entry)} or not self.entry:
            raise ValueError("an automaton needs at least one state, and as many next states for each")
        if not all(0 <= state < self.states for row in (self.entry, *self.table) for state in row):
            raise ValueError("a transition leads to a state that does not exist")

    @property
    def states(self) -> int:
        """Number of states of people who are present."""
        return len(self.table)

    @property
    def classes(self) -> int:
        """Number of classes of symbols."""
        return len(self.entry)

    @property
    def cells(self) -> int:
        """Number of counts of a tally: a row for the outside and for each state, a column for each class and for leaving.

        Cell `class` is a first report, cell `(1 + state) * (classes + 1) + class` a later one, and the last cell of a
        state's row is leaving. The last cell of the first row is always 0.
        """
        return (1 + self.states) * (1 + self.classes)

    @cached_property
    def merged_cells(self) -> IntArray:
        """For each cell, the first cell of the same transition."""
        found = np.arange(self.cells)
        if not self.told_apart:
            for row, targets in enumerate((self.entry, *self.table)):
                start = row * (1 + self.classes)
                found[start : start + self.classes] = [start + targets.index(target) for target in targets]
        return found

    @cached_property
    def next_states(self) -> IntArray:
        """The next state by cell, `OUTSIDE` for leaving."""
        table = np.full((1 + self.states, 1 + self.classes), OUTSIDE, dtype=np.int64)
        table[0, :-1], table[1:, :-1] = self.entry, self.table
        return table.ravel()

    @cached_property
    def transitions(self) -> OpenTransitions:
        """The transitions of a period, those that enter first, then those of each state, leaving last."""
        cells = np.flatnonzero(self.merged_cells == np.arange(self.cells))
        cells = cells[cells != self.classes]
        return OpenTransitions(self.states, cells // (1 + self.classes) - 1, self.next_states[cells], cells)


@dataclass(frozen=True, eq=False)
class OpenTransitions:
    """The transitions of a period of an open study, sorted by their source."""

    states: int
    source: IntArray
    """For each transition, the state that it leaves; `OUTSIDE` if it enters."""
    target: IntArray
    """For each transition, the state that it enters; `OUTSIDE` if it leaves."""
    cells: IntArray
    """For each transition, its cell in a tally."""

    def __len__(self) -> int:
        return len(self.source)

    @cached_property
    def entering(self) -> IntArray:
        """The transitions of people who enter."""
        return np.flatnonzero(self.source == OUTSIDE)

    @cached_property
    def leaving(self) -> IntArray:
        """The transitions of people who leave, one for each state, in the order of the states."""
        return np.flatnonzero(self.target == OUTSIDE)

    @cached_property
    def staying(self) -> IntArray:
        """The transitions of people who are present before and after."""
        return np.flatnonzero((self.source != OUTSIDE) & (self.target != OUTSIDE))

    @property
    def free(self) -> int:
        """Number of counts that the totals of the states leave open: the measurements of a period."""
        return len(self) - self.states

    @cached_property
    def spread(self) -> FloatArray:
        """`E`: spreads the people of each state evenly over its transitions, leaving included; transitions by states."""
        matrix: FloatArray = (self.source[:, None] == np.arange(self.states)).astype(np.float64)
        matrix /= matrix.sum(axis=0)
        return matrix

    @cached_property
    def contrasts(self) -> FloatArray:
        """`F`: a unit column for each transition that enters, then orthonormal ones that sum to zero within each state."""
        matrix = np.zeros((len(self), self.free))
        first = len(self.entering)
        matrix[np.arange(first), np.arange(first)] = 1.0
        row = column = first
        for degree in np.bincount(self.source[first:], minlength=self.states).tolist():
            for j in range(1, degree):
                norm = (j * (j + 1)) ** -0.5
                matrix[row : row + j, column] = norm
                matrix[row + j, column] = -j * norm
                column += 1
            row += degree
        return matrix

    def leaving_totals(self, values: FloatArray) -> FloatArray:
        """`U values`: sums over the transitions that leave each state (along the first axis)."""
        return _sums(self.source, values, self.states)

    def entering_totals(self, values: FloatArray) -> FloatArray:
        """`A values`: sums over the transitions that enter each state (along the first axis)."""
        return _sums(self.target, values, self.states)


def _sums(places: IntArray, values: FloatArray, states: int) -> FloatArray:
    inside = places != OUTSIDE
    sums = np.zeros((states, *values.shape[1:]))
    np.add.at(sums, places[inside], values[inside])
    return sums


def open_windows(q: int, k: int) -> OpenAutomaton:
    """The last `min(age, k - 1)` symbols since entry, shorter ones first. A window is a transition."""
    lengths = range(1, k) if k > 1 else range(1)
    windows = [window for length in lengths for window in product(range(q), repeat=length)]
    place = {window: state for state, window in enumerate(windows)}
    kept = max(k - 1, 0)

    def newest(window: tuple[int, ...]) -> int:
        return place[window[len(window) - min(len(window), kept) :]]

    table = tuple(tuple(newest((*window, symbol)) for symbol in range(q)) for window in windows)
    return OpenAutomaton(tuple(newest((symbol,)) for symbol in range(q)), table, told_apart=True)


def open_spells(length: int) -> OpenAutomaton:
    """The length of the current run of events since entry, up to `length`. Class 0 is no event, class 1 an event."""
    return OpenAutomaton((0, 1), tuple((0, min(run + 1, length)) for run in range(length + 1)))


def open_events(most: int) -> OpenAutomaton:
    """The number of events since entry, up to `most`. Class 0 is no event, class 1 an event."""
    return OpenAutomaton((0, 1), tuple((count, min(count + 1, most)) for count in range(most + 1)))
