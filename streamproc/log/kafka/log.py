"""The `Log` port on a Kafka cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Self

from streamproc.errors import LogUnavailable
from streamproc.log.kafka.admin import EARLIEST, LATEST, AdminConnection, TopicAdmin
from streamproc.log.kafka.consumer import PartitionConsumer
from streamproc.log.kafka.group import KafkaGroupMembership
from streamproc.log.kafka.producer import IdempotentProducer, KafkaTransactionalProducer
from streamproc.log.kafka.settings import KafkaSettings
from streamproc.log.port import Offset, TopicSettings, check_size

SLOW_CONNECTION_S = 2.0
"""Time of connecting after which `on_slow` is called, in seconds."""


class KafkaLog:
    """A connection. Leaving it closes its readers, producers and memberships. Calls take at most about `timeout` seconds."""

    def __init__(self, settings: KafkaSettings, *, timeout: float = 30.0, on_slow: Callable[[], None] | None = None) -> None:
        self._settings, self._timeout, self._on_slow = settings, timeout, on_slow
        self._open: set[PartitionConsumer | KafkaTransactionalProducer | KafkaGroupMembership] = set()

    async def __aenter__(self) -> Self:
        self._connection = AdminConnection(self._settings, self._timeout)
        self._topics = TopicAdmin(self._connection)
        self._producer = IdempotentProducer(self._settings, self._topics, self._timeout)
        slow = None if self._on_slow is None else asyncio.get_running_loop().call_later(SLOW_CONNECTION_S, self._on_slow)
        try:
            await self._connection.start()
        except BaseException:
            await self._connection.close()
            raise
        finally:
            if slow is not None:
                slow.cancel()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each in list(self._open):
            await each.close()
        await self._producer.close()
        await self._connection.close()

    async def brokers(self) -> int:
        return (await self._topics.all())[1]

    async def topics(self) -> Mapping[str, int]:
        return (await self._topics.all())[0]

    async def settings_of(self, topic: str) -> TopicSettings:
        return await self._topics.settings_of(topic)

    async def create_topic(self, topic: str, settings: TopicSettings) -> None:
        await self._topics.create(topic, settings)

    async def delete_topic(self, topic: str) -> None:
        await self._topics.delete(topic)

    async def start_offset(self, topic: str, partition: int) -> Offset:
        return Offset(await self._topics.offset(topic, partition, EARLIEST))

    async def high_watermark(self, topic: str, partition: int) -> Offset:
        return Offset(await self._topics.offset(topic, partition, LATEST))

    async def last_stable_offset(self, topic: str, partition: int) -> Offset:
        return Offset(await self._topics.offset(topic, partition, LATEST, committed=True))

    async def append(self, topic: str, partition: int, value: bytes, key: bytes | None = None) -> Offset:
        return (await self.append_many(topic, partition, [(key, value)]))[0]

    async def append_many(
        self, topic: str, partition: int, records: Sequence[tuple[bytes | None, bytes]]
    ) -> Sequence[Offset]:
        for key, value in records:
            check_size(topic, key, value)
        return await self._producer.append(topic, partition, records)

    async def reader(self, topic: str, partition: int, offset: Offset) -> PartitionConsumer:
        reader = PartitionConsumer(self._settings, self._topics, topic, partition, offset, self._timeout, self._open.discard)
        self._open.add(reader)
        try:
            await reader.open()
        except BaseException as error:
            await reader.close()
            await self._check_authentication(error)
            raise
        return reader

    async def transactional_producer(
        self, transactional_id: str, *, timeout: float | None = None
    ) -> KafkaTransactionalProducer:
        seconds = self._settings.timeouts.transaction if timeout is None else timeout
        producer = KafkaTransactionalProducer(
            self._settings, self._topics, transactional_id, seconds, self._timeout, self._open.discard
        )
        self._open.add(producer)
        return producer

    async def join_group(self, group: str, topic: str) -> KafkaGroupMembership:
        await self._topics.topic_metadata(topic)
        membership = KafkaGroupMembership(self._settings, group, topic, self._timeout, self._open.discard)
        self._open.add(membership)
        try:
            await membership.open()
        except BaseException as error:
            await membership.close()
            await self._check_authentication(error)
            raise
        return membership

    async def _check_authentication(self, error: BaseException) -> None:
        """Raise NotAllowed if the brokers deny this user. aiokafka does not report why a client cannot be started."""
        if isinstance(error, LogUnavailable):
            await self._connection.check_authentication()
