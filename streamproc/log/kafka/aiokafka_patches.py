"""Every use of private attributes and every replaced method or class of aiokafka.

No other module touches them. Each function states what aiokafka does, why that is a problem, and the upstream issue. All of
them were checked with aiokafka 0.14; tests/log/test_aiokafka_patches.py fails if a later version changes what they rely on.
Patches apply to a single client object, never to the classes of aiokafka.
"""

from __future__ import annotations

import asyncio
import random
import struct
from collections.abc import Coroutine, Iterator, Sequence
from dataclasses import dataclass
from types import FunctionType, MethodType
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.client import AIOKafkaClient, ConnectionGroup
from aiokafka.errors import CorruptRecordException, KafkaConnectionError, KafkaError
from aiokafka.protocol.metadata import MetadataRequest
from aiokafka.record.memory_records import MemoryRecords

CHECKED_VERSION = "0.14"
"""The version of aiokafka that the patches in this module were checked with."""

STOP_STEP_TIMEOUT_S = 5.0
"""Maximum time for each step of stopping a consumer, in seconds. After that the step is cancelled."""
CANCEL_ATTEMPTS, CANCEL_WAIT_S = 10, 0.1
"""How often the sender task of a dropped producer is cancelled, and how many seconds to wait each time."""

BATCH_HEADER = struct.Struct(">qi")
"""The first two fields of every batch: its first offset, and the number of bytes that follow."""
VERSION_AT, COUNT_AT, RECORDS_AT = 16, 57, 61
"""Positions in a batch: of its version; and in version 2, of the number of records and of the first record. In bytes."""


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

    aiokafka raises an error for some batches that brokers accept (see `ReadableRecords`), and raises it again for each fetch
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


# The parser that `patch_batch_decoding` installs


@dataclass(frozen=True)
class PlainRecord:
    """A parsed record, with the attributes that aiokafka reads from the records of a batch."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int = -1
    timestamp_type: int = 0
    checksum: int | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class ReadableRecords:
    """Replaces aiokafka's `MemoryRecords`: iterates over the batches of one fetch response.

    There are two kinds of batches that brokers accept but aiokafka cannot parse:

    * Compressed batches. The topics of a study have `compression.type=uncompressed`, so that brokers decompress each batch
      and refuse one that is then too large. If somebody changes that setting, a compressed batch may decompress to any size.
      It is not decompressed here.
    * Header keys that are not UTF-8, and variable-length integers with surplus bytes, which brokers ignore. aiokafka refuses
      such a batch, or reads wrong offsets from it. It is parsed here in the way brokers parse it. Headers are left out,
      because no reader uses them.

    A record that cannot be parsed at all is returned without key and value, so that every offset of a batch has a record.
    """

    def __init__(self, content: bytes) -> None:
        self._content, self._at = content, 0
        self._records = MemoryRecords(content)
        self.size_in_bytes, self.has_next = self._records.size_in_bytes, self._records.has_next

    def next_batch(self) -> Any:
        """Return the next batch. Call this only while `has_next()` is true."""
        batch, begin = self._records.next_batch(), self._at
        self._at += BATCH_HEADER.size + BATCH_HEADER.unpack_from(self._content, begin)[1]
        # Brokers store older versions only in topics that are older than transactions.
        return ReadableBatch(batch, self._content, begin) if self._content[begin + VERSION_AT] >= 2 else batch


class ReadableBatch:
    """Replaces aiokafka's record batch: the same attributes, but iteration survives records that aiokafka cannot parse.

    One object is created for each batch, and a batch may hold a single record, so the constructor must be fast.
    """

    __slots__ = (
        "_batch", "_begin", "_content", "base_offset", "is_control_batch", "is_transactional", "next_offset", "producer_id",
        "validate_crc",
    )  # fmt: skip

    def __init__(self, batch: Any, content: bytes, begin: int) -> None:
        self._batch, self._content, self._begin = batch, content, begin
        self.base_offset, self.next_offset = batch.base_offset, batch.next_offset
        self.is_control_batch, self.is_transactional = batch.is_control_batch, batch.is_transactional
        self.producer_id, self.validate_crc = batch.producer_id, batch.validate_crc

    def __next__(self) -> Any:
        """Return the next record of a control batch. Only brokers write control batches, so aiokafka can parse them."""
        return next(self._batch)

    def __iter__(self) -> Iterator[Any]:
        offsets = range(self.base_offset, self.next_offset)
        if self._batch.compression_type:
            return _blank_records(offsets)
        try:
            records = list(self._batch)
        except (UnicodeDecodeError, CorruptRecordException):
            return _parse_or_blank(self._content, self._begin, offsets)
        # In a compacted topic some records are missing. Otherwise a broker numbers the records of a batch consecutively and
        # ignores the offset delta that each record contains.
        if len(records) == len(offsets) and any(map(_has_other_offset, records, offsets)):
            return _parse_or_blank(self._content, self._begin, offsets)
        return iter(records)


def _has_other_offset(record: Any, offset: int) -> bool:
    return bool(record.offset != offset)


def _blank_records(offsets: Sequence[int]) -> Iterator[PlainRecord]:
    return (PlainRecord(offset, None, None) for offset in offsets)


def _parse_or_blank(fetched: bytes, begin: int, offsets: Sequence[int]) -> Iterator[PlainRecord]:
    """Return the records of the batch at `begin`, or blank records if the batch cannot be parsed."""
    end = begin + BATCH_HEADER.size + BATCH_HEADER.unpack_from(fetched, begin)[1]
    try:
        return iter(_parse_records(fetched[begin:end], offsets))
    except (IndexError, struct.error):
        return _blank_records(offsets)


def _parse_records(batch: bytes, offsets: Sequence[int]) -> list[PlainRecord]:
    """Parse a batch as brokers do. Raises IndexError if an integer or a length points outside of the batch."""
    (count,) = struct.unpack_from(">i", batch, COUNT_AT)
    if count != len(offsets):
        raise IndexError("the number of records differs from the number of offsets")
    found, at = [], RECORDS_AT
    for offset in offsets:
        length, at = _read_varint(batch, at)
        end = _end_of_field(batch, at, length)
        at = _skip_varint(batch, at + 1)  # one byte of attributes, and the timestamp delta
        at = _skip_varint(batch, at)  # the offset delta
        key, at = _read_nullable_bytes(batch, at)
        value, at = _read_nullable_bytes(batch, at)
        if at > end:
            raise IndexError("the record is longer than its length field")
        found.append(PlainRecord(offset, key, value))
        at = end
    return found


def _read_varint(batch: bytes, at: int) -> tuple[int, int]:
    """Return a zigzag-encoded integer of at most five bytes, of which the low 32 bits count, and the position after it."""
    bits = 0
    for place in range(5):
        byte = batch[at + place]
        bits |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            bits &= 0xFFFFFFFF
            return (bits >> 1) ^ -(bits & 1), at + place + 1
    raise IndexError("the integer has more than five bytes")


def _skip_varint(batch: bytes, at: int) -> int:
    while batch[at] >= 0x80:
        at += 1
    return at + 1


def _read_nullable_bytes(batch: bytes, at: int) -> tuple[bytes | None, int]:
    length, at = _read_varint(batch, at)
    if length < 0:
        return None, at
    end = _end_of_field(batch, at, length)
    return batch[at:end], end


def _end_of_field(batch: bytes, at: int, length: int) -> int:
    if not 0 <= length <= len(batch) - at:
        raise IndexError("the field ends after the batch")
    return at + length
