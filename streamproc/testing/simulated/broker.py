"""What simulated connections share: topics, transactional ids and groups. Synchronous; every call is atomic."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from streamproc.errors import Fenced, NoSuchTopic, OffsetLost
from streamproc.log.port import TopicSettings
from streamproc.storage.clock import Clock, SystemClock
from streamproc.testing.simulated.partition import Partition, Status, Stored, Transaction
from streamproc.testing.simulated.waiting import Changes

SESSION_TIMEOUT = 10.0
"""Seconds after which a member that was not heard of has left its group."""


@dataclass(eq=False)
class Topic:
    """One incarnation of a topic: created anew it is another object."""

    name: str
    settings: TopicSettings
    partitions: tuple[Partition, ...]


class SimulatedBroker:
    """Survives its connections. `clock` tells when transactions and members time out."""

    def __init__(
        self,
        clock: Clock | None = None,
        *,
        session_timeout: float = SESSION_TIMEOUT,
        longest_transaction: float = math.inf,
        longest_read: int = 1_000_000,
        marker_lag: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """No transaction lives longer than `longest_transaction` seconds, whatever its owner asks for.

        Nobody is given more than `longest_read` records at once. A transaction ends in one partition after the other, each
        `marker_lag()` seconds after it was ended, but before its owner goes on.
        """
        self.clock = clock or SystemClock()
        self._session_timeout = session_timeout
        self._longest_transaction = longest_transaction
        self._longest_read = longest_read
        self.marker_lag = marker_lag
        self._unmarked: dict[str, list[Transaction]] = {}
        """By transactional id: transactions that have ended, but not everywhere yet."""
        self.topics: dict[str, Topic] = {}
        self._epochs: dict[str, int] = {}
        self._open: list[Transaction] = []
        self._members: dict[tuple[str, str], dict[int, float]] = {}
        self._joined = 0
        self._partitions = 0
        self.timed_out = 0
        """Transactions that were aborted because they were open for too long."""
        self.given_up = 0
        """Members whose partitions went to others because they were silent for too long."""
        self.groups = Changes()
        """Members come and go."""

    def partition(self, name: str, partition: int) -> Partition:
        """That partition of the topic as it is now."""
        topic = self.topics.get(name)
        if topic is None:
            raise NoSuchTopic(name)
        if not 0 <= partition < len(topic.partitions):
            raise NoSuchTopic(name, partition)
        self._expire()
        return topic.partitions[partition]

    def create(self, name: str, settings: TopicSettings) -> None:
        """Create it unless it is there."""
        if name not in self.topics:
            numbers = range(self._partitions, self._partitions + settings.partitions)
            self.topics[name] = Topic(name, settings, tuple(map(Partition, numbers)))
            self._partitions += settings.partitions

    def delete(self, name: str) -> None:
        """Delete it if it is there."""
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
        """Append outside any transaction; `between` two records it is told how many are done, and may raise."""
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
    ) -> tuple[Sequence[Stored], int]:
        """What a reader that was opened on `log` finds from `offset` on."""
        now = self.partition(name, partition)
        if now is not log or not log.start <= offset <= log.end:
            raise OffsetLost(name, partition, offset, now.start, now.end)
        return log.read(offset, min(count, self._longest_read), committed=committed)

    def fence(self, transactional_id: str) -> int:
        """The new epoch of this id; what an older one left open is aborted."""
        self._mark_all(transactional_id)
        epoch = self._epochs[transactional_id] = self._epochs.get(transactional_id, 0) + 1
        for transaction in [each for each in self._open if each.transactional_id == transactional_id]:
            self._end(transaction, Status.ABORTED)
        self._mark_all(transactional_id)
        return epoch

    def begin(self, transactional_id: str, epoch: int, timeout: float) -> Transaction:
        """A transaction, of which nobody knows before its first record."""
        return Transaction(transactional_id, epoch, self._time() + min(timeout, self._longest_transaction))

    def send(
        self, transaction: Transaction, name: str, partition: int, key: bytes | None, value: bytes, timestamp: int
    ) -> int:
        """Append within the transaction."""
        self._check(transaction)
        self._mark_all(transaction.transactional_id)
        log = self.partition(name, partition)
        if transaction not in self._open:
            self._open.append(transaction)
        return log.append(key, value, transaction, timestamp=timestamp, arrived=self._time())

    def end(self, transaction: Transaction, status: Status) -> None:
        """Commit or abort."""
        self._check(transaction)
        self._end(transaction, status)

    def _check(self, transaction: Transaction) -> None:
        self._expire()
        if transaction.epoch != self._epochs.get(transaction.transactional_id):
            raise Fenced(f"another process took over {transaction.transactional_id}")
        if transaction.status is not Status.OPEN or transaction.deadline <= self._time():
            raise Fenced(f"the transaction of {transaction.transactional_id} timed out")

    def _expire(self) -> None:
        if not self._open:
            return
        for transaction in [each for each in self._open if each.deadline <= self._time()]:
            self._end(transaction, Status.ABORTED)
            self.timed_out += 1

    def _end(self, transaction: Transaction, status: Status) -> None:
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
        """A new member; returns its number."""
        self._joined += 1
        self._members.setdefault((group, topic), {})[self._joined] = self._time()
        self.groups.wake()
        return self._joined

    def leave(self, group: str, topic: str, member: int) -> None:
        """Leave at once, as a process does that ends in order."""
        if self._members.get((group, topic), {}).pop(member, None) is not None:
            self.groups.wake()

    def assignment(self, group: str, topic: str, member: int) -> frozenset[int]:
        """What this member has, which is heard of by asking; a member that was given up joins again."""
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
