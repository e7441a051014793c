"""Kafka's transactions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaConnectionError

from streamproc.ports.kafka.producers import ERRORS, new_producer, stop_producer
from streamproc.ports.kafka.settings import KafkaSettings
from streamproc.ports.kafka.topics import LATEST, Topics
from streamproc.ports.kafka.translation import explained
from streamproc.ports.log import NO_TIME, LogError, Offset, OutcomeUnknown, check_size
from streamproc.ports.transaction_moves import Moves, Stage

SETTLING = 5.0
"""Seconds to wait until readers can see the end of a transaction that is decided."""
SETTLING_PAUSE = 0.01


class KafkaTransactor:
    """One transactional producer. Every send is awaited: Kafka commits a transaction of which a send failed."""

    def __init__(
        self,
        settings: KafkaSettings,
        topics: Topics,
        transactional_id: str,
        timeout: float,
        patience: float,
        closed: Callable[[KafkaTransactor], None],
    ) -> None:
        self._settings, self._topics, self._id = settings, topics, transactional_id
        self._timeout, self._patience, self._closed = timeout, patience, closed
        self._moves = Moves()
        self._producer: AIOKafkaProducer | None = None
        self._known: set[tuple[str, int]] = set()
        self._sent: dict[tuple[str, int], int] = {}
        """The last offset in each partition of the open transaction."""

    async def fence(self) -> None:
        async with self._call("fence"):
            options = {"transactional_id": self._id, "transaction_timeout_ms": int(1000 * self._timeout)}
            self._producer = new_producer(self._settings, self._patience, **options)
            try:
                await self._producer.start()
            except KafkaConnectionError:
                await self._topics.check_welcome()
                raise

    async def begin(self) -> None:
        async with self._call("begin"):
            await self._started().begin_transaction()

    async def send(
        self, topic: str, partition: int, value: bytes, key: bytes | None = None, *, timestamp: int = NO_TIME
    ) -> Offset:
        async with self._call("send", f" to {topic}", size=len(value) + len(key or b"")):
            check_size(topic, key, value)
            if (topic, partition) not in self._known:
                await self._topics.look_at(topic, partition)
                self._known.add((topic, partition))
            sent = await self._started().send_and_wait(topic, value, key=key, partition=partition, timestamp_ms=timestamp)
            self._sent[topic, partition] = sent.offset
            return Offset(sent.offset)

    async def commit(self) -> None:
        async with self._call("commit"):
            await self._started().commit_transaction()
        await self._until_stable()

    async def abort(self) -> None:
        async with self._call("abort"):
            await self._started().abort_transaction()
        await self._until_stable()

    async def _until_stable(self) -> None:
        """Kafka answers when the end is decided, and lets readers know some milliseconds later."""
        sent, self._sent = self._sent, {}
        with suppress(LogError, TimeoutError):
            async with asyncio.timeout(SETTLING):
                for (topic, partition), offset in sent.items():
                    while await self._topics.offset(topic, partition, LATEST, committed=True) <= offset:
                        await asyncio.sleep(SETTLING_PAUSE)

    async def close(self) -> None:
        """Leaves an open transaction to time out or to be fenced."""
        producer, self._producer = self._producer, None
        if producer is not None:
            # What a transactor that failed still has under way must not arrive later on.
            await stop_producer(producer, at_once=self._moves.stage is not Stage.READY)
        self._closed(self)

    @asynccontextmanager
    async def _call(self, call: str, where: str = "", *, size: int = 0) -> AsyncIterator[None]:
        with self._moves.move(call):
            try:
                async with asyncio.timeout(self._patience):
                    yield
            except ERRORS as error:
                raise explained(error, f"{call} of {self._id}{where}", OutcomeUnknown, size=size) from None

    def _started(self) -> AIOKafkaProducer:
        if self._producer is None:
            raise RuntimeError("the transactor is closed")
        return self._producer
