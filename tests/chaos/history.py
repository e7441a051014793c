"""What the checker judges: records of the topics, and what was seen and said while the study ran."""

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
    """Of one study that is over. Only `reports` has several partitions."""

    reports: Sequence[Topic]
    control: Topic
    tallies: Topic
    rejects: Topic
    ledger: Topic
    """As readers of what is committed find it."""
    synthetic: Mapping[str, Topic]
    """The same, by release."""
    ledger_uncommitted: Topic
    """With everything that was aborted."""
    synthetic_uncommitted: Mapping[str, Topic]
    asked: Mapping[str, Any]
    """The public values that the study was made with."""
    seen_along: Mapping[str, Mapping[int, bytes]] = field(default_factory=dict)
    """What subscribers who read all along were given: topic, offset, value. `ledger`, or the name of a release."""
    watched: Sequence[Sequence[tuple[str, int, str]]] = ()
    """Release, period and digest of each line of each run of `watch`."""
    statuses: Sequence[tuple[int, int]] = ()
    """Watermark and released period, as `status` said one time after the other."""
    acknowledged: Mapping[tuple[str, int], str] = field(default_factory=dict)
    """The symbol of each report that its sender was told is kept before its period was closed."""
    output: Mapping[str, str] = field(default_factory=dict)
    """Everything that processes wrote, by the name of the file."""
    secrets: Sequence[str] = ()
    """Parts of ids and symbols, which must be in none of it."""
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
        """What only readers of what is not committed saw."""
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
