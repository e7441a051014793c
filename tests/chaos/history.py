"""The history of a run, which the checker verifies: the records of all topics, and what clients observed meanwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgpack


@dataclass(frozen=True)
class Record:
    """One record of a topic."""

    offset: int
    value: bytes

    @property
    def fields(self) -> dict[str, Any]:
        return dict(msgpack.unpackb(self.value))


Topic = Sequence[Record]


@dataclass(frozen=True)
class History:
    """The history of one finished study. Only `reports` has several partitions."""

    reports: Sequence[Topic]
    control: Topic
    tallies: Topic
    rejects: Topic
    ledger: Topic
    """The ledger as a read_committed consumer sees it."""
    synthetic: Mapping[str, Topic]
    """The columns of each release as a read_committed consumer sees them."""
    ledger_uncommitted: Topic
    """The ledger including aborted transactions."""
    synthetic_uncommitted: Mapping[str, Topic]
    asked: Mapping[str, Any]
    """The public values with which the study was created."""
    seen_along: Mapping[str, Mapping[int, bytes]] = field(default_factory=dict)
    """What a subscriber read during the run, by topic (`ledger` or the name of a release) and offset."""
    watched: Sequence[Sequence[tuple[str, int, str]]] = ()
    """Release, period and digest of each line of each run of `watch`."""
    statuses: Sequence[tuple[int, int]] = ()
    """Watermark and released period in each output of `status`, in order."""
    acknowledged: Mapping[tuple[str, int], str] = field(default_factory=dict)
    """The symbol of each report that was acknowledged before its period was closed."""
    output: Mapping[str, str] = field(default_factory=dict)
    """All output of the processes, by file name."""
    secrets: Sequence[str] = ()
    """Parts of ids and symbols that must not occur in the output."""
    contested_periods: frozenset[int] = frozenset()
    """Periods at which two synthesizers worked on copies of one state folder."""

    @property
    def study(self) -> dict[str, Any]:
        """The public values of the study: the first record of its ledger."""
        return dict(self.ledger[0].fields["study"])

    @property
    def releases(self) -> dict[str, dict[str, Any]]:
        return {release["name"]: release for release in self.study["releases"]}

    @property
    def periods(self) -> list[dict[str, Any]]:
        """The ledger's records of periods."""
        return [record.fields for record in self.ledger if record.fields["type"] == "period"]

    @property
    def aborted(self) -> list[Record]:
        """Records of aborted transactions, which only read_uncommitted consumers see."""
        pairs = [(self.ledger, self.ledger_uncommitted)]
        pairs += [(self.synthetic[name], topic) for name, topic in self.synthetic_uncommitted.items()]
        found: list[Record] = []
        for committed, uncommitted in pairs:
            kept = {record.offset for record in committed}
            found += [record for record in uncommitted if record.offset not in kept]
        return found

    def ends(self) -> list[list[int]]:
        """The cuts that count: where each period ends in each partition."""
        partitions, horizon = self.study["partitions"], self.study["horizon"]
        ends: list[list[int]] = []
        for record in self.control:
            cut = record.fields
            if cut["type"] != "cut" or cut["period"] != len(ends) + 1 or cut["period"] > horizon:
                continue
            before = ends[-1] if ends else [0] * partitions
            if len(cut["ends"]) == partitions and all(a <= b for a, b in zip(before, cut["ends"], strict=True)):
                ends.append(cut["ends"])
        return ends
