"""The `Log` port: partitioned, append-only topics with transactions, on Kafka, on one machine, and simulated.

What every implementation promises, and the conformance suite checks:

- Offsets of a partition grow; a record once readable never changes or moves.
- `append` returns when the record is durable, and appends it once even if the acknowledgement had to be retried.
- A committed reader sees nothing of an open or aborted transaction; its position still passes over them.
- `high_watermark` is the high watermark: the offset after the last durable record, of open transactions too.
- `fence` makes every older transactor of the same id unable to commit, and ends its open transaction.
- Nothing creates a topic but `create_topic`. A topic deleted and created anew is another one: no reader goes over to it.
- A record has at most `MAX_RECORD_BYTES` in key and value together.
- A record of a transaction has the timestamp that `send` was given, and never the time at which it was sent.

Errors are those of `streamproc.errors.LogError`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import NewType, Protocol, Self

from streamproc.errors import RecordTooLarge

Offset = NewType("Offset", int)
"""A position in one partition of one topic."""

MAX_RECORD_BYTES = 1_000_000
"""Just under what a Kafka broker takes unless told otherwise (`message.max.bytes`), its own framing included."""

NO_TIME = 0
"""The timestamp of a record that says nothing about time: 1970-01-01. A negative one would stop some Kafka clients."""


class Record(Protocol):
    """One record as read; implementations may hand out their client's own objects."""

    @property
    def offset(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def timestamp(self) -> int:
        """Milliseconds since 1970: what the sender chose within a transaction, else about when the record was appended."""
        ...


@dataclass(frozen=True)
class TopicSettings:
    """How a topic must be set up; compared as a whole, so that a difference can be shown."""

    partitions: int
    retention_ms: int = -1
    """-1 keeps records for ever."""
    replication: int = 1
    min_insync_replicas: int = 1
    cleanup_policy: str = "delete"
    retention_bytes: int = -1
    unclean_leader_election: bool = False
    compression: str = "uncompressed"
    """Whatever a client sends, the log keeps and hands out plain records."""
    max_batch_bytes: int = 1_048_588
    """Of records that are sent together, unpacked: what Kafka takes unless told otherwise."""
    timestamp_type: str = "CreateTime"
    """Records keep the timestamps of their senders. `LogAppendTime` would show when the broker received them."""
    timestamp_before_max_ms: int = 2**63 - 1
    """How far in the past a timestamp may lie: without limit, because public records may be stamped with 1970."""


class Reader(Protocol):
    """Reads one partition from an offset on."""

    @property
    def position(self) -> Offset:
        """The next offset to be read, as of the last `read`. A `read` passes over transaction markers and aborted records,
        also when it finds nothing."""
        ...

    @property
    def topic_id(self) -> bytes:
        """Which topic of that name it reads: one that is created anew has another."""
        ...

    async def read(self, *, max_records: int = 10_000, timeout: float = 0.5) -> Sequence[Record]:
        """The next records in order; empty if none came within `timeout` seconds.

        Raises NoSuchTopic or OffsetLost, for ever after, when the topic is gone or created anew; NotAllowed; LogUnavailable.
        """
        ...

    async def close(self) -> None: ...


class TransactionalProducer(Protocol):
    """Appends to several topics atomically, and makes sure nobody older can.

    Fence once, before anything else. After a call that failed there is only `close`: whatever else is asked raises
    OutcomeUnknown (Fenced, if it was that), because a transaction that lacks a record must not be committed.
    """

    async def fence(self) -> None:
        """Take over the id. Afterwards an older transactor's `commit` raises Fenced and its open transaction is aborted."""
        ...

    async def begin(self) -> None: ...

    async def send(
        self, topic: str, partition: int, value: bytes, key: bytes | None = None, *, timestamp: int = NO_TIME
    ) -> Offset:
        """Append within the open transaction; returns when this record is acknowledged.

        `timestamp`: what readers see as the record's time, in milliseconds since 1970. It never defaults to the clock,
        because the time at which something was computed may depend on private data.
        """
        ...

    async def commit(self) -> None:
        """Returns when it is decided, and as a rule when committed readers can see it: they may have to wait for an older
        transaction of another id in the same partition."""
        ...

    async def close(self) -> None: ...


class GroupMembership(Protocol):
    """Which partitions this process should gather; changes as other members come and go."""

    @property
    def joined(self) -> bool:
        """Whether the group has given this member its first assignment, which may be empty."""
        ...

    async def assigned(self, *, timeout: float = 0.5) -> frozenset[int]:
        """The current assignment; waits up to `timeout` seconds for a change, then answers with what it is.

        Ask at least every few seconds: who does not is taken for dead. Asking again also says that work on the partitions
        which were missing from the last answer has stopped.
        """
        ...

    async def close(self) -> None: ...


class Log(Protocol):
    """A connection to a log. Entering it connects."""

    async def __aenter__(self) -> Self: ...
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    async def brokers(self) -> int:
        """How many brokers there are; 1 for a log on one machine."""
        ...

    async def topics(self) -> Mapping[str, int]:
        """Every topic there is, with its number of partitions. Creates nothing."""
        ...

    async def settings_of(self, topic: str) -> TopicSettings:
        """How a topic is set up. Raises NoSuchTopic."""
        ...

    async def create_topic(self, topic: str, settings: TopicSettings) -> None:
        """Create it; already there is fine and changes nothing."""
        ...

    async def delete_topic(self, topic: str) -> None:
        """Delete it; returns when it is gone, also if it was before."""
        ...

    async def start_offset(self, topic: str, partition: int) -> Offset:
        """The oldest offset still in the log."""
        ...

    async def high_watermark(self, topic: str, partition: int) -> Offset:
        """The high watermark."""
        ...

    async def last_stable_offset(self, topic: str, partition: int) -> Offset:
        """Where the oldest open transaction begins, or the high watermark if there is none."""
        ...

    async def append(self, topic: str, partition: int, value: bytes, key: bytes | None = None) -> Offset:
        """Append one record durably; raises OutcomeUnknown if it cannot be told whether it was.

        Also NoSuchTopic, NotAllowed, RecordTooLarge, and LogUnavailable if nothing was sent.
        """
        ...

    async def append_many(
        self, topic: str, partition: int, records: Sequence[tuple[bytes | None, bytes]]
    ) -> Sequence[Offset]:
        """Append `(key, value)` records in order, as fast as the log can."""
        ...

    async def reader(self, topic: str, partition: int, offset: Offset) -> Reader:
        """Return a reader of committed records from `offset` on.

        Raises OffsetLost unless the offset is in the log or its end.
        """
        ...

    async def transactional_producer(self, transactional_id: str, *, timeout: float = 60.0) -> TransactionalProducer:
        """A transactor that has not fenced anybody yet; a transaction open for longer than `timeout` seconds is aborted.

        On Kafka it is, unless given, what STREAMPROC_KAFKA_TRANSACTION_TIMEOUT says.
        """
        ...

    async def join_group(self, group: str, topic: str) -> GroupMembership:
        """Join the group that shares the partitions of `topic`."""
        ...


def check_size(topic: str, key: bytes | None, value: bytes) -> None:
    """Refuse a record that is too large, before anything is done."""
    size = len(value) + len(key or b"")
    if size > MAX_RECORD_BYTES:
        raise RecordTooLarge(topic, size, MAX_RECORD_BYTES)


async def read_to_end(log: Log, topic: str, partition: int = 0) -> AsyncGenerator[Record, None]:
    """All committed records of a partition, from its start to where it ends now; none if there is no such topic."""
    if topic not in await log.topics():
        return
    end = await log.last_stable_offset(topic, partition)
    reader = await log.reader(topic, partition, await log.start_offset(topic, partition))
    try:
        while reader.position < end:
            for record in await reader.read():
                if record.offset < end:
                    yield record
    finally:
        await reader.close()
