"""Batches of records as a broker hands them out: it has looked at how many there are and at the checksum, at little else."""

from __future__ import annotations

import struct

from aiokafka import TopicPartition
from aiokafka.consumer.fetcher import PartitionRecords
from aiokafka.record.util import calc_crc32c

from streamproc.log.kafka.aiokafka_patches import BATCH_HEADER, COUNT_AT, RECORDS_AT, ReadableRecords
from tests.fuzz import mutators
from tests.fuzz.trial import MIB, Bound, Target
from tests.log.raw_batches import GZIP, batch_of, overlong, with_strange_header

READ_UNCOMMITTED = 0
CODEC = 0x07


def taken(data: bytes) -> tuple[bytes, int]:
    """The input as a batch that a broker takes, and how many records that has."""
    head, records = data[:RECORDS_AT].ljust(RECORDS_AT, b"\0"), data[RECORDS_AT:]
    count = 1 + head[COUNT_AT + 3] % 16
    checked = struct.pack(">hi", head[22] & CODEC, count - 1) + head[27:COUNT_AT] + struct.pack(">i", count) + records
    frame = BATCH_HEADER.pack(0, RECORDS_AT - BATCH_HEADER.size + len(records))
    return frame + struct.pack(">ibI", 0, 2, calc_crc32c(checked)) + checked, count


def _batch(data: bytes) -> None:
    batch, count = taken(data)
    reading = PartitionRecords(
        TopicPartition("reports", 0), ReadableRecords(batch), [], 0, None, None, True, READ_UNCOMMITTED
    )  # fmt: skip
    assert [record.offset for record in reading] == list(range(count))


def _seeds() -> list[bytes]:
    values = [b"a report", None, b"", b"\x85" * 30]
    return [batch_of(values), batch_of(values, codec=GZIP), with_strange_header(values), *overlong(values)]


BATCH_TARGETS = (Target("batch", (ReadableRecords,), _batch, _seeds, mutators.of_bytes, (), Bound(64, 4 * MIB)),)
