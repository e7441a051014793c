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
