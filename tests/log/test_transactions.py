"""Transactions: all or nothing, one owner, and what an open one hides."""

from __future__ import annotations

import asyncio
import time

import pytest

from streamproc.errors import Fenced, NoSuchTopic, OutcomeUnknown
from streamproc.log.port import Log, Offset, TransactionalProducer
from tests.log.backends import LogBackend, new_topic, read_all, read_to, values
from tests.log.uncommitted import read_uncommitted


async def fenced(log: Log, topic: str, *, timeout: float = 60.0) -> TransactionalProducer:
    producer = await log.transactional_producer(f"{topic}.synthesizer", timeout=timeout)
    await producer.fence()
    return producer


async def begun(log: Log, topic: str, *records: bytes, timeout: float = 60.0) -> TransactionalProducer:
    """A producer with an open transaction of these records."""
    producer = await fenced(log, topic, timeout=timeout)
    await producer.begin()
    for value in records:
        await producer.send(topic, 0, value)
    return producer


async def test_an_open_transaction_is_hidden_until_it_commits(log: Log) -> None:
    topic = await new_topic(log)
    await log.append(topic, 0, b"before")
    reader = await log.reader(topic, 0, Offset(0))
    producer = await begun(log, topic, b"in")
    await log.append(topic, 0, b"after")

    assert values(await read_to(reader, 1)) == [b"before"]
    assert list(await reader.read(timeout=0.2)) == []
    assert await log.last_stable_offset(topic, 0) == 1
    assert await log.high_watermark(topic, 0) == 3
    assert values(await read_uncommitted(log, topic)) == [b"before", b"in", b"after"]

    await producer.commit()
    end = await log.high_watermark(topic, 0)
    assert await log.last_stable_offset(topic, 0) == end
    assert values(await read_to(reader, end)) == [b"in", b"after"]
    await producer.close()
    await reader.close()


async def test_a_send_tells_the_offset(log: Log) -> None:
    topic = await new_topic(log)
    await log.append(topic, 0, b"before")
    producer = await fenced(log, topic)
    await producer.begin()

    offset = await producer.send(topic, 0, b"in", key=b"key")
    await producer.commit()

    reader = await log.reader(topic, 0, offset)
    assert [(each.offset, each.key, each.value) for each in await read_to(reader, offset + 1)] == [(1, b"key", b"in")]
    await reader.close()
    await producer.close()


async def test_a_record_of_a_transaction_has_the_timestamp_it_was_given_and_not_the_time(log: Log) -> None:
    topic = await new_topic(log)
    producer = await fenced(log, topic)
    await producer.begin()
    await producer.send(topic, 0, b"without")
    await producer.send(topic, 0, b"with", timestamp=1_767_229_200_123)
    await producer.commit()

    reader = await log.reader(topic, 0, Offset(0))
    assert [each.timestamp for each in await read_to(reader, 2)] == [0, 1_767_229_200_123]
    await reader.close()
    await producer.close()


async def test_a_record_outside_of_transactions_has_about_the_time(log: Log) -> None:
    topic, before = await new_topic(log), time.time()
    await log.append(topic, 0, b"value")

    reader = await log.reader(topic, 0, Offset(0))
    (record,) = await read_to(reader, 1)
    assert before - 1 <= record.timestamp / 1000 <= time.time() + 1
    await reader.close()


async def test_a_transaction_over_several_topics_is_atomic(log: Log) -> None:
    ledger, synthetic = await new_topic(log), await new_topic(log, partitions=2)
    producer = await fenced(log, ledger)
    await producer.begin()
    for number in range(3):
        await producer.send(synthetic, number % 2, b"%d" % number)
    await producer.send(ledger, 0, b"record")
    assert [await read_all(log, ledger), await read_all(log, synthetic, 0), await read_all(log, synthetic, 1)] == [
        [],
        [],
        [],
    ]

    await producer.commit()

    assert await read_all(log, ledger) == [b"record"]
    assert await read_all(log, synthetic, 0) == [b"0", b"2"]
    assert await read_all(log, synthetic, 1) == [b"1"]
    await producer.close()


async def test_an_aborted_transaction_is_passed_over(log: Log) -> None:
    topic = await new_topic(log)
    producer = await begun(log, topic, b"1", b"2")
    successor = await fenced(log, topic)
    end = await log.high_watermark(topic, 0)

    reader = await log.reader(topic, 0, Offset(0))
    assert await read_to(reader, end) == []
    assert end >= 2
    assert await log.last_stable_offset(topic, 0) == end
    assert values(await read_uncommitted(log, topic)) == [b"1", b"2"]
    await reader.close()
    await successor.close()
    await producer.close()


async def test_committed_transactions_are_read_between_fenced_ones(log: Log) -> None:
    topic = await new_topic(log)
    producer = await fenced(log, topic)
    for number in range(6):
        await producer.begin()
        await producer.send(topic, 0, b"%d" % number)
        if number % 3 == 1:
            await producer.close()
            producer = await fenced(log, topic)
        else:
            await producer.commit()

    assert await read_all(log, topic) == [b"0", b"2", b"3", b"5"]
    await producer.close()


async def test_a_transaction_without_records_commits(log: Log) -> None:
    topic = await new_topic(log)
    producer = await begun(log, topic)
    await producer.commit()
    await producer.begin()
    await producer.send(topic, 0, b"next")
    await producer.commit()

    assert await read_all(log, topic) == [b"next"]
    await producer.close()


async def test_fencing_aborts_what_the_older_one_left_open(backend: LogBackend, log: Log) -> None:
    topic = await new_topic(log)
    old = await begun(log, topic, b"zombie")
    new = await fenced(await backend.connect(), topic)

    assert await log.last_stable_offset(topic, 0) == await log.high_watermark(topic, 0)
    assert await read_all(log, topic) == []
    with pytest.raises(Fenced):
        await old.commit()
    with pytest.raises(Fenced):
        await old.begin()
    assert await read_all(log, topic) == []
    await new.begin()
    await new.send(topic, 0, b"new")
    await new.commit()
    assert await read_all(log, topic) == [b"new"]
    await old.close()
    await new.close()


async def test_a_fenced_transactor_that_was_idle_can_append_nothing(backend: LogBackend, log: Log) -> None:
    topic = await new_topic(log)
    old = await begun(log, topic, b"first")
    await old.commit()
    new = await fenced(await backend.connect(), topic)

    with pytest.raises(Fenced):
        await old.begin()
        await old.send(topic, 0, b"zombie")
        await old.commit()
    assert await read_all(log, topic) == [b"first"]
    assert await log.last_stable_offset(topic, 0) == await log.high_watermark(topic, 0)
    await old.close()
    await new.close()


async def test_transactors_of_other_ids_are_left_alone(backend: LogBackend, log: Log) -> None:
    one, two = await new_topic(log), await new_topic(log)
    first = await begun(log, one, b"one")
    second = await begun(await backend.connect(), two, b"two")
    await first.commit()
    await second.commit()

    assert [await read_all(log, one), await read_all(log, two)] == [[b"one"], [b"two"]]
    await first.close()
    await second.close()


async def test_a_transaction_open_for_too_long_is_aborted(log: Log) -> None:
    topic = await new_topic(log)
    producer = await begun(log, topic, b"late", timeout=8.0)

    async with asyncio.timeout(120):
        while await log.last_stable_offset(topic, 0) < await log.high_watermark(topic, 0):
            await asyncio.sleep(0.1)

    with pytest.raises(Fenced):
        await producer.commit()
    assert await read_all(log, topic) == []
    await producer.close()


async def test_a_crashed_owner_leaves_its_transaction_open_for_the_next(backend: LogBackend, log: Log) -> None:
    topic = await new_topic(log)
    crashed = await begun(log, topic, b"torn")
    await crashed.close()
    assert await log.last_stable_offset(topic, 0) == 0

    successor = await begun(await backend.connect(), topic, b"whole")
    await successor.commit()

    assert await read_all(log, topic) == [b"whole"]
    await successor.close()


async def test_a_transaction_that_lacks_a_record_cannot_be_committed(log: Log) -> None:
    topic = await new_topic(log)
    producer = await begun(log, topic, b"half")
    with pytest.raises(NoSuchTopic):
        await producer.send(f"{topic}.absent", 0, b"other half")

    with pytest.raises(OutcomeUnknown):
        await producer.commit()
    await producer.close()
    assert await read_all(log, topic) == []


async def test_calls_out_of_order_are_mistakes(log: Log) -> None:
    topic = await new_topic(log)
    producer = await log.transactional_producer(f"{topic}.synthesizer")
    with pytest.raises(RuntimeError, match="begin: the transactional producer is new, expected fenced"):
        await producer.begin()
    await producer.fence()
    with pytest.raises(RuntimeError, match="send: the transactional producer is fenced, expected in a transaction"):
        await producer.send(topic, 0, b"value")
    await producer.close()


async def test_a_large_transaction_is_read_whole(log: Log) -> None:
    topic = await new_topic(log)
    chunks = [bytes([number]) * 500_000 for number in range(20)]
    producer = await begun(log, topic, *chunks)
    await producer.commit()

    assert await read_all(log, topic) == chunks
    await producer.close()
