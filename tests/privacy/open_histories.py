"""Histories of people in an open study, by definition: followed through an automaton in plain code.

A person takes part never, or enters in some period, reports in that and the following periods, at most `tenure` in all,
and leaves in the next one. A period of a history is the number of a cell of a tally, in the documented order, or None where
the person is outside and stays there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from streamproc.privacy.open_automaton import OpenAutomaton

History = tuple[int | None, ...]

NEVER: tuple[()] = ()
"""The reports of somebody who takes no part."""


def cell(automaton: OpenAutomaton, state: int | None, symbol: int) -> int:
    """The cell of a symbol in a state, None for the outside: symbols that lead to the same state share that of the first."""
    targets = automaton.entry if state is None else automaton.table[state]
    if not automaton.told_apart:
        symbol = min(other for other, target in enumerate(targets) if target == targets[symbol])
    width = len(automaton.entry) + 1
    return symbol if state is None else (1 + state) * width + symbol


def cells_of_transitions(automaton: OpenAutomaton) -> list[int]:
    """The cells that some transition has, whether or not a history makes it, in order: the columns of the matrix."""
    width = len(automaton.entry) + 1
    found = {cell(automaton, None, symbol) for symbol in range(width - 1)}
    for state in range(len(automaton.table)):
        found |= {cell(automaton, state, symbol) for symbol in range(width - 1)} | {(1 + state) * width + width - 1}
    return sorted(found)


def follow(automaton: OpenAutomaton, horizon: int, entered: int, reports: Sequence[int]) -> History:
    """The cells of somebody who enters in this period, counted from 1, makes these reports and then leaves."""
    cells: list[int | None] = [None] * (entered - 1)
    state: int | None = None
    for symbol in reports:
        cells.append(cell(automaton, state, symbol))
        state = automaton.entry[symbol] if state is None else automaton.table[state][symbol]
    if state is not None:
        width = len(automaton.entry) + 1
        cells.append((1 + state) * width + width - 1)
    cells += [None] * horizon
    return tuple(cells[:horizon])


def histories(automaton: OpenAutomaton, tenure: int, horizon: int) -> Iterator[History]:
    """All histories of a study of so many periods, the one of somebody who takes no part first."""
    yield follow(automaton, horizon, 1, NEVER)
    for entered in range(1, horizon + 1):
        for present in range(1, tenure + 1):
            for reports in product(range(len(automaton.entry)), repeat=present):
                yield follow(automaton, horizon, entered, reports)
