"""A message broker in memory: topics, transactions and consumer groups with the behaviour of Kafka.

Every call is atomic and synchronous. `SimulatedLog` is a connection to it.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum

from streamproc.errors import Fenced, NoSuchTopic, OffsetLost
from streamproc.log.port import TopicSettings
from streamproc.storage.clock import Clock, SystemClock

SESSION_TIMEOUT = 10.0
"""Seconds without a call after which a member is removed from its group."""


class Changes:
    """A version number that coroutines can wait on."""

    def __init__(self) -> None:
        self.version = 0
        """Increases with every change."""
        self._waiting: list[asyncio.Future[None]] = []

    def wake(self) -> None:
        """Increase the version and wake every waiting coroutine."""
        self.version += 1
        for waiter in self._waiting:
            _wake(waiter)
        self._waiting.clear()

    async def after(self, seen: int, timeout: float) -> None:
        """Wait for a change after version `seen`, at most `timeout` seconds."""
        if self.version != seen:
            return
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        alarm = loop.call_later(timeout, _wake, waiter)
        self._waiting.append(waiter)
        try:
            await waiter
        finally:
            alarm.cancel()
            if waiter in self._waiting:
                self._waiting.remove(waiter)


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


class TransactionStatus(Enum):
    """The state of a transaction."""

    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"


@dataclass(eq=False)
class Transaction:
    """A transaction of one epoch of a transactional id."""

    transactional_id: str
    epoch: int
    deadline: float
    status: TransactionStatus = TransactionStatus.OPEN
    touched: list[Partition] = field(default_factory=list)

    def mark(self, partition: Partition) -> None:
        """Append the end marker to a partition, unless it has one."""
        if partition.opened.pop(self, None) is not None:
            partition.append(None, None, self, marker=True)


@dataclass(frozen=True)
class StoredRecord:
    """The record or transaction marker at one offset."""

    offset: int
    key: bytes | None
    value: bytes | None
    transaction: Transaction | None = None
    marker: bool = False
    timestamp: int = 0
    arrived: float = 0.0
    """Seconds since 1970 by the broker's clock. The `Log` port does not show this; tests use it."""


@dataclass(eq=False)
class Partition:
    """One partition of a topic: its records in order, `start` being the offset of the first."""

    number: int = 0
    """Unique among all partitions that the broker ever had, those of deleted topics included."""
    start: int = 0
    stored: list[StoredRecord] = field(default_factory=list)
    opened: dict[Transaction, int] = field(default_factory=dict)
    """The offset at which each open transaction begins in this partition."""
    changes: Changes = field(default_factory=Changes)
    """Increases when a reader may find something new."""

    @property
    def end(self) -> int:
        """The high watermark."""
        return self.start + len(self.stored)

    @property
    def stable(self) -> int:
        """The last stable offset: where the oldest open transaction begins, or the high watermark."""
        return min(self.opened.values(), default=self.end)

    def append(
        self,
        key: bytes | None,
        value: bytes | None,
        transaction: Transaction | None = None,
        *,
        marker: bool = False,
        timestamp: int = 0,
        arrived: float = 0.0,
    ) -> int:
        """Append a record or a marker; returns its offset."""
        offset = self.end
        self.stored.append(StoredRecord(offset, key, value, transaction, marker, timestamp, arrived))
        if transaction is not None and not marker and transaction not in self.opened:
            self.opened[transaction] = offset
            transaction.touched.append(self)
        self.changes.wake()
        return offset

    def read(self, offset: int, count: int, *, committed: bool) -> tuple[Sequence[StoredRecord], int]:
        """Return up to `count` readable records from `offset` on, and the offset after the last one examined."""
        end = self.stable if committed else self.end
        found: list[StoredRecord] = []
        while offset < end and len(found) < count:
            each = self.stored[offset - self.start]
            aborted = each.transaction is not None and each.transaction.status is TransactionStatus.ABORTED
            if not each.marker and not (committed and aborted):
                found.append(each)
            offset += 1
        return found, offset

    def trim(self, before: int) -> None:
        """Delete the records below an offset, as retention does."""
        del self.stored[: max(0, before - self.start)]
        self.start = max(self.start, before)
        self.changes.wake()


@dataclass(eq=False)
class Topic:
    """One topic. A topic that is deleted and recreated is another object."""

    name: str
    settings: TopicSettings
    partitions: tuple[Partition, ...]


class SimulatedBroker:
    """The state that all connections share. It stays when a connection crashes."""

    def __init__(
        self,
        clock: Clock | None = None,
        *,
        session_timeout: float = SESSION_TIMEOUT,
        longest_transaction: float = math.inf,
        longest_read: int = 1_000_000,
        marker_lag: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """Create a broker without topics.

        `clock` decides when transactions and members time out; by default it is the system's. `session_timeout` is in
        seconds. No transaction stays open longer than `longest_transaction` seconds, whatever its producer requests, and no
        read returns more than `longest_read` records. The end marker of a transaction is written to each of its partitions
        `marker_lag()` seconds after the commit or abort, but before the next transaction of the same producer.
        """
        self.clock = clock or SystemClock()
        self._session_timeout = session_timeout
        self._longest_transaction = longest_transaction
        self._longest_read = longest_read
        self.marker_lag = marker_lag
        self._unmarked: dict[str, list[Transaction]] = {}
        """For each transactional id, the ended transactions that still lack a marker in some partition."""
        self.topics: dict[str, Topic] = {}
        self._epochs: dict[str, int] = {}
        self._open: list[Transaction] = []
        self._members: dict[tuple[str, str], dict[int, float]] = {}
        self._joined = 0
        self._partitions = 0
        self.timed_out = 0
        """Number of transactions that were aborted because of their timeout."""
        self.given_up = 0
        """Number of members that were removed from a group because of the session timeout."""
        self.groups = Changes()
        """Increases when a member joins or leaves a group."""

    def partition(self, name: str, partition: int) -> Partition:
        """Return a partition of an existing topic. Raises NoSuchTopic."""
        topic = self.topics.get(name)
        if topic is None:
            raise NoSuchTopic(name)
        if not 0 <= partition < len(topic.partitions):
            raise NoSuchTopic(name, partition)
        self._expire()
        return topic.partitions[partition]

    def create(self, name: str, settings: TopicSettings) -> None:
        """Create a topic, unless it exists."""
        if name not in self.topics:
            numbers = range(self._partitions, self._partitions + settings.partitions)
            self.topics[name] = Topic(name, settings, tuple(map(Partition, numbers)))
            self._partitions += settings.partitions

    def delete(self, name: str) -> None:
        """Delete a topic, if it exists."""
        deleted = self.topics.pop(name, None)
        for partition in deleted.partitions if deleted else ():
            partition.changes.wake()

    def append(
        self,
        name: str,
        partition: int,
        records: Sequence[tuple[bytes | None, bytes]],
        between: Callable[[int], None] = lambda done: None,
    ) -> list[int]:
        """Append outside of transactions; returns the offsets.

        `between` is called between two records with the number of records appended so far, and may raise.
        """
        log = self.partition(name, partition)
        offsets = []
        for done, (key, value) in enumerate(records):
            if done:
                between(done)
            now = self._time()
            offsets.append(log.append(key, value, timestamp=round(1000 * now), arrived=now))
        return offsets

    def read(
        self, name: str, partition: int, log: Partition, offset: int, count: int, *, committed: bool
    ) -> tuple[Sequence[StoredRecord], int]:
        """Return what a reader of the partition `log` finds from `offset` on, as `Partition.read` does.

        Raises OffsetLost if the offset is out of range or the topic was recreated since.
        """
        now = self.partition(name, partition)
        if now is not log or not log.start <= offset <= log.end:
            raise OffsetLost(name, partition, offset, now.start, now.end)
        return log.read(offset, min(count, self._longest_read), committed=committed)

    def fence(self, transactional_id: str) -> int:
        """Abort the open transactions of a transactional id; returns its new epoch."""
        self._mark_all(transactional_id)
        epoch = self._epochs[transactional_id] = self._epochs.get(transactional_id, 0) + 1
        for transaction in [each for each in self._open if each.transactional_id == transactional_id]:
            self._end(transaction, TransactionStatus.ABORTED)
        self._mark_all(transactional_id)
        return epoch

    def begin(self, transactional_id: str, epoch: int, timeout: float) -> Transaction:
        """Return a new transaction. As in Kafka, the broker learns of it with its first record."""
        return Transaction(transactional_id, epoch, self._time() + min(timeout, self._longest_transaction))

    def send(
        self, transaction: Transaction, name: str, partition: int, key: bytes | None, value: bytes, timestamp: int
    ) -> int:
        """Append within a transaction; returns the offset. Raises Fenced."""
        self._check(transaction)
        self._mark_all(transaction.transactional_id)
        log = self.partition(name, partition)
        if transaction not in self._open:
            self._open.append(transaction)
        return log.append(key, value, transaction, timestamp=timestamp, arrived=self._time())

    def end(self, transaction: Transaction, status: TransactionStatus) -> None:
        """Commit or abort a transaction. Raises Fenced."""
        self._check(transaction)
        self._end(transaction, status)

    def _check(self, transaction: Transaction) -> None:
        self._expire()
        if transaction.epoch != self._epochs.get(transaction.transactional_id):
            raise Fenced(f"another process took over {transaction.transactional_id}")
        if transaction.status is not TransactionStatus.OPEN or transaction.deadline <= self._time():
            raise Fenced(f"the transaction of {transaction.transactional_id} timed out")

    def _expire(self) -> None:
        if not self._open:
            return
        for transaction in [each for each in self._open if each.deadline <= self._time()]:
            self._end(transaction, TransactionStatus.ABORTED)
            self.timed_out += 1

    def _end(self, transaction: Transaction, status: TransactionStatus) -> None:
        transaction.status = status
        if transaction in self._open:
            self._open.remove(transaction)
        for partition in transaction.touched:
            lag = self.marker_lag()
            if lag:
                self._unmarked.setdefault(transaction.transactional_id, []).append(transaction)
                asyncio.get_running_loop().call_later(lag, transaction.mark, partition)
            else:
                transaction.mark(partition)

    def _mark_all(self, transactional_id: str) -> None:
        for transaction in self._unmarked.pop(transactional_id, ()):
            for partition in transaction.touched:
                transaction.mark(partition)

    def join(self, group: str, topic: str) -> int:
        """Add a member to a group; returns its number."""
        self._joined += 1
        self._members.setdefault((group, topic), {})[self._joined] = self._time()
        self.groups.wake()
        return self._joined

    def leave(self, group: str, topic: str, member: int) -> None:
        """Remove a member from a group at once."""
        if self._members.get((group, topic), {}).pop(member, None) is not None:
            self.groups.wake()

    def assignment(self, group: str, topic: str, member: int) -> frozenset[int]:
        """Return the partitions assigned to a member. The call is its heartbeat; a member that was removed joins again."""
        self.partition(topic, 0)
        now = self._time()
        members = self._members.setdefault((group, topic), {})
        silent = [each for each, heard in members.items() if heard + self._session_timeout < now and each != member]
        if silent or member not in members:
            self.groups.wake()
        for each in silent:
            del members[each]
        self.given_up += len(silent)
        members[member] = now
        rank = sorted(members).index(member)
        return frozenset(range(rank, len(self.topics[topic].partitions), len(members)))

    def _time(self) -> float:
        return self.clock.now().timestamp()
