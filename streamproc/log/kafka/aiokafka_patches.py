"""Batches of records that a client can make, a broker takes, and aiokafka stumbles over: at that place of the log, for ever.

* Compressed ones. The topics of a study have `compression.type=uncompressed`, so that brokers unpack what comes, and refuse
  what unpacks to more than a batch may have. Should a topic be changed, a compressed batch may hold anything: it is not
  unpacked.
* Headers whose key is not UTF-8, and numbers written in another way than usual, of which brokers drop the surplus. aiokafka
  refuses these, or takes an offset for another. Such a batch is read here as a broker reads it, without the headers, which
  nobody needs.

Whatever cannot be read even so is handed out as a record without key and value: every offset of a batch has its record.
"""

from __future__ import annotations

import asyncio
import random
import struct
from collections.abc import Coroutine, Iterator, Sequence
from dataclasses import dataclass
from types import FunctionType, MethodType
from typing import Any

from aiokafka import AIOKafkaConsumer
from aiokafka.client import AIOKafkaClient, ConnectionGroup
from aiokafka.errors import CorruptRecordException, KafkaConnectionError, KafkaError
from aiokafka.protocol.metadata import MetadataRequest
from aiokafka.record.memory_records import MemoryRecords

BATCH_HEADER = struct.Struct(">qi")
"""Of every batch: the first offset, and how many bytes follow."""
VERSION_AT, COUNT_AT, RECORDS_AT = 16, 57, 61
"""Where a batch has its version; and one of version 2 the number of its records, and the first of them."""


@dataclass(frozen=True)
class PlainRecord:
    """What aiokafka makes its own records of."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int = -1
    timestamp_type: int = 0
    checksum: int | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class ReadableRecords:
    """In place of aiokafka's `MemoryRecords`: the batches of one fetch."""

    def __init__(self, content: bytes) -> None:
        self._content, self._at = content, 0
        self._records = MemoryRecords(content)
        self.size_in_bytes, self.has_next = self._records.size_in_bytes, self._records.has_next

    def next_batch(self) -> Any:
        """The next one; there must be one."""
        batch, begin = self._records.next_batch(), self._at
        self._at += BATCH_HEADER.size + BATCH_HEADER.unpack_from(self._content, begin)[1]
        # Brokers keep older versions only in topics that are older than transactions.
        return ReadableBatch(batch, self._content, begin) if self._content[begin + VERSION_AT] >= 2 else batch


class ReadableBatch:
    """One batch as aiokafka has it, but for its records. Made for every batch, which may hold one record: so it is quick."""

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
        """The next record of a control batch: only brokers make those."""
        return next(self._batch)

    def __iter__(self) -> Iterator[Any]:
        offsets = range(self.base_offset, self.next_offset)
        if self._batch.compression_type:
            return _blank(offsets)
        try:
            records = list(self._batch)
        except (UnicodeDecodeError, CorruptRecordException):
            return _as_brokers_read_it(self._content, self._begin, offsets)
        # Of a compacted topic some are missing; else brokers count them, and do not look at what each says of its place.
        if len(records) == len(offsets) and any(map(_is_elsewhere, records, offsets)):
            return _as_brokers_read_it(self._content, self._begin, offsets)
        return iter(records)


def _is_elsewhere(record: Any, offset: int) -> bool:
    return bool(record.offset != offset)


def _blank(offsets: Sequence[int]) -> Iterator[PlainRecord]:
    return (PlainRecord(offset, None, None) for offset in offsets)


def _as_brokers_read_it(fetched: bytes, begin: int, offsets: Sequence[int]) -> Iterator[PlainRecord]:
    end = begin + BATCH_HEADER.size + BATCH_HEADER.unpack_from(fetched, begin)[1]
    try:
        return iter(_records(fetched[begin:end], offsets))
    except (IndexError, struct.error):
        return _blank(offsets)


def _records(batch: bytes, offsets: Sequence[int]) -> list[PlainRecord]:
    """Raises IndexError if a number or a length leads outside."""
    (count,) = struct.unpack_from(">i", batch, COUNT_AT)
    if count != len(offsets):
        raise IndexError("not as many records as offsets")
    found, at = [], RECORDS_AT
    for offset in offsets:
        length, at = _number(batch, at)
        end = _end(batch, at, length)
        at = _after_number(batch, at + 1)  # the attributes, of one byte, and when it was sent
        at = _after_number(batch, at)  # its place in the batch
        key, at = _nullable(batch, at)
        value, at = _nullable(batch, at)
        if at > end:
            raise IndexError("a record longer than it says")
        found.append(PlainRecord(offset, key, value))
        at = end
    return found


def _number(batch: bytes, at: int) -> tuple[int, int]:
    """A signed number in at most five bytes, of which 32 bits count; and where it ends."""
    bits = 0
    for place in range(5):
        byte = batch[at + place]
        bits |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            bits &= 0xFFFFFFFF
            return (bits >> 1) ^ -(bits & 1), at + place + 1
    raise IndexError("a number of more than five bytes")


def _after_number(batch: bytes, at: int) -> int:
    while batch[at] >= 0x80:
        at += 1
    return at + 1


def _nullable(batch: bytes, at: int) -> tuple[bytes | None, int]:
    length, at = _number(batch, at)
    if length < 0:
        return None, at
    end = _end(batch, at, length)
    return batch[at:end], end


def _end(batch: bytes, at: int, length: int) -> int:
    if not 0 <= length <= len(batch) - at:
        raise IndexError("a length beyond the batch")
    return at + length


def patch_batch_decoding(consumer: AIOKafkaConsumer) -> None:
    """Make a started consumer read batches as above; it, and no other in the process.

    aiokafka has no option for it, so the one method that unpacks what was fetched sees another `MemoryRecords`.
    """
    fetcher = consumer._fetcher
    unpacks = type(fetcher)._proc_fetch_request
    names = {**unpacks.__globals__, MemoryRecords.__name__: ReadableRecords}
    own = FunctionType(unpacks.__code__, names, unpacks.__name__, unpacks.__defaults__, unpacks.__closure__)
    fetcher._proc_fetch_request = MethodType(own, fetcher)


def disable_topic_auto_creation(client: Any) -> None:
    """Make an AIOKafkaClient ask about its topics without creating them.

    Most brokers create whatever topic a client names, with settings of their own; a consumer whose topic is deleted would
    bring it back. aiokafka has no option against it, so its one method that asks is replaced.
    """
    client._metadata_update = MethodType(_metadata_update, client)


async def _metadata_update(self: Any, cluster_metadata: Any, topics: set[str]) -> bool:
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


class NoBrokerReady(KafkaConnectionError):  # type: ignore[misc]
    """A broker answers, but knows of no broker that serves."""


def require_brokers_on_bootstrap(client: Any) -> None:
    """Make an AIOKafkaClient fail to start, rather than start without knowing any broker.

    A broker that is starting or shutting down tells of none, not even of itself. aiokafka then keeps that connection and,
    once it is lost, has no address left to turn to: it would never find a broker again.
    """
    client.bootstrap = MethodType(_bootstrap, client)


async def _bootstrap(self: Any) -> None:
    await AIOKafkaClient.bootstrap(self)
    if not self.cluster.brokers():
        kept = self._conns.pop(("bootstrap", ConnectionGroup.DEFAULT), None)
        if kept is not None:
            kept.close()
        raise NoBrokerReady("no broker is ready yet")


GRACE = 5.0
"""Seconds for each step of an end in good order; then it is left to itself."""


async def stop_consumer(consumer: AIOKafkaConsumer) -> None:
    """Stop it, and close its connections, which it may not get to by itself; a request to cancel us waits until then."""
    request: asyncio.CancelledError | None = None
    for end in (consumer.stop, consumer._client.close):
        try:
            await _on_its_own(end())
        except asyncio.CancelledError as cancelled:
            request = cancelled
    if request is not None:
        raise request


async def _on_its_own(work: Coroutine[Any, Any, None]) -> None:
    """In a task: aiokafka may end with the CancelledError of one of its own tasks, which is not a request to cancel us."""
    task = asyncio.ensure_future(work)
    await asyncio.wait([task], timeout=GRACE)
    if not task.done():
        task.cancel()
    elif not task.cancelled():
        task.exception()  # asked for, or the loop would complain; a consumer that fails to end has ended
