"""Schema and SQL statements of the SQLite file of an embedded log. All functions are synchronous.

The row id of a record is the id of its partition times 2^40 plus its offset, so a partition is contiguous and in order.
Partition ids are never reused: a recreated topic has new partitions, and a reader of the old ones raises OffsetLost.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import IntEnum

from streamproc.errors import Fenced, NoSuchTopic, OffsetLost
from streamproc.log.port import Offset, TopicSettings

OFFSETS = 2**40
"""Maximum number of offsets of a partition. It leaves room for 2^23 partitions."""

SCHEMA = """
CREATE TABLE topics (name TEXT PRIMARY KEY, partitions INTEGER NOT NULL, settings TEXT NOT NULL);
CREATE TABLE partitions (
    id INTEGER PRIMARY KEY AUTOINCREMENT, topic TEXT NOT NULL REFERENCES topics (name), partition INTEGER NOT NULL,
    first INTEGER NOT NULL DEFAULT 0, next INTEGER NOT NULL DEFAULT 0, UNIQUE (topic, partition));
CREATE TABLE records (
    id INTEGER PRIMARY KEY, key BLOB, value BLOB NOT NULL, at REAL NOT NULL, txn INTEGER REFERENCES transactions (id));
CREATE TABLE transactors (name TEXT PRIMARY KEY, epoch INTEGER NOT NULL);
CREATE TABLE transactions (
    id INTEGER PRIMARY KEY AUTOINCREMENT, transactor TEXT NOT NULL, status INTEGER NOT NULL, deadline REAL NOT NULL);
CREATE INDEX open_transactions ON transactions (status) WHERE status = 0;
CREATE TABLE touched (txn INTEGER NOT NULL, partition INTEGER NOT NULL, first INTEGER NOT NULL, PRIMARY KEY (txn, partition))
    WITHOUT ROWID;
"""
"""`touched` has the first offset of each open transaction in each partition, and no rows for ended transactions."""


class Status(IntEnum):
    """Status of a transaction."""

    OPEN = 0
    COMMITTED = 1
    ABORTED = 2


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A stored record."""

    offset: int
    key: bytes | None
    value: bytes
    at: float
    """Timestamp in seconds since 1970."""

    @property
    def timestamp(self) -> int:
        return round(1000 * self.at)


@dataclass(frozen=True)
class Extent:
    """Id of a partition, its first offset and the offset after its last record."""

    id: int
    start: int
    end: int


def create(db: sqlite3.Connection, topic: str, settings: TopicSettings) -> None:
    """Create a topic unless it exists."""
    row = (topic, settings.partitions, json.dumps(asdict(settings)))
    if db.execute("INSERT OR IGNORE INTO topics VALUES (?, ?, ?)", row).rowcount:
        numbers = [(topic, partition) for partition in range(settings.partitions)]
        db.executemany("INSERT INTO partitions (topic, partition) VALUES (?, ?)", numbers)


def delete(db: sqlite3.Connection, topic: str) -> None:
    """Delete a topic and its records."""
    for (partition,) in db.execute("SELECT id FROM partitions WHERE topic = ?", (topic,)).fetchall():
        db.execute("DELETE FROM records WHERE id >= ? AND id < ?", (partition * OFFSETS, (partition + 1) * OFFSETS))
        db.execute("DELETE FROM touched WHERE partition = ?", (partition,))
    db.execute("DELETE FROM partitions WHERE topic = ?", (topic,))
    db.execute("DELETE FROM topics WHERE name = ?", (topic,))


def topics(db: sqlite3.Connection) -> dict[str, int]:
    """Return the number of partitions of each topic."""
    return dict(db.execute("SELECT name, partitions FROM topics"))


def settings_of(db: sqlite3.Connection, topic: str) -> TopicSettings:
    """Return the settings of a topic. Raises NoSuchTopic."""
    row = db.execute("SELECT settings FROM topics WHERE name = ?", (topic,)).fetchone()
    if row is None:
        raise NoSuchTopic(topic)
    return TopicSettings(**json.loads(row[0]))


def extent(db: sqlite3.Connection, topic: str, partition: int) -> Extent:
    """Return the current extent of a partition. Raises NoSuchTopic."""
    query = "SELECT id, first, next FROM partitions WHERE topic = ? AND partition = ?"
    row = db.execute(query, (topic, partition)).fetchone()
    if row is None:
        known = db.execute("SELECT 1 FROM topics WHERE name = ?", (topic,)).fetchone()
        raise NoSuchTopic(topic, partition if known else None)
    return Extent(*row)


def stable(db: sqlite3.Connection, at: Extent) -> int:
    """Return the last stable offset: the first offset of the oldest open transaction, or the end."""
    first = db.execute("SELECT min(first) FROM touched WHERE partition = ?", (at.id,)).fetchone()[0]
    return at.end if first is None else int(first)


def append(
    db: sqlite3.Connection,
    topic: str,
    partition: int,
    records: Sequence[tuple[bytes | None, bytes]],
    transaction: int | None = None,
    at: float | None = None,
) -> range:
    """Append records in order and return their offsets. `at` is their timestamp in seconds since 1970; None means now."""
    into = extent(db, topic, partition)
    offsets = range(into.end, into.end + len(records))
    stamp = time.time() if at is None else at
    rows = (
        (into.id * OFFSETS + offset, key, value, stamp, transaction)
        for offset, (key, value) in zip(offsets, records, strict=True)
    )
    db.executemany("INSERT INTO records VALUES (?, ?, ?, ?, ?)", rows)
    db.execute("UPDATE partitions SET next = ? WHERE id = ?", (offsets.stop, into.id))
    if transaction is not None:
        db.execute("INSERT OR IGNORE INTO touched VALUES (?, ?, ?)", (transaction, into.id, into.end))
    return offsets


def read(
    db: sqlite3.Connection, topic: str, partition: int, opened: int, offset: int, count: int
) -> tuple[list[StoredRecord], Offset]:
    """Return up to `count` committed records from `offset` on, and the next offset to read.

    Raises OffsetLost if the partition was recreated (its id is not `opened` any more) or does not have this offset.
    """
    at = extent(db, topic, partition)
    if at.id != opened or not at.start <= offset <= at.end:
        raise OffsetLost(topic, partition, offset, at.start, at.end)
    end = stable(db, at)
    committed = f"txn IS NULL OR (SELECT status FROM transactions t WHERE t.id = txn) = {Status.COMMITTED:d}"
    query = f"SELECT id, key, value, at FROM records WHERE id >= ? AND id < ? AND ({committed}) ORDER BY id LIMIT ?"
    base = at.id * OFFSETS
    rows = db.execute(query, (base + offset, base + end, count)).fetchall()
    found = [StoredRecord(id - base, key, value, stamp) for id, key, value, stamp in rows]
    return found, Offset(found[-1].offset + 1 if len(found) == count else max(offset, end))


def trim(db: sqlite3.Connection, topic: str, partition: int, before: int) -> None:
    """Delete the records below an offset, or only those before the oldest open transaction if that is lower."""
    at = extent(db, topic, partition)
    before = min(before, stable(db, at))
    if before > at.start:
        db.execute("DELETE FROM records WHERE id >= ? AND id < ?", (at.id * OFFSETS, at.id * OFFSETS + before))
        db.execute("UPDATE partitions SET first = ? WHERE id = ?", (before, at.id))


def trim_by_age(db: sqlite3.Connection, topic: str) -> None:
    """Delete records that are older than the retention time of the topic."""
    settings = settings_of(db, topic)
    for partition in range(settings.partitions if settings.retention_ms >= 0 else 0):
        at = extent(db, topic, partition)
        young = db.execute(
            "SELECT min(id) FROM records WHERE id >= ? AND id < ? AND at >= ?",
            (at.id * OFFSETS, (at.id + 1) * OFFSETS, time.time() - settings.retention_ms / 1000),
        ).fetchone()[0]
        trim(db, topic, partition, at.end if young is None else young - at.id * OFFSETS)


def fence(db: sqlite3.Connection, name: str) -> int:
    """Start and return a new epoch of a transactional id. Aborts the open transaction of an older epoch."""
    query = "INSERT INTO transactors VALUES (?, 1) ON CONFLICT DO UPDATE SET epoch = epoch + 1 RETURNING epoch"
    epoch = db.execute(query, (name,)).fetchone()[0]
    _abort(db, "transactor = ?", name)
    return int(epoch)


def begin(db: sqlite3.Connection, name: str, epoch: int, timeout: float) -> int:
    """Begin a transaction and return its id. Raises Fenced if there is a newer epoch."""
    _check_epoch(db, name, epoch)
    row = (name, Status.OPEN, time.time() + timeout)
    return db.execute("INSERT INTO transactions (transactor, status, deadline) VALUES (?, ?, ?)", row).lastrowid or 0


def check(db: sqlite3.Connection, name: str, epoch: int, transaction: int) -> None:
    """Raise Fenced if there is a newer epoch, or if the transaction is no longer open."""
    _check_epoch(db, name, epoch)
    row = db.execute("SELECT status, deadline FROM transactions WHERE id = ?", (transaction,)).fetchone()
    if row is None or row[0] != Status.OPEN or row[1] <= time.time():
        raise Fenced(f"the transaction of {name} timed out")


def end(db: sqlite3.Connection, transaction: int, status: Status) -> None:
    """End a transaction with the status COMMITTED or ABORTED."""
    db.execute("UPDATE transactions SET status = ? WHERE id = ?", (status, transaction))
    db.execute("DELETE FROM touched WHERE txn = ?", (transaction,))


def has_expired(db: sqlite3.Connection) -> bool:
    """Return whether an open transaction has passed its deadline."""
    query = "SELECT EXISTS (SELECT 1 FROM transactions WHERE status = 0 AND deadline <= ?)"
    return bool(db.execute(query, (time.time(),)).fetchone()[0])


def expire(db: sqlite3.Connection) -> None:
    """Abort transactions that have passed their deadline. The status is stored, so that no clock change can undo it."""
    _abort(db, "deadline <= ?", time.time())


def _abort(db: sqlite3.Connection, which: str, argument: object) -> None:
    for (transaction,) in db.execute(f"SELECT id FROM transactions WHERE status = 0 AND {which}", (argument,)).fetchall():
        end(db, transaction, Status.ABORTED)


def _check_epoch(db: sqlite3.Connection, name: str, epoch: int) -> None:
    row = db.execute("SELECT epoch FROM transactors WHERE name = ?", (name,)).fetchone()
    if row is None or row[0] != epoch:
        raise Fenced(f"another process took over {name}")
