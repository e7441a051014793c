"""Record batches that brokers accept but aiokafka cannot parse.

Without this parser a consumer is stuck at such a batch forever. There are two kinds:

* Compressed batches. The topics of a study have `compression.type=uncompressed`, so that brokers decompress each batch and
  refuse one that is then too large. If somebody changes that setting, a compressed batch may decompress to any size. It is
  not decompressed here.
* Header keys that are not UTF-8, and variable-length integers with surplus bytes, which brokers ignore. aiokafka refuses
  such a batch, or reads wrong offsets from it. It is parsed here in the way brokers parse it. Headers are left out, because
  no reader uses them.

A record that cannot be parsed at all is returned without key and value, so that every offset of a batch has a record.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from aiokafka.errors import CorruptRecordException
from aiokafka.record.memory_records import MemoryRecords

BATCH_HEADER = struct.Struct(">qi")
"""The first two fields of every batch: its first offset, and the number of bytes that follow."""
VERSION_AT, COUNT_AT, RECORDS_AT = 16, 57, 61
"""Positions in a batch: of its version; and in version 2, of the number of records and of the first record. In bytes."""


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
    """Replaces aiokafka's `MemoryRecords`: iterates over the batches of one fetch response."""

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
