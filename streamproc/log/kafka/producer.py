"""Producers that wait for all replicas, and that can be got rid of while the broker is away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaConnectionError, KafkaError

from streamproc.errors import LogError, LogUnavailable, OutcomeUnknown
from streamproc.log.kafka.admin import LATEST, TopicAdmin
from streamproc.log.kafka.aiokafka_patches import disable_topic_auto_creation, require_brokers_on_bootstrap
from streamproc.log.kafka.error_translation import translate_error
from streamproc.log.kafka.settings import KafkaSettings, milliseconds, produce_timeout
from streamproc.log.port import NO_TIME, Offset, check_size
from streamproc.log.transaction_state import TransactionState, TransactionStateMachine

BATCH_BYTES = 256 * 1024
"""Of one produce request for a partition, unless a single record is larger."""
STOP_TIMEOUT_S = 5.0
"""Seconds a producer gets to end in order."""

ERRORS = (KafkaError, OSError, TimeoutError, AssertionError)
"""aiokafka asserts what may happen when a topic changes under it."""


class _Dropped(KafkaError):  # type: ignore[misc]
    message = "its producer was dropped, because another record failed"


def new_producer(settings: KafkaSettings, timeout: float, **options: Any) -> AIOKafkaProducer:
    """Idempotent, acknowledged by all replicas in sync; not started."""
    producer = AIOKafkaProducer(
        acks="all",
        enable_idempotence=True,
        max_batch_size=BATCH_BYTES,
        request_timeout_ms=milliseconds(timeout),
        **settings.options(),
        **options,
    )
    # Of one broker alone: a record that waits for a leader has all of the time, and then nothing of it is repeated.
    producer.client._request_timeout_ms = milliseconds(produce_timeout(timeout))
    disable_topic_auto_creation(producer.client)
    require_brokers_on_bootstrap(producer.client)
    # aiokafka reports its end to this future, which it only has within a transaction.
    producer._txn_manager._transaction_waiter = asyncio.get_running_loop().create_future()
    return producer


async def stop_producer(producer: AIOKafkaProducer, *, at_once: bool = False) -> None:
    """End it in order if that is possible soon; `at_once` also drops what was not sent yet.

    An idempotent producer repeats for ever by itself: after an unknown outcome nothing of it may arrive later on.
    """
    if not at_once:
        try:
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await producer.stop()
            return
        except ERRORS:
            pass
    producer._closed = True
    sender = producer._sender.sender_task
    if sender is not None:
        sender.cancel()
    await producer.client.close()
    accumulator = producer._message_accumulator
    # What waits to be repeated is in none of its lists of what is under way, from which aiokafka strikes all that fails.
    accumulator._pending_batches.update(batch for batches in accumulator._batches.values() for batch in batches)
    accumulator.fail_all(_Dropped())
    # Cancelled once it waits for what it has under way, which repeats for ever; again, and it gives up that too.
    for _ in range(10):
        if sender is not None and not sender.done():
            sender.cancel()
            await asyncio.wait([sender], timeout=0.1)
    _forget_failures(producer)


def _forget_failures(producer: AIOKafkaProducer) -> None:
    """What ended a producer was raised by the call that met it; the loop need not report it again for each future."""
    waiters = [batch._drain_waiter for batches in producer._message_accumulator._batches.values() for batch in batches]
    for waiter in (*waiters, producer._txn_manager._transaction_waiter):
        if waiter.done():
            _seen(waiter)


class IdempotentProducer:
    """What is appended outside transactions, by one producer that is replaced whenever something went wrong."""

    def __init__(self, settings: KafkaSettings, topics: TopicAdmin, timeout: float) -> None:
        self._settings, self._topics, self._timeout = settings, topics, timeout
        self._producer: AIOKafkaProducer | None = None
        self._starting = asyncio.Lock()
        self._known: set[tuple[str, int]] = set()

    async def append(self, topic: str, partition: int, records: Sequence[tuple[bytes | None, bytes]]) -> Sequence[Offset]:
        """The offsets, once all are acknowledged."""
        if (topic, partition) not in self._known:
            await self._topics.partition_metadata(topic, partition)
            self._known.add((topic, partition))
        producer = await self._started(topic)
        sent: list[asyncio.Future[Any]] = []
        try:
            async with asyncio.timeout(self._timeout):
                for key, value in records:
                    sent.append(await producer.send(topic, value, key=key, partition=partition))
                    sent[-1].add_done_callback(_seen)
                offsets = [Offset((await each).offset) for each in sent]
        except ERRORS as error:
            await self._drop(producer)
            largest = max(len(value) + len(key or b"") for key, value in records)
            raise translate_error(error, topic, OutcomeUnknown if sent else LogUnavailable, size=largest) from None
        except BaseException:
            await self._drop(producer)
            raise
        if any(offset < 0 for offset in offsets):
            raise OutcomeUnknown(f"{topic}: the broker had the records already, and does not tell where")
        return offsets

    async def close(self) -> None:
        """End in order."""
        if self._producer is not None:
            producer, self._producer = self._producer, None
            await stop_producer(producer)

    async def _started(self, topic: str) -> AIOKafkaProducer:
        async with self._starting:
            if self._producer is None:
                producer = new_producer(self._settings, self._timeout)
                try:
                    async with asyncio.timeout(self._timeout):
                        await producer.start()
                except BaseException as error:
                    await stop_producer(producer, at_once=True)
                    if isinstance(error, ERRORS):
                        failure = translate_error(error, f"starting a producer for {topic}", LogUnavailable)
                        if isinstance(failure, LogUnavailable):
                            await self._topics.check_authentication()
                        raise failure from None
                    raise
                self._producer = producer
            return self._producer

    async def _drop(self, producer: AIOKafkaProducer) -> None:
        self._known.clear()
        if self._producer is producer:
            self._producer = None
        await stop_producer(producer, at_once=True)


def _seen(future: asyncio.Future[Any]) -> None:
    """So that no failure of a record which nobody waits for any more is reported by the loop."""
    if not future.cancelled():
        future.exception()


COMMIT_VISIBLE_TIMEOUT_S = 5.0
"""Seconds to wait until readers can see the end of a transaction that is decided."""
COMMIT_VISIBLE_POLL_S = 0.01


class KafkaTransactionalProducer:
    """One transactional producer. Every send is awaited: Kafka commits a transaction of which a send failed."""

    def __init__(
        self,
        settings: KafkaSettings,
        topics: TopicAdmin,
        transactional_id: str,
        timeout: float,
        patience: float,
        closed: Callable[[KafkaTransactionalProducer], None],
    ) -> None:
        self._settings, self._topics, self._id = settings, topics, transactional_id
        self._timeout, self._patience, self._closed = timeout, patience, closed
        self._moves = TransactionStateMachine()
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
                await self._topics.check_authentication()
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
                await self._topics.partition_metadata(topic, partition)
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
            async with asyncio.timeout(COMMIT_VISIBLE_TIMEOUT_S):
                for (topic, partition), offset in sent.items():
                    while await self._topics.offset(topic, partition, LATEST, committed=True) <= offset:
                        await asyncio.sleep(COMMIT_VISIBLE_POLL_S)

    async def close(self) -> None:
        """Leaves an open transaction to time out or to be fenced."""
        producer, self._producer = self._producer, None
        if producer is not None:
            # What a transactor that failed still has under way must not arrive later on.
            await stop_producer(producer, at_once=self._moves.state is not TransactionState.READY)
        self._closed(self)

    @asynccontextmanager
    async def _call(self, call: str, where: str = "", *, size: int = 0) -> AsyncIterator[None]:
        with self._moves.transition(call):
            try:
                async with asyncio.timeout(self._patience):
                    yield
            except ERRORS as error:
                raise translate_error(error, f"{call} of {self._id}{where}", OutcomeUnknown, size=size) from None

    def _started(self) -> AIOKafkaProducer:
        if self._producer is None:
            raise RuntimeError("the transactor is closed")
        return self._producer
