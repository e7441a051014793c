"""Connections to a simulated broker: the port, with the faults around every call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Self, TypeVar

from streamproc.errors import LogError, LogUnavailable, NoSuchTopic, OffsetLost, OutcomeUnknown
from streamproc.log.port import Offset, TopicSettings, check_size
from streamproc.testing.simulated.broker import SimulatedBroker
from streamproc.testing.simulated.faults import Faults
from streamproc.testing.simulated.file_faults import Killed
from streamproc.testing.simulated.parts import SimulatedGroupMembership, SimulatedReader, SimulatedTransactionalProducer

Result = TypeVar("Result")


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

    async def call(self, call: str, topic: str | None, effect: Callable[[], Result]) -> Result:
        """One call, with the faults around its effect."""
        self._check_alive()
        await self._faults.before(self.name, call, topic)
        self._check_alive()
        result = effect()
        await self._faults.after(self.name, call, topic)
        return result

    async def change(self, call: str, topic: str | None, effect: Callable[[], Result]) -> Result:
        """One call that changes something, and may do so after its caller was told that its outcome is unknown."""

        def now_or_later() -> Result:
            late = self._faults.lands_later(self.name, call, topic)
            if late is None:
                return effect()
            asyncio.get_running_loop().call_later(late, _quietly, effect)
            raise OutcomeUnknown(f"{call}: no answer in time")

        return await self.call(call, topic, now_or_later)

    def _check_alive(self) -> None:
        if self._crashed:
            raise LogUnavailable(f"connection {self.name} is gone")

    async def __aenter__(self) -> Self:
        await self.call("connect", None, lambda: None)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._crashed = True

    async def brokers(self) -> int:
        return await self.call("brokers", None, lambda: 1)

    async def topics(self) -> Mapping[str, int]:
        there = self.broker.topics
        return await self.call("topics", None, lambda: {name: len(topic.partitions) for name, topic in there.items()})

    async def settings_of(self, topic: str) -> TopicSettings:
        def settings() -> TopicSettings:
            if topic not in self.broker.topics:
                raise NoSuchTopic(topic)
            return self.broker.topics[topic].settings

        return await self.call("settings_of", topic, settings)

    async def create_topic(self, topic: str, settings: TopicSettings) -> None:
        await self.change("create_topic", topic, lambda: self.broker.create(topic, settings))

    async def delete_topic(self, topic: str) -> None:
        await self.change("delete_topic", topic, lambda: self.broker.delete(topic))

    async def start_offset(self, topic: str, partition: int) -> Offset:
        return Offset(await self.call("start_offset", topic, lambda: self.broker.partition(topic, partition).start))

    async def high_watermark(self, topic: str, partition: int) -> Offset:
        return Offset(await self.call("high_watermark", topic, lambda: self.broker.partition(topic, partition).end))

    async def last_stable_offset(self, topic: str, partition: int) -> Offset:
        return Offset(await self.call("last_stable_offset", topic, lambda: self.broker.partition(topic, partition).stable))

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
        between = partial(self._faults.inside, self.name, call, topic)
        offsets = await self.change(call, topic, lambda: self.broker.append(topic, partition, records, between))
        return [Offset(offset) for offset in offsets]

    async def reader(self, topic: str, partition: int, offset: Offset, *, committed: bool = True) -> SimulatedReader:
        def opened() -> SimulatedReader:
            log = self.broker.partition(topic, partition)
            if not log.start <= offset <= log.end:
                raise OffsetLost(topic, partition, offset, log.start, log.end)
            return SimulatedReader(self, topic, partition, log, offset, committed=committed)

        return await self.call("reader", topic, opened)

    async def transactional_producer(
        self, transactional_id: str, *, timeout: float = 60.0
    ) -> SimulatedTransactionalProducer:
        return SimulatedTransactionalProducer(self, transactional_id, timeout)

    async def join_group(self, group: str, topic: str) -> SimulatedGroupMembership:
        def joined() -> SimulatedGroupMembership:
            self.broker.partition(topic, 0)
            return SimulatedGroupMembership(self, group, topic)

        return await self.call("membership", topic, joined)


def _quietly(effect: Callable[[], object]) -> None:
    """What lands later has nobody left to tell, and may be cut short by the end of its process."""
    with suppress(LogError, Killed):
        effect()
