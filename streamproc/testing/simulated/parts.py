"""What a simulated connection hands out: readers, transactors, memberships."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from streamproc.log.port import NO_TIME, Offset, Record, check_size
from streamproc.log.transaction_state import TransactionState, TransactionStateMachine
from streamproc.testing.simulated.partition import Partition, Status, Stored, Transaction

if TYPE_CHECKING:
    from streamproc.testing.simulated.log import SimulatedLog


class SimulatedReader:
    """Reads one partition of one incarnation of a topic."""

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

    def _look(self, count: int) -> tuple[Sequence[Stored], int]:
        return self._log.broker.read(
            self._topic, self._partition, self._opened, self._position, count, committed=self._committed
        )

    async def close(self) -> None:
        """Nothing to let go of."""


class SimulatedTransactionalProducer:
    """A transactor, whose transaction is in the broker from its first record on."""

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
            await self._log.change("commit", None, lambda: broker.end(transaction, Status.COMMITTED))

    async def abort(self) -> None:
        """Abort the open transaction. No role of the product does this, but other clients of a topic may."""
        with self._moves.transition("commit"):
            broker, transaction = self._log.broker, self._open()
            await self._log.change("abort", None, lambda: broker.end(transaction, Status.ABORTED))

    async def close(self) -> None:
        """Leaves an open transaction to time out or to be fenced, as Kafka's producer does."""
        self._transaction = None

    def _open(self) -> Transaction:
        if self._transaction is None or self._moves.state is not TransactionState.OPEN:
            raise RuntimeError("no transaction is open")
        return self._transaction


class SimulatedGroupMembership:
    """A member that is heard of whenever it asks."""

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
