"""The content of the topics, decoded independently of `streamproc.protocol`, so that the checker also tests that package."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgpack

from streamproc.protocol.topics import Topics
from streamproc.study import Study
from streamproc.testing import SimulatedBroker
from streamproc.testing.simulated_broker import StoredRecord, TransactionStatus


@dataclass(frozen=True)
class Line:
    """A decoded record."""

    offset: int
    value: bytes | None
    fields: dict[str, Any]


class Records:
    """Reads the topics directly from the simulated broker."""

    def __init__(self, broker: SimulatedBroker, study: Study) -> None:
        self._broker = broker
        self._study = study
        self._topics = Topics(study.name)

    def ledger(self, *, committed: bool = True) -> list[Line]:
        """The ledger's records."""
        return list(self._lines(self._topics.ledger, committed=committed))

    def synthetic(self, release: str, *, committed: bool = True) -> list[Line]:
        """A release's records."""
        return list(self._lines(self._topics.synthetic(release), committed=committed))

    def tallies(self) -> list[Line]:
        """The gatherers' records."""
        return list(self._lines(self._topics.tallies, committed=True))

    def reports(self, partition: int) -> list[tuple[int, bytes | None]]:
        """The committed reports of one partition: offset and value."""
        return [(offset, value) for offset, value in self._values(self._topics.reports, partition, committed=True)]

    def rejects(self) -> list[Line]:
        """The rejects."""
        return list(self._lines(self._topics.rejects, committed=True))

    def cuts(self) -> list[list[int]]:
        """Where each closed period ends in each partition: the first cut of the next period that does not go back."""
        cuts: list[list[int]] = []
        for line in self._lines(self._topics.control, committed=True):
            if line.fields.get("type") != "cut" or line.fields["period"] != len(cuts) + 1:
                continue
            ends = line.fields["ends"]
            before = cuts[-1] if cuts else [0] * self._study.broker.partitions
            whole = len(ends) == self._study.broker.partitions
            if len(cuts) < self._study.last_period and whole and all(map(int.__ge__, ends, before)):
                cuts.append(ends)
        return cuts

    def released(self) -> int:
        """The last period with a ledger record."""
        periods = [line.fields["period"] for line in self.ledger() if line.fields["type"] == "period"]
        return max(periods, default=0)

    def public(self) -> Iterator[tuple[str, bytes]]:
        """The values of all public topics, aborted transactions included."""
        for topic in [self._topics.ledger, *(self._topics.synthetic(r.name) for r in self._study.releases)]:
            for _, value in self._values(topic, 0, committed=False):
                yield topic, value or b""

    def public_stored(self) -> Iterator[tuple[str, StoredRecord]]:
        """All records of the public topics, with their timestamps and arrival times."""
        for topic in [self._topics.ledger, *(self._topics.synthetic(r.name) for r in self._study.releases)]:
            yield from ((topic, each) for each in self._broker.topics[topic].partitions[0].stored if not each.marker)

    def _lines(self, topic: str, *, committed: bool) -> Iterator[Line]:
        for offset, value in self._values(topic, 0, committed=committed):
            yield Line(offset, value, msgpack.unpackb(value or b"\x80"))

    def _values(self, topic: str, partition: int, *, committed: bool) -> Iterator[tuple[int, bytes | None]]:
        for stored in self._broker.topics[topic].partitions[partition].stored:
            whole = stored.transaction is None or stored.transaction.status is TransactionStatus.COMMITTED
            if not stored.marker and (whole or not committed):
                yield stored.offset, stored.value
