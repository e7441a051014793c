"""The automata of cumulative, spell and pattern releases, and what is measured on them, by docs/wire-format.md."""

from __future__ import annotations

import base64
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.chaos.study import PATTERN, PATTERN_TABLE

Table = list[list[int]]
"""The next state, by state and class of symbols. Everybody starts in state 0."""


@dataclass(frozen=True)
class Transition:
    """The symbols of one state that lead to the same next state."""

    source: int
    first_class: int
    target: int


def table_of(release: Mapping[str, Any], horizon: int) -> Table:
    """The automaton of a release, from its values in the study or in its contract."""
    match release["kind"]:
        case "cumulative":
            most = release.get("most") or min(horizon, 64)
            return [[events, min(events + 1, most)] for events in range(most + 1)]
        case "spell":
            return [[0, min(run + 1, release["length"])] for run in range(release["length"] + 1)]
    assert release["pattern"] == PATTERN
    return PATTERN_TABLE


def class_of(release: Mapping[str, Any], alphabet: list[str], symbol: str) -> int:
    """The class of a symbol: of a pattern, its place in the alphabet; else whether it is an event."""
    return alphabet.index(symbol) if release["kind"] == "pattern" else int(symbol in release["event"])


def transitions(table: Table, period: int) -> list[Transition]:
    """The transitions of a period, in the order of the columns of its matrix."""
    states = {0}
    for _ in range(period - 1):
        states = {target for state in states for target in table[state]}
    return [
        Transition(state, first, table[state][first])
        for state in sorted(states)
        for first in range(len(table[state]))
        if table[state].index(table[state][first]) == first
    ]


def matrices(contract: Mapping[str, Any]) -> list[list[list[int]]]:
    """The matrices of all periods, each a list of rows: a row for each measurement, a number for each transition."""
    table = table_of(contract, contract["horizon"])
    data = base64.b64decode(contract["matrices"])
    numbers = iter(struct.unpack(f">{len(data) // 2}h", data))
    found = []
    for period in range(1, contract["horizon"] + 1):
        columns = transitions(table, period)
        rows = len(columns) - len({each.source for each in columns})
        found.append([[next(numbers) for _ in columns] for _ in range(rows)])
    assert next(numbers, None) is None
    return found
