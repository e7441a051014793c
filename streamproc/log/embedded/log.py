"""The `Log` port on a folder of this machine."""

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
from streamproc.log.port import NO_TIME, Offset, Record, TopicSettings, TransactionStateMachine, check_size

FILE = "log.sqlite"
POLL_INTERVAL_S = 0.05
"""Seconds between two checks for writes of other processes."""
NO_VERSION = -1
"""Data version of a log that does not exist yet."""
TRIM_INTERVAL_S = 3600.0
"""Seconds between two removals of expired records by a process that appends to a topic."""

T = TypeVar("T")


class EmbeddedLog:
    """A connection. Nothing is created before the first topic. `timeout`: seconds to wait for other writers."""

    def __init__(self, folder: Path, *, timeout: float = 30.0) -> None:
        self.folder = folder
        self._reads = Database(folder / FILE, timeout)
        # A connection of its own, so that a write that waits for another process does not delay readers.
        self._writes = Database(folder / FILE, timeout)
        self._trimmed: dict[str, float] = {}
        self._version_task: asyncio.Task[int] | None = None

    async def __aenter__(self) -> Self:
        await self.topics()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._version_task is not None:
            self._version_task.cancel()
        await self._reads.close()
        await self._writes.close()

    async def brokers(self) -> int:
        """Return 1."""
        return 1

    async def topics(self) -> Mapping[str, int]:
        return await self._reads.read(sql.topics, absent=dict)

    async def settings_of(self, topic: str) -> TopicSettings:
        return await self._read_topic(topic, lambda db: sql.settings_of(db, topic))

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
        return await self._read_topic(topic, lambda db: Offset(sql.stable(db, sql.extent(db, topic, partition))))

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
        """Return the result of `work` and the version of the data that it has read. Aborts expired transactions first."""
        expired, found, version = await self._read_topic(topic, lambda db: (sql.has_expired(db), work(db), _version(db)))
        if expired:
            await self.write(sql.expire)
            found, version = await self._read_topic(topic, lambda db: (work(db), _version(db)))
        return found, version

    async def changed(self, version: int, timeout: float) -> None:
        """Wait until any process has written after `version`, for at most `timeout` seconds."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        while (left := deadline - loop.time()) > 0:
            task = self._next_version()
            await asyncio.wait([task], timeout=left)
            if task.cancelled():
                raise LogUnavailable(f"embedded log {self.folder}: the connection is closed")
            if task.done() and task.result() != version:
                return

    def _next_version(self) -> asyncio.Task[int]:
        """Return the task that reads the next version. All readers share it, because there may be many that wait long."""
        if self._version_task is None or self._version_task.done():
            self._version_task = asyncio.create_task(self._version_soon())
            self._version_task.add_done_callback(_mark_retrieved)
        return self._version_task

    async def _version_soon(self) -> int:
        await asyncio.sleep(POLL_INTERVAL_S)
        return await self._reads.read(_version, absent=lambda: NO_VERSION)

    async def write(self, work: Callable[[sqlite3.Connection], T], absent: Callable[[], T] | None = None) -> T:
        """Run `work` as one atomic, durable change. Where there is no log, return `absent()`, or create one without it."""
        return await self._writes.write(work, absent)

    async def _extent(self, topic: str, partition: int) -> sql.Extent:
        return await self._read_topic(topic, lambda db: sql.extent(db, topic, partition))

    async def _read_topic(self, topic: str, work: Callable[[sqlite3.Connection], T]) -> T:
        return await self._reads.read(work, absent=_no_such_topic(topic))

    async def _change(self, topic: str, work: Callable[[sqlite3.Connection], T]) -> T:
        return await self.write(work, absent=_no_such_topic(topic))

    async def _expire(self) -> None:
        if await self._reads.read(sql.has_expired, absent=lambda: False):
            await self.write(sql.expire)


class EmbeddedReader:
    """Reads one partition of a topic. If the topic is recreated, it raises OffsetLost."""

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
            (found, self._position), version = await self._log.read(self._topic, self._read_from_position(max_records))
            left = deadline - loop.time()
            if found or left <= 0:
                return found
            await self._log.changed(version, left)

    def _read_from_position(self, count: int) -> Callable[[sqlite3.Connection], tuple[list[sql.StoredRecord], Offset]]:
        offset = self._position
        return lambda db: sql.read(db, self._topic, self._partition, self._opened, offset, count)

    async def close(self) -> None:
        """Do nothing: a reader holds no resources."""


class EmbeddedTransactionalProducer:
    """`send` stores a record with its offset; `commit` only changes the status of the transaction.

    Each change checks the epoch of the id in the same SQLite transaction.
    """

    def __init__(self, database: Database, transactional_id: str, timeout: float) -> None:
        self._database, self._id, self._timeout = database, transactional_id, timeout
        self._state = TransactionStateMachine()
        self._epoch = 0
        self._transaction: int | None = None

    async def fence(self) -> None:
        with self._state.transition("fence"):
            self._epoch = await self._database.write(lambda db: sql.fence(db, self._id))

    async def begin(self) -> None:
        with self._state.transition("begin"):
            self._transaction = None

    async def send(
        self, topic: str, partition: int, value: bytes, key: bytes | None = None, *, timestamp: int = NO_TIME
    ) -> Offset:
        def work(db: sqlite3.Connection) -> tuple[int, Offset]:
            sql.expire(db)
            if self._transaction is None:
                transaction = sql.begin(db, self._id, self._epoch, self._timeout)
            else:
                transaction = self._transaction
                sql.check(db, self._id, self._epoch, transaction)
            offsets = sql.append(db, topic, partition, [(key, value)], transaction, at=timestamp / 1000)
            return transaction, Offset(offsets[0])

        with self._state.transition("send"):
            check_size(topic, key, value)
            self._transaction, offset = await self._database.write(work, _no_such_topic(topic))
            return offset

    async def commit(self) -> None:
        with self._state.transition("commit"):
            transaction = self._transaction
            if transaction is None:
                return

            def work(db: sqlite3.Connection) -> None:
                sql.check(db, self._id, self._epoch, transaction)
                sql.end(db, transaction, sql.Status.COMMITTED)

            await self._database.write(work)

    async def close(self) -> None:
        """Do nothing. An open transaction stays open until it times out or is fenced, as on Kafka."""


def _version(db: sqlite3.Connection) -> int:
    """Return a number that changes with every commit of another connection."""
    return int(db.execute("PRAGMA data_version").fetchone()[0])


def _mark_retrieved(task: asyncio.Task[int]) -> None:
    """Retrieve the error of a task, so that the event loop does not log it if no reader waits any more."""
    if not task.cancelled():
        task.exception()


def _no_such_topic(topic: str) -> Callable[[], NoReturn]:
    def refuse() -> NoReturn:
        raise NoSuchTopic(topic)

    return refuse
