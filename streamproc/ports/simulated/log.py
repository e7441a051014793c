"""Connections to a simulated broker: the port, with the faults around every call."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Self

from streamproc.ports.log import LogUnavailable, NoSuchTopic, Offset, OffsetLost, TopicSettings, check_size
from streamproc.ports.simulated.broker import SimulatedBroker
from streamproc.ports.simulated.faults import Faults
from streamproc.ports.simulated.parts import SimulatedMembership, SimulatedReader, SimulatedTransactor


class SimulatedLog:
    """One connection. `crash` ends it as a killed process would: what it left open stays open."""

    def __init__(self, broker: SimulatedBroker, faults: Faults | None = None, *, name: str = "") -> None:
        self.broker = broker
        self.name = name
        self._faults = faults or Faults()
        self._crashed = False

    def crash(self) -> None:
        """From now on nothing of this connection reaches the broker."""
        self._crashed = True

    @asynccontextmanager
    async def call(self, call: str, topic: str | None = None) -> AsyncIterator[None]:
        """Around the effect of one call."""
        self._check_alive()
        await self._faults.before(self.name, call, topic)
        self._check_alive()
        yield
        await self._faults.after(self.name, call, topic)

    def _check_alive(self) -> None:
        if self._crashed:
            raise LogUnavailable(f"connection {self.name} is gone")

    async def __aenter__(self) -> Self:
        async with self.call("connect"):
            return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._crashed = True

    async def brokers(self) -> int:
        async with self.call("brokers"):
            return 1

    async def topics(self) -> Mapping[str, int]:
        async with self.call("topics"):
            return {topic.name: len(topic.partitions) for topic in self.broker.topics.values()}

    async def settings_of(self, topic: str) -> TopicSettings:
        async with self.call("settings_of", topic):
            if topic not in self.broker.topics:
                raise NoSuchTopic(topic)
            return self.broker.topics[topic].settings

    async def create_topic(self, topic: str, settings: TopicSettings) -> None:
        async with self.call("create_topic", topic):
            self.broker.create(topic, settings)

    async def delete_topic(self, topic: str) -> None:
        async with self.call("delete_topic", topic):
            self.broker.delete(topic)

    async def start_offset(self, topic: str, partition: int) -> Offset:
        async with self.call("start_offset", topic):
            return Offset(self.broker.partition(topic, partition).start)

    async def end_offset(self, topic: str, partition: int) -> Offset:
        async with self.call("end_offset", topic):
            return Offset(self.broker.partition(topic, partition).end)

    async def stable_offset(self, topic: str, partition: int) -> Offset:
        async with self.call("stable_offset", topic):
            return Offset(self.broker.partition(topic, partition).stable)

    async def append(self, topic: str, partition: int, value: bytes, key: bytes | None = None) -> Offset:
        return (await self._append("append", topic, partition, [(key, value)]))[0]

    async def append_many(
        self, topic: str, partition: int, records: Sequence[tuple[bytes | None, bytes]]
    ) -> Sequence[Offset]:
        return await self._append("append_many", topic, partition, records)

    async def _append(
        self, call: str, topic: str, partition: int, records: Sequence[tuple[bytes | None, bytes]]
    ) -> Sequence[Offset]:
        for key, value in records:
            check_size(topic, key, value)
        async with self.call(call, topic):
            return [Offset(offset) for offset in self.broker.append(topic, partition, records)]

    async def reader(self, topic: str, partition: int, offset: Offset, *, committed: bool = True) -> SimulatedReader:
        async with self.call("reader", topic):
            log = self.broker.partition(topic, partition)
            if not log.start <= offset <= log.end:
                raise OffsetLost(topic, partition, offset, log.start, log.end)
            return SimulatedReader(self, topic, partition, log, offset, committed=committed)

    async def transactor(self, transactional_id: str, *, timeout: float = 60.0) -> SimulatedTransactor:
        return SimulatedTransactor(self, transactional_id, timeout)

    async def membership(self, group: str, topic: str) -> SimulatedMembership:
        async with self.call("membership", topic):
            self.broker.partition(topic, 0)
            return SimulatedMembership(self, group, topic)
