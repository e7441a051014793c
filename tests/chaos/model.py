"""What gatherers must have tallied, from the reports and the cuts alone, in plain Python by the documents."""

from __future__ import annotations

import struct
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import msgpack

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
            k = release["k"]
            windows = (
                Counter(tuple(person_history[period - k : period]) for person_history in histories)
                if period >= k
                else Counter()
            )
            return [windows[window] for window in product(study["alphabet"], repeat=k)]
        event = set(release["event"])
        came = [person_history for person_history in histories if person_history[period - 1] in event]
        weights = Counter(sum(symbol in event for symbol in person_history[:period]) for person_history in came)
        return [weights[b] for b in range(1, study["horizon"] + 1)]

    def total(self, release: dict[str, Any], period: int) -> list[int]:
        """The sum of the tallies of all partitions."""
        tallies = [self.tally(release, partition, period) for partition in range(len(self.histories))]
        return [sum(column) for column in zip(*tallies, strict=True)]
