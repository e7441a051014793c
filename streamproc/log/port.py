"""The `Log` port: partitioned, append-only topics with transactions, on Kafka, on one machine, and simulated.

Every implementation guarantees the following, and the conformance suite checks it:

- Offsets of a partition increase. A record that was readable once never changes or moves.
- `append` returns when the record is durable, and appends it once even if the request had to be retried.
- A reader returns no record of an open or aborted transaction. Its position passes over aborted ones.
- `high_watermark` is the offset after the last durable record, including records of open transactions.
- After `fence` no older producer of the same transactional id can commit, and its open transaction is aborted.
- Only `create_topic` creates topics. A topic that is deleted and recreated has another id, and no reader continues in it.
- A record has at most `MAX_RECORD_BYTES` in key and value together.
- A record of a transaction has the timestamp that was passed to `send`, never the time at which it was sent.

Errors are those of `streamproc.errors.LogError`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from types import TracebackType
from typing import NewType, Protocol, Self

from streamproc.errors import Fenced, OutcomeUnknown, RecordTooLarge

Offset = NewType("Offset", int)
"""A position in one partition of one topic."""

MAX_RECORD_BYTES = 1_000_000
"""Maximum size of a record. It is below the default `message.max.bytes` of Kafka, which includes framing."""

NO_TIME = 0
"""Timestamp of a record without time information: 1970-01-01. Some Kafka clients fail on negative timestamps."""


class Record(Protocol):
    """A record as read. Implementations may return the objects of their client library."""

    @property
    def offset(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def timestamp(self) -> int:
        """Milliseconds since 1970: the value passed to `send` within a transaction, else about the time of the append."""
        ...


@dataclass(frozen=True)
class TopicSettings:
    """Settings of a topic."""

    partitions: int
    retention_ms: int = -1
    """Retention time in milliseconds; -1 keeps records forever."""
    replication: int = 1
    min_insync_replicas: int = 1
    cleanup_policy: str = "delete"
    retention_bytes: int = -1
    unclean_leader_election: bool = False
    compression: str = "uncompressed"
    """With `uncompressed`, brokers decompress the batches that clients send."""
    max_batch_bytes: int = 1_048_588
    """Maximum size of a decompressed batch. This is the default of Kafka."""
    timestamp_type: str = "CreateTime"
    """Records keep the timestamps of their senders. `LogAppendTime` would show when the broker received them."""
    timestamp_before_max_ms: int = 2**63 - 1
    """Maximum age of a timestamp. There is no limit, because public records may have timestamps of 1970."""


class Reader(Protocol):
    """Reads the committed records of one partition from an offset on."""

    @property
    def position(self) -> Offset:
        """Next offset to read. `read` passes over transaction markers and aborted records, even if it returns nothing."""
        ...

    @property
    def topic_id(self) -> bytes:
        """Id of the topic that was opened. A recreated topic of the same name has another id."""
        ...

    async def read(self, *, max_records: int = 10_000, timeout: float = 0.5) -> Sequence[Record]:
        """Return the next records in order, or none if none arrived within `timeout` seconds.

        Raises NoSuchTopic or OffsetLost if the topic was deleted or recreated, and then for each later call. Also raises
        NotAllowed and LogUnavailable.
        """
        ...

    async def close(self) -> None: ...


class TransactionalProducer(Protocol):
    """Appends to several topics atomically, and excludes older producers of the same transactional id.

    Call `fence` once, before anything else. After a call that failed, only `close` is allowed. Every other call raises
    OutcomeUnknown (or Fenced, if that was the failure), because a transaction that lacks a record must not be committed.
    """

    async def fence(self) -> None:
        """Take over the id. An older producer's open transaction is aborted, and its `commit` raises Fenced from now on."""
        ...

    async def begin(self) -> None: ...

    async def send(
        self, topic: str, partition: int, value: bytes, key: bytes | None = None, *, timestamp: int = NO_TIME
    ) -> Offset:
        """Append a record to the open transaction and return its offset when it is acknowledged.

        `timestamp` is the record's timestamp in milliseconds since 1970. It never defaults to the current time, because the
        time at which something was computed may depend on private data.
        """
        ...

    async def commit(self) -> None:
        """Commit the transaction. Usually readers see it when this returns, but they may have to wait for an older
        transaction of another id in the same partition."""
        ...

    async def close(self) -> None: ...


class GroupMembership(Protocol):
    """The partitions that this process should gather. They change when other members join or leave the group."""

    @property
    def joined(self) -> bool:
        """Whether this member has received its first assignment, which may be empty."""
        ...

    async def assigned(self, *, timeout: float = 0.5) -> frozenset[int]:
        """Wait up to `timeout` seconds for a change of the assignment, then return the current assignment.

        Call this at least every few seconds, or the group removes this member. A call also confirms that work on the
        partitions that were missing from the last result has stopped.
        """
        ...

    async def close(self) -> None: ...


class Log(Protocol):
    """A connection to a log. Use it as an async context manager: entering it connects."""

    async def __aenter__(self) -> Self: ...
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    async def brokers(self) -> int:
        """Return the number of brokers. It is 1 for a log on one machine."""
        ...

    async def topics(self) -> Mapping[str, int]:
        """Return the number of partitions of each topic. Creates nothing."""
        ...

    async def settings_of(self, topic: str) -> TopicSettings:
        """Return the settings of a topic. Raises NoSuchTopic."""
        ...

    async def create_topic(self, topic: str, settings: TopicSettings) -> None:
        """Create a topic. An existing topic is left unchanged. Raises NotAllowed, PolicyViolated and InvalidInput."""
        ...

    async def delete_topic(self, topic: str) -> None:
        """Delete a topic and return when it is gone. A missing topic is not an error."""
        ...

    async def start_offset(self, topic: str, partition: int) -> Offset:
        """Return the oldest offset that is still in the log."""
        ...

    async def high_watermark(self, topic: str, partition: int) -> Offset:
        """Return the offset after the last durable record."""
        ...

    async def last_stable_offset(self, topic: str, partition: int) -> Offset:
        """Return the first offset of the oldest open transaction, or the high watermark if no transaction is open."""
        ...

    async def append(self, topic: str, partition: int, value: bytes, key: bytes | None = None) -> Offset:
        """Append one record durably and return its offset.

        Raises OutcomeUnknown if it is unknown whether the record was appended, LogUnavailable if it was not sent, and
        NoSuchTopic, NotAllowed and RecordTooLarge.
        """
        ...

    async def append_many(
        self, topic: str, partition: int, records: Sequence[tuple[bytes | None, bytes]]
    ) -> Sequence[Offset]:
        """Append `(key, value)` records in order and return their offsets. Raises the same errors as `append`."""
        ...

    async def reader(self, topic: str, partition: int, offset: Offset) -> Reader:
        """Return a reader of committed records from `offset` on.

        Raises OffsetLost unless the offset is in the log or its end.
        """
        ...

    async def transactional_producer(self, transactional_id: str, *, timeout: float = 60.0) -> TransactionalProducer:
        """Return a transactional producer that has not called `fence` yet.

        A transaction that is open for longer than `timeout` seconds is aborted. On Kafka the default is the value of
        STREAMPROC_KAFKA_TRANSACTION_TIMEOUT.
        """
        ...

    async def join_group(self, group: str, topic: str) -> GroupMembership:
        """Join the group that shares the partitions of `topic`."""
        ...


def check_size(topic: str, key: bytes | None, value: bytes) -> None:
    """Raise RecordTooLarge if key and value together have more than MAX_RECORD_BYTES."""
    size = len(value) + len(key or b"")
    if size > MAX_RECORD_BYTES:
        raise RecordTooLarge(topic, size, MAX_RECORD_BYTES)


async def read_to_end(log: Log, topic: str, partition: int = 0) -> AsyncGenerator[Record, None]:
    """Yield all committed records of a partition, up to its present end. Yields none if the topic does not exist."""
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


class TransactionState(Enum):
    """State of a transactional producer."""

    NEW = "new"
    READY = "fenced"
    OPEN = "in a transaction"


_TRANSITIONS = {
    "fence": (TransactionState.NEW, TransactionState.READY),
    "begin": (TransactionState.READY, TransactionState.OPEN),
    "send": (TransactionState.OPEN, TransactionState.OPEN),
    "commit": (TransactionState.OPEN, TransactionState.READY),
}


class TransactionStateMachine:
    """Raises RuntimeError for a call out of order, and refuses every call after one that failed."""

    def __init__(self) -> None:
        self.state = TransactionState.NEW
        self._failure: BaseException | None = None

    @contextmanager
    def transition(self, call: str) -> Iterator[None]:
        """Wrap the work of a call. Success changes the state; after an exception the producer cannot be used again.

        Raises Fenced or OutcomeUnknown if an earlier call failed.
        """
        if isinstance(self._failure, Fenced):
            raise Fenced(str(self._failure))
        if self._failure is not None:
            raise OutcomeUnknown("an earlier call of this transactional producer failed; use a new one")
        before, after = _TRANSITIONS[call]
        if self.state is not before:
            raise RuntimeError(f"{call}: the transactional producer is {self.state.value}, expected {before.value}")
        try:
            yield
        except BaseException as error:
            self._failure = error
            raise
        self.state = after
