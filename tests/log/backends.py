"""Log implementations under test: connections to each, and operations that only its operator can do."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Protocol

from streamproc.log.connect import connect
from streamproc.log.port import Log, Reader, Record, TopicSettings
from streamproc.testing import SimulatedBroker, SimulatedLog


class LogBackend(Protocol):
    async def connect(self) -> Log:
        """Another connection, as another process would have it; closed with the test."""
        ...

    async def trim(self, topic: str, partition: int, before: int) -> None:
        """What retention does: forget the records below an offset."""
        ...


class SimulatedBackend:
    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack
        self.broker = SimulatedBroker()

    async def connect(self) -> Log:
        return await self._stack.enter_async_context(SimulatedLog(self.broker))

    async def trim(self, topic: str, partition: int, before: int) -> None:
        self.broker.partition(topic, partition).trim(before)


class EmbeddedBackend:
    def __init__(self, stack: AsyncExitStack, folder: Path) -> None:
        self._stack = stack
        self.folder = folder

    async def connect(self) -> Log:
        return await self._stack.enter_async_context(connect(f"embedded:{self.folder}"))

    async def trim(self, topic: str, partition: int, before: int) -> None:
        from streamproc.log.embedded import EmbeddedLog, sql

        log = await self._stack.enter_async_context(EmbeddedLog(self.folder))
        await log.write(lambda db: sql.trim(db, topic, partition, before))


class KafkaBackend:
    def __init__(self, stack: AsyncExitStack, url: str) -> None:
        self._stack = stack
        self.url = url

    async def connect(self) -> Log:
        return await self._stack.enter_async_context(connect(self.url))

    async def trim(self, topic: str, partition: int, before: int) -> None:
        from aiokafka import TopicPartition
        from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete

        admin = AIOKafkaAdminClient(bootstrap_servers=self.url.removeprefix("kafka://"))
        await admin.start()
        try:
            await admin.delete_records({TopicPartition(topic, partition): RecordsToDelete(before)})
        finally:
            await admin.close()


async def new_topic(log: Log, partitions: int = 1) -> str:
    """A topic that no other test has, because they share one broker."""
    topic = f"study-{uuid.uuid4().hex[:8]}.reports"
    await log.create_topic(topic, TopicSettings(partitions))
    return topic


async def read_to(reader: Reader, position: int) -> list[Record]:
    """Everything a reader finds until it stands at `position`, which it must reach."""
    found: list[Record] = []
    async with asyncio.timeout(60):
        while True:
            found += await reader.read(timeout=0.25)
            if reader.position >= position:
                return found


async def read_all(log: Log, topic: str, partition: int = 0) -> list[bytes | None]:
    """Every value a new reader sees, up to where such a reader can go now."""
    start = await log.start_offset(topic, partition)
    end = await log.last_stable_offset(topic, partition)
    reader = await log.reader(topic, partition, start)
    try:
        return values(await read_to(reader, end))
    finally:
        await reader.close()


def values(records: Sequence[Record]) -> list[bytes | None]:
    return [record.value for record in records]
