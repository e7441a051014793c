"""The port on a folder."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import NoReturn, Self, TypeVar

from streamproc.errors import LogUnavailable, NoSuchTopic, OffsetLost
from streamproc.log.embedded import sql
from streamproc.log.embedded.database import Database
from streamproc.log.embedded.group import EmbeddedGroupMembership
from streamproc.log.embedded.transactions import EmbeddedTransactionalProducer
from streamproc.log.port import Offset, Record, TopicSettings, check_size

FILE = "log.sqlite"
POLL_INTERVAL_S = 0.05
"""Seconds between two looks for what other processes wrote."""
NO_VERSION = -1
"""Where nobody has created a log yet."""
TRIM_INTERVAL_S = 3600.0
"""Seconds between two times that a process which appends to a topic forgets what is too old there."""

T = TypeVar("T")


class EmbeddedLog:
    """A connection. Nothing is created before the first topic is; `timeout` is how long to wait for others' writes."""

    def __init__(self, folder: Path, *, timeout: float = 30.0) -> None:
        self.folder = folder
        self._reads = Database(folder / FILE, timeout)
        # Apart, so that a write which waits for another process holds up no reader.
        self._writes = Database(folder / FILE, timeout)
        self._trimmed: dict[str, float] = {}
        self._look: asyncio.Task[int] | None = None

    async def __aenter__(self) -> Self:
        await self.topics()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._look is not None:
            self._look.cancel()
        await self._reads.close()
        await self._writes.close()

    async def brokers(self) -> int:
        """This machine."""
        return 1

    async def topics(self) -> Mapping[str, int]:
        return await self._reads.read(sql.topics, absent=dict)

    async def settings_of(self, topic: str) -> TopicSettings:
        return await self._ask(topic, lambda db: sql.settings_of(db, topic))

    async def create_topic(self, topic: str, settings: TopicSettings) -> None:
        await self.write(lambda db: sql.create(db, topic, settings))

    async def delete_topic(self, topic: str) -> None:
        await self.write(lambda db: sql.delete(db, topic), absent=lambda: None)
        await self._writes.compact()

    async def start_offset(self, topic: str, partition: int) -> Offset:
        return Offset((await self._extent(topic, partition)).start)

    async def high_watermark(self, topic: str, partition: int) -> Offset:
        return Offset((await self._extent(topic, partition)).end)

    async def last_stable_offset(self, topic: str, partition: int) -> Offset:
        await self._expire()
        return await self._ask(topic, lambda db: Offset(sql.stable(db, sql.extent(db, topic, partition))))

    async def append(self, topic: str, partition: int, value: bytes, key: bytes | None = None) -> Offset:
        return (await self.append_many(topic, partition, [(key, value)]))[0]

    async def append_many(
        self, topic: str, partition: int, records: Sequence[tuple[bytes | None, bytes]]
    ) -> Sequence[Offset]:
        for key, value in records:
            check_size(topic, key, value)
        now = asyncio.get_running_loop().time()
        if now - self._trimmed.get(topic, -TRIM_INTERVAL_S) >= TRIM_INTERVAL_S:
            await self._change(topic, lambda db: sql.trim_by_age(db, topic))
            self._trimmed[topic] = now
        return list(map(Offset, await self._change(topic, lambda db: sql.append(db, topic, partition, records))))

    async def reader(self, topic: str, partition: int, offset: Offset) -> EmbeddedReader:
        at = await self._extent(topic, partition)
        if not at.start <= offset <= at.end:
            raise OffsetLost(topic, partition, offset, at.start, at.end)
        return EmbeddedReader(self, topic, partition, at.id, offset)

    async def transactional_producer(self, transactional_id: str, *, timeout: float = 60.0) -> EmbeddedTransactionalProducer:
        return EmbeddedTransactionalProducer(self._writes, transactional_id, timeout)

    async def join_group(self, group: str, topic: str) -> EmbeddedGroupMembership:
        settings = await self.settings_of(topic)
        return EmbeddedGroupMembership(self.folder, group, settings.partitions)

    async def read(self, topic: str, work: Callable[[sqlite3.Connection], T]) -> tuple[T, int]:
        """What a reader finds, and the version of the data it was found in."""
        expired, found, version = await self._ask(topic, lambda db: (sql.has_expired(db), work(db), _version(db)))
        if expired:
            await self.write(sql.expire)
            found, version = await self._ask(topic, lambda db: (work(db), _version(db)))
        return found, version

    async def changed(self, version: int, timeout: float) -> None:
        """Wait for a write of any process after `version`, at most `timeout` seconds."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        while (left := deadline - loop.time()) > 0:
            look = self._next_look()
            await asyncio.wait([look], timeout=left)
            if look.cancelled():
                raise LogUnavailable(f"embedded log {self.folder}: is closed")
            if look.done() and look.result() != version:
                return

    def _next_look(self) -> asyncio.Task[int]:
        """The version in a moment: one look for all readers, of which a process may have many that wait for months."""
        if self._look is None or self._look.done():
            self._look = asyncio.create_task(self._version_soon())
            self._look.add_done_callback(_take_notice)
        return self._look

    async def _version_soon(self) -> int:
        await asyncio.sleep(POLL_INTERVAL_S)
        return await self._reads.read(_version, absent=lambda: NO_VERSION)

    async def write(self, work: Callable[[sqlite3.Connection], T], absent: Callable[[], T] | None = None) -> T:
        """One atomic, durable change."""
        return await self._writes.write(work, absent)

    async def _extent(self, topic: str, partition: int) -> sql.Extent:
        return await self._ask(topic, lambda db: sql.extent(db, topic, partition))

    async def _ask(self, topic: str, work: Callable[[sqlite3.Connection], T]) -> T:
        return await self._reads.read(work, absent=_no_such_topic(topic))

    async def _change(self, topic: str, work: Callable[[sqlite3.Connection], T]) -> T:
        return await self.write(work, absent=_no_such_topic(topic))

    async def _expire(self) -> None:
        if await self._reads.read(sql.has_expired, absent=lambda: False):
            await self.write(sql.expire)


class EmbeddedReader:
    """Reads one partition of one incarnation of a topic."""

    def __init__(self, log: EmbeddedLog, topic: str, partition: int, opened: int, offset: Offset) -> None:
        self._log, self._topic, self._partition, self._opened = log, topic, partition, opened
        self._position = offset

    @property
    def position(self) -> Offset:
        return self._position

    @property
    def topic_id(self) -> bytes:
        return b"%d" % self._opened

    async def read(self, *, max_records: int = 10_000, timeout: float = 0.5) -> Sequence[Record]:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        while True:
            (found, self._position), version = await self._log.read(self._topic, self._look(max_records))
            left = deadline - loop.time()
            if found or left <= 0:
                return found
            await self._log.changed(version, left)

    def _look(self, count: int) -> Callable[[sqlite3.Connection], tuple[list[sql.StoredRecord], Offset]]:
        offset = self._position
        return lambda db: sql.read(db, self._topic, self._partition, self._opened, offset, count)

    async def close(self) -> None:
        """Nothing to let go of."""


def _version(db: sqlite3.Connection) -> int:
    """Changes with every commit of another connection."""
    return int(db.execute("PRAGMA data_version").fetchone()[0])


def _take_notice(look: asyncio.Task[int]) -> None:
    """Of its failure, which interests nobody if all who waited have gone."""
    if not look.cancelled():
        look.exception()


def _no_such_topic(topic: str) -> Callable[[], NoReturn]:
    def refuse() -> NoReturn:
        raise NoSuchTopic(topic)

    return refuse
