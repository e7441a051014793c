"""Automata: the public rule by which a person's symbols lead from state to state, and the transitions of each period.

Everybody starts in state 0, so a history is a path. Only the states that are reachable after `t` periods exist in period
`t`. Symbols of one state that lead to the same next state are one transition: which of them came is not counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from streamproc.privacy.types import FloatArray, IntArray


@dataclass(frozen=True)
class Automaton:
    """A complete deterministic automaton over classes of symbols. State 0 is the start."""

    table: tuple[tuple[int, ...], ...]
    """`table[state][symbol class]` is the next state."""

    def __post_init__(self) -> None:
        widths = {len(row) for row in self.table}
        if len(widths) != 1 or not min(widths):
            raise ValueError("an automaton needs at least one state, and as many next states for each")
        if not all(0 <= state < self.states for row in self.table for state in row):
            raise ValueError("a transition leads to a state that does not exist")

    @classmethod
    def of_table(cls, table: npt.NDArray[np.integer]) -> Automaton:
        """The automaton with this array of next states."""
        return cls(tuple(tuple(row) for row in table.tolist()))

    @property
    def states(self) -> int:
        """Number of states."""
        return len(self.table)

    @property
    def classes(self) -> int:
        """Number of classes of symbols."""
        return len(self.table[0])

    @cached_property
    def next_states(self) -> IntArray:
        """The table as an array, states by classes."""
        return np.array(self.table, dtype=np.int64)

    @cached_property
    def merged_cells(self) -> IntArray:
        """For each cell `state * classes + class`, the first cell of the same transition."""
        table = self.next_states
        first = (table[:, :, None] == table[:, None, :]).argmax(axis=2)
        cells: IntArray = (np.arange(self.states)[:, None] * self.classes + first).ravel()
        return cells


@dataclass(frozen=True, eq=False)
class Transitions:
    """The transitions of one period, from the states that are reachable before it to those reachable after it.

    They are sorted by their source. "Place" means the index of a state in `before` or `after`.
    """

    before: IntArray
    """Reachable states before the period, ascending."""
    after: IntArray
    """Reachable states after the period, ascending."""
    source: IntArray
    """For each transition, the place of the state that it leaves."""
    target: IntArray
    """For each transition, the place of the state that it enters."""
    cells: IntArray
    """For each transition, the cell `state * classes + class` of its first class of symbols."""

    def __len__(self) -> int:
        return len(self.source)

    @cached_property
    def degrees(self) -> IntArray:
        """Number of transitions that leave each state of `before`."""
        return np.bincount(self.source, minlength=len(self.before))

    @property
    def free(self) -> int:
        """Number of counts that the totals of the states leave open: the measurements of the period."""
        return len(self) - len(self.before)

    @cached_property
    def spread(self) -> FloatArray:
        """`E`: spreads the people of each state evenly over its transitions; transitions by states."""
        matrix = np.zeros((len(self), len(self.before)))
        matrix[np.arange(len(self)), self.source] = 1 / self.degrees[self.source]
        return matrix

    @cached_property
    def contrasts(self) -> FloatArray:
        """`F`: orthonormal columns that sum to zero within each state; transitions by `free`."""
        matrix = np.zeros((len(self), self.free))
        row = column = 0
        for degree in self.degrees.tolist():
            for j in range(1, degree):
                norm = (j * (j + 1)) ** -0.5
                matrix[row : row + j, column] = norm
                matrix[row + j, column] = -j * norm
                column += 1
            row += degree
        return matrix

    def entering(self, values: FloatArray) -> FloatArray:
        """`A values`: sums over the transitions that enter each state of `after` (along the first axis)."""
        sums = np.zeros((len(self.after), *values.shape[1:]))
        np.add.at(sums, self.target, values)
        return sums


@lru_cache(maxsize=64)
def transitions_of(automaton: Automaton, horizon: int) -> tuple[Transitions, ...]:
    """The transitions of periods `1..horizon`. Periods with the same reachable states share one object."""
    known: dict[bytes, Transitions] = {}
    before, periods = np.zeros(1, dtype=np.int64), []
    for _ in range(horizon):
        key = before.tobytes()
        if key not in known:
            known[key] = _transitions(automaton, before)
        periods.append(known[key])
        before = known[key].after
    return tuple(periods)


def _transitions(automaton: Automaton, before: IntArray) -> Transitions:
    classes = automaton.classes
    cells = (before[:, None] * classes + np.arange(classes)).ravel()
    cells = cells[automaton.merged_cells[cells] == cells]
    entered = automaton.next_states.ravel()[cells]
    after = np.unique(entered)
    return Transitions(before, after, np.searchsorted(before, cells // classes), np.searchsorted(after, entered), cells)


def event_counter(most: int) -> Automaton:
    """The number of events so far, up to `most`. Class 0 is no event, class 1 an event."""
    return Automaton(tuple((count, min(count + 1, most)) for count in range(most + 1)))


def spell_counter(length: int) -> Automaton:
    """The length of the current run of events, up to `length`. Class 0 is no event, class 1 an event."""
    return Automaton(tuple((0, min(run + 1, length)) for run in range(length + 1)))


def window_automaton(q: int, k: int) -> Automaton:
    """The last `min(t, k - 1)` symbols of a history of `t` symbols. A window of `k` symbols is a transition."""
    if k == 1:
        return Automaton(((0,) * q,))
    first = [sum(q**shorter for shorter in range(length)) for length in range(k)]
    rows = []
    for length in range(k):
        for code in range(q**length):
            longer = min(length + 1, k - 1)
            rows.append(tuple(first[longer] + (code * q + symbol) % q**longer for symbol in range(q)))
    return Automaton(tuple(rows))
