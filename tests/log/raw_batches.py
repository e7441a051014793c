"""Batches of records as no ordinary client makes them, and a way past it to send them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.protocol.produce import ProduceRequest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.util import calc_crc32c

GZIP = 1
HEADER_KEY = "a-header"


def batch_of(values: Sequence[bytes | None], *, codec: int = 0, headers: Sequence[tuple[str, bytes]] = ()) -> bytes:
    """One batch of version 2."""
    builder = DefaultRecordBatchBuilder(
        magic=2, compression_type=codec, is_transactional=0, producer_id=-1, producer_epoch=-1, base_sequence=-1,
        batch_size=2**30,
    )  # fmt: skip
    for number, value in enumerate(values):
        builder.append(number, 0, b"key", value, list(headers))
    return bytes(builder.build())


def with_strange_header(values: Sequence[bytes | None]) -> bytes:
    """Each record has a header whose key is not UTF-8. Brokers do not look at that."""
    batch = bytearray(batch_of(values, headers=[(HEADER_KEY, b"")]).replace(HEADER_KEY.encode(), b"\xff" * len(HEADER_KEY)))
    batch[17:21] = struct.pack(">I", calc_crc32c(batch[21:]))
    return bytes(batch)


def overlong(values: Sequence[bytes | None]) -> list[bytes]:
    """Batches in which the second record has, each in turn, a number written with a bit that brokers drop: its length, its
    place in the batch, the length of its value; or attributes that no client sets. The first has a strange header."""
    batches = []
    for strange in ("length", "place", "value", "attributes"):
        records = [
            _record(number, value, strange if number == 1 else "header" if number == 0 else "")
            for number, value in enumerate(values)
        ]
        count = len(records)
        checked = struct.pack(">hiqqqhii", 0, count - 1, 0, 0, -1, -1, -1, count) + b"".join(records)
        batches.append(struct.pack(">qiibI", 0, len(checked) + 9, -1, 2, calc_crc32c(checked)) + checked)
    return batches


def _record(place: int, value: bytes | None, strange: str) -> bytes:
    header = _number(1) + _number(1) + b"\xff" + _number(0) if strange == "header" else _number(0)
    body = b"\x80" if strange == "attributes" else b"\0"
    body += _number(0) + _number(place, strange == "place") + _number(3) + b"key"
    body += _number(-1 if value is None else len(value), strange == "value") + (value or b"") + header
    return _number(len(body), strange == "length") + body


def _number(number: int, strange: bool = False) -> bytes:
    """As Kafka writes it; a strange one takes five bytes, the last of which has a bit too many."""
    bits = (number << 1 ^ number >> 31) & 0xFFFFFFFF
    if strange:
        return bytes([bits >> 7 * place & 0x7F | 0x80 for place in range(4)] + [bits >> 28 | 0x10])
    written = bytearray()
    while bits >= 0x80:
        written.append(bits & 0x7F | 0x80)
        bits >>= 7
    return bytes([*written, bits])


async def produce(url: str, topic: str, batch: bytes) -> int:
    """Send it to partition 0; the broker's error code, 0 for none."""
    producer = AIOKafkaProducer(bootstrap_servers=url.removeprefix("kafka://"))
    await producer.start()
    try:
        await producer.client._wait_on_metadata(topic)
        leader = producer.client.cluster.leader_for_partition(TopicPartition(topic, 0))
        request = ProduceRequest(transactional_id=None, required_acks=-1, timeout=60_000, topics=[(topic, [(0, batch)])])
        answer: Any = await producer.client.send(leader, request)
        ((_, ((_, code, *_),)),) = answer.topics
        return int(code)
    finally:
        await producer.stop()
