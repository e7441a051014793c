"""Every use of private attributes and every replaced method of aiokafka.

No other module touches them. Each function states what aiokafka does, why that is a problem, and the upstream issue. All of
them were checked with aiokafka 0.14; tests/log/test_aiokafka_patches.py fails if a later version changes what they rely on.
Patches apply to a single client object, never to the classes of aiokafka.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from types import FunctionType, MethodType
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.client import AIOKafkaClient, ConnectionGroup
from aiokafka.errors import KafkaConnectionError, KafkaError
from aiokafka.protocol.metadata import MetadataRequest
from aiokafka.record.memory_records import MemoryRecords

from streamproc.log.kafka.record_batches import ReadableRecords

CHECKED_VERSION = "0.14"
"""The version of aiokafka that the patches in this module were checked with."""

STOP_STEP_TIMEOUT_S = 5.0
"""Maximum time for each step of stopping a consumer, in seconds. After that the step is cancelled."""
CANCEL_ATTEMPTS, CANCEL_WAIT_S = 10, 0.1
"""How often the sender task of a dropped producer is cancelled, and how many seconds to wait each time."""


class NoBrokerReady(KafkaConnectionError):  # type: ignore[misc]
    """A broker answered, but its metadata lists no broker."""


class ProducerDropped(KafkaError):  # type: ignore[misc]
    """The record was not acknowledged before its producer was dropped."""

    message = "its producer was dropped, because another record failed"


def _client_of(owner: Any) -> Any:
    """Return the AIOKafkaClient of a consumer or a producer. A client is returned unchanged."""
    if isinstance(owner, AIOKafkaConsumer):
        return owner._client
    return owner.client if isinstance(owner, AIOKafkaProducer) else owner


def disable_topic_auto_creation(owner: AIOKafkaClient | AIOKafkaConsumer | AIOKafkaProducer) -> None:
    """Make a client, consumer or producer request metadata without creating topics.

    aiokafka requests metadata with `allow_auto_topic_creation=true` and has no option to change that. With its default
    settings, a broker then creates each topic that the request names, so a consumer of a deleted topic recreates it with
    wrong settings. This replaces the method `AIOKafkaClient._metadata_update`. Checked with aiokafka 0.14.
    """
    # No upstream issue found.
    client = _client_of(owner)
    client._metadata_update = MethodType(_metadata_update, client)


async def _metadata_update(self: Any, cluster_metadata: Any, topics: set[str]) -> bool:
    """Replace `AIOKafkaClient._metadata_update`. Returns whether a broker has answered.

    Unlike the original it asks the next broker after one that lists no brokers, and does not use the bootstrap connection,
    which `require_brokers_on_bootstrap` closes.
    """
    request = MetadataRequest(list(topics) if topics else None, allow_auto_topic_creation=False)
    nodes = [broker.nodeId for broker in self.cluster.brokers()]
    for node in random.sample(nodes, len(nodes)):
        connection = await self._get_conn(node)
        if connection is None:
            continue
        try:
            metadata = await connection.send(request)
        except (KafkaError, TimeoutError):
            continue
        if metadata.brokers:
            cluster_metadata.update_metadata(metadata)
            return True
    cluster_metadata.failed_update(None)
    return False


def require_brokers_on_bootstrap(owner: AIOKafkaClient | AIOKafkaConsumer | AIOKafkaProducer) -> None:
    """Make a client, consumer or producer raise NoBrokerReady on start if the metadata lists no broker.

    A broker that is starting or shutting down returns metadata without any broker. aiokafka accepts that and keeps its
    bootstrap connection. Once that connection is lost, the client has no address left and never finds a broker again. This
    replaces the method `AIOKafkaClient.bootstrap` and removes the connection from `_conns`. Checked with aiokafka 0.14.
    Upstream: https://github.com/aio-libs/aiokafka/issues/460 and https://github.com/aio-libs/aiokafka/issues/551.
    """
    client = _client_of(owner)
    client.bootstrap = MethodType(_bootstrap, client)


async def _bootstrap(self: Any) -> None:
    await AIOKafkaClient.bootstrap(self)
    if not self.cluster.brokers():
        connection = self._conns.pop(("bootstrap", ConnectionGroup.DEFAULT), None)
        if connection is not None:
            connection.close()
        raise NoBrokerReady("no broker is ready yet")


def patch_batch_decoding(consumer: AIOKafkaConsumer) -> None:
    """Make a started consumer parse fetched batches with `ReadableRecords`.

    aiokafka raises an error for some batches that brokers accept (see `record_batches`), and raises it again for each fetch
    at that offset, so the consumer never advances. aiokafka has no option to choose the parser. This gives the consumer's
    fetcher a copy of its method `_proc_fetch_request` in which the global name `MemoryRecords` is `ReadableRecords`.
    Checked with aiokafka 0.14. Upstream, for corrupt batches: https://github.com/aio-libs/aiokafka/issues/321.
    """
    fetcher = consumer._fetcher
    original = type(fetcher)._proc_fetch_request
    names = {**original.__globals__, MemoryRecords.__name__: ReadableRecords}
    patched = FunctionType(original.__code__, names, original.__name__, original.__defaults__, original.__closure__)
    fetcher._proc_fetch_request = MethodType(patched, fetcher)


async def stop_consumer(consumer: AIOKafkaConsumer) -> None:
    """Stop a consumer and close its connections. A cancellation of the caller is raised after that.

    `AIOKafkaConsumer.stop` can raise the CancelledError of one of its own tasks before it has closed its connections, and
    the caller cannot distinguish that from its own cancellation. It can also wait forever for a broker that does not answer.
    This runs `stop` and `_client.close` in tasks of their own, for at most STOP_STEP_TIMEOUT_S seconds each.
    Checked with aiokafka 0.14. Upstream: https://github.com/aio-libs/aiokafka/issues/647.
    """
    cancellation: asyncio.CancelledError | None = None
    for step in (consumer.stop, consumer._client.close):
        try:
            await _run_in_task(step())
        except asyncio.CancelledError as cancelled:
            cancellation = cancelled
    if cancellation is not None:
        raise cancellation


async def _run_in_task(work: Coroutine[Any, Any, None]) -> None:
    """Wait for `work` and ignore its errors. Raises CancelledError only if the caller is cancelled."""
    task = asyncio.ensure_future(work)
    await asyncio.wait([task], timeout=STOP_STEP_TIMEOUT_S)
    if not task.done():
        task.cancel()
    else:
        mark_retrieved(task)


def set_broker_timeout(producer: AIOKafkaProducer, milliseconds: int) -> None:
    """Set the time that a producer waits for a single broker, separately from the time until a record must be acknowledged.

    aiokafka uses `request_timeout_ms` for both, so after one silent broker no time is left to try another. This sets the
    attribute `_request_timeout_ms` of the producer's client only. Checked with aiokafka 0.14.
    """
    # No upstream issue found; https://github.com/aio-libs/aiokafka/issues/197 (closed) discusses the shared timeout.
    producer.client._request_timeout_ms = milliseconds


def create_transaction_waiter(producer: AIOKafkaProducer) -> None:
    """Let an idempotent producer record a fatal error outside of a transaction. Call this within the event loop.

    When the sender task fails, aiokafka stores the error in `_txn_manager._transaction_waiter`, which is None until the
    first transaction begins. The callback of the task then raises AttributeError. This creates the future in advance.
    Checked with aiokafka 0.14.
    """
    # No upstream issue found.
    producer._txn_manager._transaction_waiter = asyncio.get_running_loop().create_future()


async def drop_producer(producer: AIOKafkaProducer) -> None:
    """Stop an idempotent producer at once, so that nothing it holds is sent later. Unsent records fail with ProducerDropped.

    `AIOKafkaProducer.stop` waits until everything is sent, and an idempotent producer retries forever while the broker is
    away. After an unknown outcome nothing may arrive later. This cancels the sender task, closes the connections and fails
    all batches. When a batch fails, aiokafka removes it from the set `_pending_batches`. Batches that wait for a retry are
    not in that set, so they are added first. The sender task is cancelled repeatedly, because it catches the first
    cancellation and waits for its requests, which retry forever. Checked with aiokafka 0.14.
    Upstream: https://github.com/aio-libs/aiokafka/issues/1101.
    """
    producer._closed = True
    sender = producer._sender.sender_task
    if sender is not None:
        sender.cancel()
    await producer.client.close()
    accumulator = producer._message_accumulator
    accumulator._pending_batches.update(batch for batches in accumulator._batches.values() for batch in batches)
    accumulator.fail_all(ProducerDropped())
    for _ in range(CANCEL_ATTEMPTS):
        if sender is not None and not sender.done():
            sender.cancel()
            await asyncio.wait([sender], timeout=CANCEL_WAIT_S)
    _mark_failures_retrieved(producer)


def _mark_failures_retrieved(producer: AIOKafkaProducer) -> None:
    """Keep the event loop from logging errors of a dropped producer: the call that failed has raised them already."""
    waiters = [batch._drain_waiter for batches in producer._message_accumulator._batches.values() for batch in batches]
    for waiter in (*waiters, producer._txn_manager._transaction_waiter):
        if waiter.done():
            mark_retrieved(waiter)


def mark_retrieved(future: asyncio.Future[Any]) -> None:
    """Retrieve the error of a finished future, so that the event loop does not log it as never retrieved."""
    if not future.cancelled():
        future.exception()
