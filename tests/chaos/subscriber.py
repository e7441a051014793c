"""Subscribers that read the public topics all along, one what is committed and one everything, and remember each byte."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

import msgpack
from confluent_kafka import Consumer, KafkaError, TopicPartition

from tests.chaos.topics import consumer


class Subscriber:
    """Reads in its own thread. `topics` maps names of the history to existing topics."""

    def __init__(self, server: str, topics: Mapping[str, str], control: str) -> None:
        self.seen: dict[str, dict[int, bytes]] = {name: {} for name in topics}
        """What was committed, by topic and offset."""
        self.changed: list[str] = []
        """Where a record came again with other bytes."""
        self.releases: dict[int, float] = {}
        """When the record of each period was first seen committed in the ledger, on the monotonic clock."""
        self.cuts: dict[int, float] = {}
        """When the cut of each period was first seen."""
        self.announced = 0
        """The period of the last intent that came, committed or not. Its publication may have columns of earlier ones."""
        self.last_intent = self.last_column = 0.0
        """When the last of them came, committed or not, in seconds of the wall clock."""
        self.arrivals: dict[int, float] = {}
        """When the record at each offset of the ledger came, committed or not, in seconds of the wall clock."""
        self._names = {topic: name for name, topic in topics.items()}
        self._control = control
        self._ending = threading.Event()
        self._threads = [
            threading.Thread(target=self._follow, args=(server, [*self._names], True), daemon=True),
            threading.Thread(target=self._follow, args=(server, [*self._names, control], False), daemon=True),
        ]

    @property
    def released(self) -> int:
        """The last period released."""
        return max(self.releases, default=0)

    @property
    def closed(self) -> int:
        """The last period closed."""
        return max(self.cuts, default=0)

    def delays(self) -> dict[int, float]:
        """Seconds from the cut of each period to its release. The readers are two: one may be behind."""
        return {t: round(at - self.cuts[t], 1) for t, at in sorted(self.releases.items()) if t in self.cuts}

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        """Stop reading; everything that came is kept."""
        self._ending.set()
        for thread in self._threads:
            thread.join()

    def _follow(self, server: str, topics: list[str], committed: bool) -> None:
        reader = consumer(server, committed=committed)
        reader.assign([TopicPartition(topic, 0, 0) for topic in topics])
        try:
            while not self._ending.is_set():
                self._take(reader, committed)
        finally:
            reader.close()

    def _take(self, reader: Consumer, committed: bool) -> None:
        message = reader.poll(0.05)
        if message is None:
            return
        error = message.error()
        if error is not None:
            if error.code() == KafkaError._AUTO_OFFSET_RESET:
                self.changed.append(f"a reader lost its place: {error.str()}")
            return
        topic, offset, value = message.topic(), message.offset(), message.value()
        assert topic is not None and offset is not None and isinstance(value, bytes)
        if committed and self.seen[self._names[topic]].setdefault(offset, value) != value:
            self.changed.append(f"{topic} offset {offset}: other bytes than before")
        if not committed and self._names.get(topic) == "ledger":
            self.arrivals.setdefault(offset, time.time())
        self._note(dict(msgpack.unpackb(value)), committed)

    def _note(self, fields: dict[str, object], committed: bool) -> None:
        kind, period = fields["type"], fields.get("period")
        if not isinstance(period, int):
            return
        if committed:
            if kind == "period":
                self.releases.setdefault(period, time.monotonic())
        elif kind == "cut":
            self.cuts.setdefault(period, time.monotonic())
        elif kind == "intent":
            self.announced, self.last_intent = period, time.time()
        elif kind == "column":
            self.last_column = time.time()
