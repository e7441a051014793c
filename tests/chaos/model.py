"""What gatherers must have tallied, from the reports and the cuts alone, in plain Python by the documents."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import msgpack

from tests.chaos.automata import Table, class_of, table_of
from tests.chaos.history import History, Topic

Said = tuple[int, str, int, str]
"""Offset, individual, period, symbol."""


def murmur2(key: bytes) -> int:
    """Kafka's 32-bit hash, as in Java's client."""
    m, mask = 0x5BD1E995, 0xFFFFFFFF
    h = 0x9747B28C ^ len(key)
    whole = len(key) // 4 * 4
    for (word,) in struct.iter_unpack("<I", key[:whole]):
        k = word * m & mask
        h = (h * m & mask) ^ ((k ^ k >> 24) * m & mask)
    if key[whole:]:
        h = (h ^ int.from_bytes(key[whole:], "little")) * m & mask
    h = (h ^ h >> 13) * m & mask
    return h ^ h >> 15


def home(individual: str, partitions: int) -> int:
    """The one partition in which this person counts."""
    return (murmur2(individual.encode()) & 0x7FFFFFFF) % partitions


def said_in(partition: Topic, alphabet: list[str]) -> list[Said]:
    """Every report of a partition that can be decoded."""
    said: list[Said] = []
    for record in partition:
        try:
            report = msgpack.unpackb(record.value)
            if "type" not in report:
                said.append((record.offset, report["id"], report["t"], report["s"]))
                continue
            periods = struct.unpack(f">{len(report['ids'])}H", report["t"])
            symbols = [alphabet[place] if place < len(alphabet) else "" for place in report["s"]]
            said += [(record.offset, *each) for each in zip(report["ids"], periods, symbols, strict=True)]
        except (ValueError, KeyError, TypeError):
            continue
    return said


def state_after(table: Table, classes: Iterable[int]) -> int:
    """The state after these symbols."""
    state = 0
    for each in classes:
        state = table[state][each]
    return state


def at_least(states: Mapping[int, int], release: Mapping[str, Any], table: Table) -> list[int]:
    """How many of the people in these states are in state `j` or a later one, for each `j` that the release counts."""
    last = len(table) - 1
    thresholds = [last] if release["kind"] == "pattern" else range(1, last + 1)
    return [sum(people for state, people in states.items() if state >= j) for j in thresholds]


@dataclass(frozen=True)
class Model:
    """The exact data of a study without a roster."""

    history: History

    @cached_property
    def histories(self) -> list[dict[str, list[str]]]:
        """For each partition, its members, each with a symbol for each closed period."""
        return [self._histories_of(partition) for partition in range(self.history.study["partitions"])]

    def _histories_of(self, partition: int) -> dict[str, list[str]]:
        study, ends = self.history.study, [cut[partition] for cut in self.history.ends()]
        rules, alphabet = study["population"], study["alphabet"]
        members: dict[str, None] = {}
        counted: dict[tuple[str, int], str] = {}
        for offset, individual, period, symbol in said_in(self.history.reports[partition], alphabet):
            in_time = 1 <= period <= len(ends) and offset < ends[period - 1]
            if not in_time or home(individual, study["partitions"]) != partition:
                continue
            if period == 1:
                members[individual] = None
            # Without a roster an id is admitted by its first report for period 1; what it sends before that is rejected.
            if individual not in members or symbol not in alphabet:
                continue
            if rules["duplicates"] == "last" or (individual, period) not in counted:
                counted[individual, period] = symbol
        histories: dict[str, list[str]] = {}
        for individual in members:
            person_history: list[str] = []
            for period in range(1, len(ends) + 1):
                before = person_history[-1] if person_history else rules["initial"]
                instead = before if rules["missing"] == "carry" else rules["missing"].removeprefix("fill:")
                person_history.append(counted.get((individual, period), instead))
            histories[individual] = person_history
        return histories

    @property
    def people(self) -> int:
        """`n`."""
        return sum(map(len, self.histories))

    def tally(self, release: dict[str, Any], partition: int, period: int) -> list[int]:
        """What the tally of one partition must say of a release."""
        study, histories = self.history.study, self.histories[partition].values()
        if release["kind"] == "window":
            length = min(release["k"], period)
            windows = Counter(tuple(person_history[period - length : period]) for person_history in histories)
            if release["measure"] == "paper" and period < release["k"]:
                windows.clear()
            counts = [windows[window] for window in product(study["alphabet"], repeat=length)]
            return counts + [0] * (len(study["alphabet"]) ** release["k"] - len(counts))
        table = table_of(release, study["horizon"])
        cells: Counter[tuple[int, int]] = Counter()
        for person_history in histories:
            *before, now = (class_of(release, study["alphabet"], symbol) for symbol in person_history[:period])
            state = state_after(table, before)
            cells[state, table[state].index(table[state][now])] += 1
        return [cells[state, each] for state in range(len(table)) for each in range(len(table[0]))]

    def counts(self, release: dict[str, Any], period: int) -> list[int]:
        """The people of the whole study who are at least in each state after the start; for a pattern, who have matched."""
        table = table_of(release, self.history.study["horizon"])
        tally, width = self.total(release, period), len(table[0])
        states = Counter[int]()
        for cell, people in enumerate(tally):
            states[table[cell // width][cell % width]] += people
        return at_least(states, release, table)

    def total(self, release: dict[str, Any], period: int) -> list[int]:
        """The sum of the tallies of all partitions."""
        tallies = [self.tally(release, partition, period) for partition in range(len(self.histories))]
        return [sum(column) for column in zip(*tallies, strict=True)]
