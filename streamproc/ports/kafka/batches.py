"""Batches of records that a client can make, a broker takes, and aiokafka stumbles over: at that place of the log, for ever.

* Compressed ones. The topics of a study have `compression.type=uncompressed`, so that brokers unpack what comes, and refuse
  what unpacks to more than a batch may have. Should a topic be changed, a compressed batch may hold anything: it is not
  unpacked, and each of its records is read as one without key and value.
* Headers whose key is not UTF-8. Nothing here reads headers, so the records are read without them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from types import FunctionType, MethodType
from typing import Any

from aiokafka import AIOKafkaConsumer
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.record.util import decode_varint

FRAME = struct.Struct(">qi")
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
        self._at += FRAME.size + FRAME.unpack_from(self._content, begin)[1]
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
        if self._batch.compression_type:
            return (PlainRecord(offset, None, None) for offset in range(self.base_offset, self.next_offset))
        try:
            return iter(list(self._batch))
        except UnicodeDecodeError:
            return _without_headers(self._content, self._begin)


def _without_headers(fetched: bytes, begin: int) -> Iterator[PlainRecord]:
    base, length = FRAME.unpack_from(fetched, begin)
    content = bytearray(fetched[begin : begin + FRAME.size + length])
    (count,) = struct.unpack_from(">i", content, COUNT_AT)
    at = RECORDS_AT
    for _ in range(count):
        length, at = decode_varint(content, at)
        end = at + length
        _, at = decode_varint(content, at + 1)  # after the attributes: when it was sent
        place, at = decode_varint(content, at)
        key, at = _nullable(content, at)
        value, at = _nullable(content, at)
        yield PlainRecord(base + place, key, value)
        at = end


def _nullable(content: bytearray, at: int) -> tuple[bytes | None, int]:
    length, at = decode_varint(content, at)
    return (None, at) if length < 0 else (bytes(content[at : at + length]), at + length)


def open_every_batch(consumer: AIOKafkaConsumer) -> None:
    """Make a started consumer read batches as above; it, and no other in the process.

    aiokafka has no option for it, so the one method that unpacks what was fetched sees another `MemoryRecords`.
    """
    fetcher = consumer._fetcher
    unpacks = type(fetcher)._proc_fetch_request
    names = {**unpacks.__globals__, MemoryRecords.__name__: ReadableRecords}
    own = FunctionType(unpacks.__code__, names, unpacks.__name__, unpacks.__defaults__, unpacks.__closure__)
    fetcher._proc_fetch_request = MethodType(own, fetcher)
