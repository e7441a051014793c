"""Batches are read whatever a client put into them."""

from __future__ import annotations

import pytest
from aiokafka.record.memory_records import MemoryRecords
from hypothesis import given
from hypothesis import strategies as st

from streamproc.log.connect import connect
from streamproc.log.kafka.aiokafka_patches import ReadableRecords
from streamproc.log.port import Offset, TopicSettings
from tests.broker import KafkaBroker
from tests.log.backends import new_topic, read_all, read_to, values
from tests.log.raw_batches import GZIP, batch_of, overlong, produce, with_strange_header

MESSAGE_TOO_LARGE = 10

Values = st.lists(st.none() | st.binary(max_size=300), min_size=1, max_size=5)


def unpacked(records: ReadableRecords | MemoryRecords) -> list[tuple[int, bytes | None, bytes | None]]:
    found = []
    while records.has_next():
        found += [(record.offset, record.key, record.value) for record in records.next_batch()]
    return found


@given(st.lists(Values, max_size=4), st.lists(st.tuples(st.text(), st.binary()), max_size=2))
def test_ordinary_batches_are_read_as_aiokafka_reads_them(
    batches: list[list[bytes | None]], headers: list[tuple[str, bytes]]
) -> None:
    content = b"".join(batch_of(batch, headers=headers) for batch in batches)
    assert unpacked(ReadableRecords(content)) == unpacked(MemoryRecords(content))


@given(Values, Values)
def test_strange_headers_hide_no_record(strange: list[bytes | None], ordinary: list[bytes | None]) -> None:
    content = with_strange_header(strange) + batch_of(ordinary)
    with pytest.raises(UnicodeDecodeError):
        unpacked(MemoryRecords(content))
    assert [value for *_, value in unpacked(ReadableRecords(content))] == [*strange, *ordinary]


def test_numbers_that_aiokafka_reads_otherwise_are_read_as_brokers_read_them() -> None:
    sent = [b"report 0", b"report 1", b"report 2"]
    for batch in overlong(sent):
        assert unpacked(ReadableRecords(batch)) == [(number, b"key", value) for number, value in enumerate(sent)]


@given(Values)
def test_a_compressed_batch_is_not_unpacked_and_every_record_is_accounted_for(packed: list[bytes | None]) -> None:
    content = batch_of(packed, codec=GZIP)
    assert unpacked(ReadableRecords(content)) == [(number, None, None) for number in range(len(packed))]


@pytest.mark.kafka
@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
async def test_whatever_a_client_compresses_with_is_read(kafka_broker: KafkaBroker, codec: str) -> None:
    from confluent_kafka import Producer

    async with connect(kafka_broker.url) as log:
        topic = await new_topic(log)
        server = kafka_broker.url.removeprefix("kafka://")
        producer = Producer({"bootstrap.servers": server, "compression.codec": codec, "linger.ms": 100})
        sent = [b"report %d" % number for number in range(200)]
        for value in sent:
            producer.produce(topic, value, partition=0)
        assert producer.flush(60) == 0
        assert await read_all(log, topic) == sent


@pytest.mark.kafka
async def test_a_batch_that_unpacks_to_more_than_a_batch_may_have_is_refused_to_its_sender(
    kafka_broker: KafkaBroker,
) -> None:
    async with connect(kafka_broker.url) as log:
        topic = await new_topic(log)
        bomb = batch_of([bytes(20_000_000)], codec=GZIP)
        assert len(bomb) < 50_000
        assert await produce(kafka_broker.url, topic, bomb) == MESSAGE_TOO_LARGE
        assert await log.high_watermark(topic, 0) == 0


@pytest.mark.kafka
async def test_strange_headers_and_a_topic_that_keeps_what_is_compressed_hold_up_nobody(kafka_broker: KafkaBroker) -> None:
    async with connect(kafka_broker.url) as log:
        topic = f"{await new_topic(log)}.changed"
        await log.create_topic(topic, TopicSettings(1, compression="producer"))
        strange = overlong([b"0", b"1", b"2"])
        for batch in (*strange, with_strange_header([b"0", b"1"]), batch_of([b"2", b"3"], codec=GZIP), batch_of([b"4"])):
            assert await produce(kafka_broker.url, topic, batch) == 0
        reader = await log.reader(topic, 0, Offset(0))
        found = await read_to(reader, 17)
        assert values(found) == 4 * [b"0", b"1", b"2"] + [b"0", b"1", None, None, b"4"]
        assert [record.offset for record in found] == list(range(17))
        await reader.close()
