"""The `Log` port on a `SimulatedBroker`, with a hook for faults before, during and after every call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Self, TypeVar

from streamproc.errors import LogError, LogUnavailable, NoSuchTopic, OffsetLost, OutcomeUnknown
from streamproc.log.port import NO_TIME, Offset, Record, TopicSettings, TransactionState, TransactionStateMachine, check_size
from streamproc.testing.simulated_broker import Partition, SimulatedBroker, StoredRecord, Transaction, TransactionStatus

Result = TypeVar("Result")


class Killed(BaseException):
    """Stands for the end of a process in a test. It is no `Exception`, so no handler of the program catches it."""


class Faults:
    """Hooks around every call of a connection. This class injects no fault; override what a test needs.

    A hook may raise LogUnavailable (only in `before`), OutcomeUnknown, Fenced, or `Killed` for the end of the process. The
    asynchronous ones may also sleep, to simulate a slow network. `connection` is the name of the `SimulatedLog`. `call` is
    the method (`append`, `commit`, ...), or `connect`, `membership` or `leave`. `topic` is its topic, if it has one.
    """

    async def before(self, connection: str, call: str, topic: str | None) -> None:
        """Called before the broker changes."""

    def inside(self, connection: str, call: str, topic: str | None, done: int) -> None:
        """Called between two records of one append: the first `done` records are in the log, the others are not."""

    def lands_later(self, connection: str, call: str, topic: str | None) -> float | None:
        """Return the delay in seconds after which the call takes effect, or None for no delay.

        With a delay, the caller gets OutcomeUnknown at once, and the request reaches the broker even if the process ends
        meanwhile. Only called for calls that change something.
        """
        return None

    async def after(self, connection: str, call: str, topic: str | None) -> None:
        """Called after the broker has changed and before the caller gets the result."""


class SimulatedLog:
    """A connection to a `SimulatedBroker`, in place of one to Kafka. Its calls behave as the `Log` port promises.

    `abort` and `reader(committed=False)` are additions for tests, which the port does not have.
    """

    def __init__(self, broker: SimulatedBroker, faults: Faults | None = None, *, name: str = "") -> None:
        self.broker = broker
        self.name = name
        self._faults = faults or Faults()
        self._crashed = False

    def crash(self) -> None:
        """End the connection as a killed process would: open transactions stay open, and later calls fail."""
        self._crashed = True

    async def call(self, call: str, topic: str | None, effect: Callable[[], Result]) -> Result:
        """Apply the effect of a call, with the hooks of `Faults` before and after it."""
        self._check_alive()
        await self._faults.before(self.name, call, topic)
        self._check_alive()
        result = effect()
        await self._faults.after(self.name, call, topic)
        return result

    async def change(self, call: str, topic: str | None, effect: Callable[[], Result]) -> Result:
        """Apply the effect of a call that changes something; a fault may delay the effect and raise OutcomeUnknown."""

        def now_or_later() -> Result:
            late = self._faults.lands_later(self.name, call, topic)
            if late is None:
                return effect()
            asyncio.get_running_loop().call_later(late, _quietly, effect)
            raise OutcomeUnknown(f"{call}: no answer in time")

        return await self.call(call, topic, now_or_later)

    def _check_alive(self) -> None:
        if self._crashed:
            raise LogUnavailable(f"connection {self.name} is closed")

    async def __aenter__(self) -> Self:
        await self.call("connect", None, lambda: None)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._crashed = True

    async def brokers(self) -> int:
        return await self.call("brokers", None, lambda: 1)

    async def topics(self) -> Mapping[str, int]:
        there = self.broker.topics
        return await self.call("topics", None, lambda: {name: len(topic.partitions) for name, topic in there.items()})

    async def settings_of(self, topic: str) -> TopicSettings:
        def settings() -> TopicSettings:
            if topic not in self.broker.topics:
                raise NoSuchTopic(topic)
            return self.broker.topics[topic].settings

        return await self.call("settings_of", topic, settings)

    async def create_topic(self, topic: str, settings: TopicSettings) -> None:
        await self.change("create_topic", topic, lambda: self.broker.create(topic, settings))

    async def delete_topic(self, topic: str) -> None:
        await self.change("delete_topic", topic, lambda: self.broker.delete(topic))

    async def start_offset(self, topic: str, partition: int) -> Offset:
        return Offset(await self.call("start_offset", topic, lambda: self.broker.partition(topic, partition).start))

    async def high_watermark(self, topic: str, partition: int) -> Offset:
        return Offset(await self.call("high_watermark", topic, lambda: self.broker.partition(topic, partition).end))

    async def last_stable_offset(self, topic: str, partition: int) -> Offset:
        return Offset(await self.call("last_stable_offset", topic, lambda: self.broker.partition(topic, partition).stable))

    async def append(self, topic: str, partition: int, value: bytes, key: bytes | None = None) -> Offset:
        return (await self._append("append", topic, partition, [(key, value)]))[0]

    async def append_many(
        self, topic: str, partition: int, records: Sequence[tuple[bytes | None, bytes]]
    ) -> Sequence[Offset]:
        return await self._append("append_many", topic, partition, records)

    async def _append(
        self, call: str, topic: str, partition: int, records: Sequence[tuple[bytes | None, bytes]]
    ) -> Sequence[Offset]:
        for key, value in records:
            check_size(topic, key, value)
        between = partial(self._faults.inside, self.name, call, topic)
        offsets = await self.change(call, topic, lambda: self.broker.append(topic, partition, records, between))
        return [Offset(offset) for offset in offsets]

    async def reader(self, topic: str, partition: int, offset: Offset, *, committed: bool = True) -> SimulatedReader:
        def opened() -> SimulatedReader:
            log = self.broker.partition(topic, partition)
            if not log.start <= offset <= log.end:
                raise OffsetLost(topic, partition, offset, log.start, log.end)
            return SimulatedReader(self, topic, partition, log, offset, committed=committed)

        return await self.call("reader", topic, opened)

    async def transactional_producer(
        self, transactional_id: str, *, timeout: float = 60.0
    ) -> SimulatedTransactionalProducer:
        return SimulatedTransactionalProducer(self, transactional_id, timeout)

    async def join_group(self, group: str, topic: str) -> SimulatedGroupMembership:
        def joined() -> SimulatedGroupMembership:
            self.broker.partition(topic, 0)
            return SimulatedGroupMembership(self, group, topic)

        return await self.call("membership", topic, joined)


class SimulatedReader:
    """A reader of one partition. It raises OffsetLost once the topic is deleted and recreated."""

    def __init__(
        self, log: SimulatedLog, topic: str, partition: int, opened: Partition, offset: Offset, *, committed: bool
    ) -> None:
        self._log, self._topic, self._partition, self._opened = log, topic, partition, opened
        self._committed = committed
        self._position = offset

    @property
    def position(self) -> Offset:
        return self._position

    @property
    def topic_id(self) -> bytes:
        return b"%d" % self._opened.number

    async def read(self, *, max_records: int = 10_000, timeout: float = 0.5) -> Sequence[Record]:
        loop, changes = asyncio.get_running_loop(), self._opened.changes
        deadline = loop.time() + timeout
        while True:
            seen = changes.version
            found, position = await self._log.call("read", self._topic, lambda: self._look(max_records))
            self._position = Offset(position)
            left = deadline - loop.time()
            if found or left <= 0:
                return found
            await changes.after(seen, left)

    def _look(self, count: int) -> tuple[Sequence[StoredRecord], int]:
        return self._log.broker.read(
            self._topic, self._partition, self._opened, self._position, count, committed=self._committed
        )

    async def close(self) -> None:
        """Do nothing: the reader holds no resources."""


class SimulatedTransactionalProducer:
    """A transactional producer. The broker knows a transaction from its first record on."""

    def __init__(self, log: SimulatedLog, transactional_id: str, timeout: float) -> None:
        self._log, self._id, self._timeout = log, transactional_id, timeout
        self._moves = TransactionStateMachine()
        self._epoch = 0
        self._transaction: Transaction | None = None

    async def fence(self) -> None:
        with self._moves.transition("fence"):
            self._epoch = await self._log.change("fence", None, lambda: self._log.broker.fence(self._id))

    async def begin(self) -> None:
        with self._moves.transition("begin"):
            broker = self._log.broker
            self._transaction = await self._log.call(
                "begin", None, lambda: broker.begin(self._id, self._epoch, self._timeout)
            )

    async def send(
        self, topic: str, partition: int, value: bytes, key: bytes | None = None, *, timestamp: int = NO_TIME
    ) -> Offset:
        with self._moves.transition("send"):
            check_size(topic, key, value)
            broker, transaction = self._log.broker, self._open()

            def append() -> int:
                return broker.send(transaction, topic, partition, key, value, timestamp)

            return Offset(await self._log.change("send", topic, append))

    async def commit(self) -> None:
        with self._moves.transition("commit"):
            broker, transaction = self._log.broker, self._open()
            await self._log.change("commit", None, lambda: broker.end(transaction, TransactionStatus.COMMITTED))

    async def abort(self) -> None:
        with self._moves.transition("abort"):
            broker, transaction = self._log.broker, self._open()
            await self._log.change("abort", None, lambda: broker.end(transaction, TransactionStatus.ABORTED))

    async def close(self) -> None:
        """Leave an open transaction to time out or to be fenced, as Kafka's producer does."""
        self._transaction = None

    def _open(self) -> Transaction:
        if self._transaction is None or self._moves.state is not TransactionState.OPEN:
            raise RuntimeError("no transaction is open")
        return self._transaction


class SimulatedGroupMembership:
    """A member of a consumer group. Each call of `assigned` is a heartbeat."""

    def __init__(self, log: SimulatedLog, group: str, topic: str) -> None:
        self._log, self._group, self._topic = log, group, topic
        self._member = log.broker.join(group, topic)
        self._last: frozenset[int] | None = None

    @property
    def joined(self) -> bool:
        return self._last is not None

    async def assigned(self, *, timeout: float = 0.5) -> frozenset[int]:
        loop, broker = asyncio.get_running_loop(), self._log.broker
        deadline = loop.time() + timeout
        while True:
            seen = broker.groups.version
            assignment = await self._log.call(
                "assigned", self._topic, lambda: broker.assignment(self._group, self._topic, self._member)
            )
            left = deadline - loop.time()
            if assignment != self._last or left <= 0:
                self._last = assignment
                return assignment
            await broker.groups.after(seen, left)

    async def close(self) -> None:
        broker = self._log.broker
        await self._log.call("leave", self._topic, lambda: broker.leave(self._group, self._topic, self._member))


def _quietly(effect: Callable[[], object]) -> None:
    """Apply a delayed effect. Its errors are dropped, because the caller already got OutcomeUnknown."""
    with suppress(LogError, Killed):
        effect()
