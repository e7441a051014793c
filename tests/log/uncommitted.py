"""Reading with the isolation level read_uncommitted, as anybody may who can read a topic. The product never does."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from streamproc.log.embedded import EmbeddedLog, sql
from streamproc.log.port import Log, Record
from streamproc.testing import SimulatedLog


@dataclass(frozen=True)
class UncommittedRecord:
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int


async def read_uncommitted(log: Log, topic: str, partition: int = 0) -> Sequence[Record]:
    """Return every record of a partition, those of open and aborted transactions too."""
    from streamproc.log.kafka import KafkaLog

    if isinstance(log, EmbeddedLog):
        return (await log.read(topic, lambda db: _rows(db, topic, partition)))[0]
    if isinstance(log, KafkaLog):
        return await _fetch(log, topic, partition)
    assert isinstance(log, SimulatedLog)
    stored = log.broker.partition(topic, partition)
    return stored.read(stored.start, len(stored.stored), committed=False)[0]


def _rows(db: sqlite3.Connection, topic: str, partition: int) -> list[Record]:
    at = sql.extent(db, topic, partition)
    base = at.id * sql.OFFSETS
    query = "SELECT id, key, value, at FROM records WHERE id >= ? AND id < ? ORDER BY id"
    rows = db.execute(query, (base + at.start, base + at.end)).fetchall()
    return [UncommittedRecord(id - base, key, value, round(1000 * seconds)) for id, key, value, seconds in rows]


async def _fetch(log: Log, topic: str, partition: int) -> list[Record]:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    end, place = await log.high_watermark(topic, partition), TopicPartition(topic, partition)
    options = log._settings.options()  # type: ignore[attr-defined]
    consumer = AIOKafkaConsumer(isolation_level="read_uncommitted", enable_auto_commit=False, **options)
    await consumer.start()
    try:
        consumer.assign([place])
        consumer.seek(place, await log.start_offset(topic, partition))
        found: list[Record] = []
        while await consumer.position(place) < end:
            found += (await consumer.getmany(place, timeout_ms=500)).get(place, ())
        return [record for record in found if record.offset < end]
    finally:
        await consumer.stop()
