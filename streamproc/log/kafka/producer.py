"""Producers whose records are acknowledged by all in-sync replicas, and which can be stopped while the broker is away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaConnectionError, KafkaError

from streamproc.errors import LogError, LogUnavailable, OutcomeUnknown
from streamproc.log.kafka.admin import LATEST, TopicAdmin
from streamproc.log.kafka.aiokafka_patches import (
    create_transaction_waiter,
    disable_topic_auto_creation,
    drop_producer,
    mark_retrieved,
    require_brokers_on_bootstrap,
    set_broker_timeout,
)
from streamproc.log.kafka.error_translation import translate_error
from streamproc.log.kafka.settings import KafkaSettings, milliseconds, produce_timeout
from streamproc.log.port import NO_TIME, Offset, TransactionState, TransactionStateMachine, check_size

BATCH_BYTES = 256 * 1024
"""Maximum size of a batch for one partition in a produce request. A single record may be larger."""
STOP_TIMEOUT_S = 5.0
"""Maximum time for a producer to send what it holds before it is dropped, in seconds."""

ERRORS = (KafkaError, OSError, TimeoutError, AssertionError)
"""What aiokafka raises. Some of its assertions fail when a topic is deleted or recreated while it is in use."""


def new_producer(settings: KafkaSettings, timeout: float, **options: Any) -> AIOKafkaProducer:
    """Return an idempotent producer, not started. All in-sync replicas have `timeout` seconds to acknowledge a record."""
    producer = AIOKafkaProducer(
        acks="all",
        enable_idempotence=True,
        max_batch_size=BATCH_BYTES,
        request_timeout_ms=milliseconds(timeout),
        **settings.options(),
        **options,
    )
    # A record that waits for a leader has the whole timeout, a request to one broker only a part of it.
    set_broker_timeout(producer, milliseconds(produce_timeout(timeout)))
    disable_topic_auto_creation(producer)
    require_brokers_on_bootstrap(producer)
    create_transaction_waiter(producer)
    return producer


async def stop_producer(producer: AIOKafkaProducer, *, at_once: bool = False) -> None:
    """Send what the producer holds within STOP_TIMEOUT_S seconds, then stop it. With `at_once`, drop unsent records.

    An idempotent producer retries forever. After an unknown outcome it must be stopped at once, so that no record of it
    arrives later.
    """
    if not at_once:
        try:
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await producer.stop()
            return
        except ERRORS:
            pass
    await drop_producer(producer)


class IdempotentProducer:
    """Appends records outside of transactions. After an error its aiokafka producer is dropped and replaced by a new one."""

    def __init__(self, settings: KafkaSettings, topics: TopicAdmin, timeout: float) -> None:
        self._settings, self._topics, self._timeout = settings, topics, timeout
        self._producer: AIOKafkaProducer | None = None
        self._starting = asyncio.Lock()
        self._known: set[tuple[str, int]] = set()

    async def append(self, topic: str, partition: int, records: Sequence[tuple[bytes | None, bytes]]) -> Sequence[Offset]:
        """Append `(key, value)` records and return their offsets when all are acknowledged.

        Raises OutcomeUnknown if some may have been appended, and LogUnavailable if none was sent.
        """
        if (topic, partition) not in self._known:
            await self._topics.partition_metadata(topic, partition)
            self._known.add((topic, partition))
        producer = await self._started(topic)
        sent: list[asyncio.Future[Any]] = []
        try:
            async with asyncio.timeout(self._timeout):
                for key, value in records:
                    sent.append(await producer.send(topic, value, key=key, partition=partition))
                    sent[-1].add_done_callback(mark_retrieved)
                offsets = [Offset((await each).offset) for each in sent]
        except ERRORS as error:
            await self._drop(producer)
            largest = max(len(value) + len(key or b"") for key, value in records)
            raise translate_error(error, topic, OutcomeUnknown if sent else LogUnavailable, size=largest) from None
        except BaseException:
            await self._drop(producer)
            raise
        if any(offset < 0 for offset in offsets):
            raise OutcomeUnknown(f"{topic}: the broker has the records already, but does not return their offsets")
        return offsets

    async def close(self) -> None:
        """Send what is left and stop."""
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


COMMIT_VISIBLE_TIMEOUT_S = 5.0
"""Maximum time to wait until readers can see a committed transaction, in seconds."""
COMMIT_VISIBLE_POLL_S = 0.01
"""Seconds between two requests for the last stable offset during that time."""


class KafkaTransactionalProducer:
    """Transactional producer on Kafka. It awaits each send, because Kafka commits a transaction even if a send failed."""

    def __init__(
        self,
        settings: KafkaSettings,
        topics: TopicAdmin,
        transactional_id: str,
        timeout: float,
        call_timeout: float,
        closed: Callable[[KafkaTransactionalProducer], None],
    ) -> None:
        self._settings, self._topics, self._id = settings, topics, transactional_id
        self._timeout, self._call_timeout, self._closed = timeout, call_timeout, closed
        self._state = TransactionStateMachine()
        self._producer: AIOKafkaProducer | None = None
        self._known: set[tuple[str, int]] = set()
        self._sent: dict[tuple[str, int], int] = {}
        """Last offset of the open transaction in each partition."""

    async def fence(self) -> None:
        async with self._call("fence"):
            options = {"transactional_id": self._id, "transaction_timeout_ms": int(1000 * self._timeout)}
            self._producer = new_producer(self._settings, self._call_timeout, **options)
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
        await self._wait_until_visible()

    async def _wait_until_visible(self) -> None:
        """Wait until readers see the commit. Kafka acknowledges it some milliseconds before it writes the commit markers."""
        sent, self._sent = self._sent, {}
        with suppress(LogError, TimeoutError):
            async with asyncio.timeout(COMMIT_VISIBLE_TIMEOUT_S):
                for (topic, partition), offset in sent.items():
                    while await self._topics.offset(topic, partition, LATEST, committed=True) <= offset:
                        await asyncio.sleep(COMMIT_VISIBLE_POLL_S)

    async def close(self) -> None:
        """Stop the producer. An open transaction stays open until it times out or is fenced."""
        producer, self._producer = self._producer, None
        if producer is not None:
            # After a failed call no record that is still unsent may arrive later.
            await stop_producer(producer, at_once=self._state.state is not TransactionState.READY)
        self._closed(self)

    @asynccontextmanager
    async def _call(self, call: str, where: str = "", *, size: int = 0) -> AsyncIterator[None]:
        with self._state.transition(call):
            try:
                async with asyncio.timeout(self._call_timeout):
                    yield
            except ERRORS as error:
                raise translate_error(error, f"{call} of {self._id}{where}", OutcomeUnknown, size=size) from None

    def _started(self) -> AIOKafkaProducer:
        if self._producer is None:
            raise RuntimeError("the transactional producer is closed")
        return self._producer
