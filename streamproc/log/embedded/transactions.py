"""Transactions of an embedded log. Each change checks the epoch of the id in the same SQLite transaction."""

from __future__ import annotations

import sqlite3

from streamproc.errors import NoSuchTopic
from streamproc.log.embedded import sql
from streamproc.log.embedded.database import Database
from streamproc.log.port import NO_TIME, Offset, TransactionStateMachine, check_size


class EmbeddedTransactionalProducer:
    """`send` stores a record with its offset; `commit` only changes the status of the transaction."""

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

        def absent() -> tuple[int, Offset]:
            raise NoSuchTopic(topic)

        with self._state.transition("send"):
            check_size(topic, key, value)
            self._transaction, offset = await self._database.write(work, absent)
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
