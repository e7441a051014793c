"""Reading: from where it was asked, only what is there, and never on in another log."""

from __future__ import annotations

import asyncio

import pytest

from streamproc.errors import NoSuchTopic, OffsetLost
from streamproc.log.port import Log, Offset, TopicSettings
from tests.log.backends import LogBackend, new_topic, read_all, read_to, values


async def test_a_reader_begins_at_its_offset_and_follows(backend: LogBackend, log: Log) -> None:
    topic = await new_topic(log)
    await log.append_many(topic, 0, [(None, b"0"), (None, b"1"), (None, b"2")])
    reader = await log.reader(topic, 0, Offset(1))

    assert values(await read_to(reader, 3)) == [b"1", b"2"]
    later = asyncio.create_task(reader.read(timeout=60))
    await (await backend.connect()).append(topic, 0, b"3")
    assert values(await later) == [b"3"]
    assert reader.position == 4
    await reader.close()


async def test_reading_at_the_end_finds_nothing_in_its_time(log: Log) -> None:
    topic = await new_topic(log)
    await log.append(topic, 0, b"0")
    reader = await log.reader(topic, 0, Offset(1))

    started = asyncio.get_running_loop().time()
    assert list(await reader.read(timeout=0.1)) == []
    assert asyncio.get_running_loop().time() - started > 0.09
    assert reader.position == 1
    await reader.close()


async def test_a_read_gives_no_more_than_was_asked_for(log: Log) -> None:
    topic = await new_topic(log)
    await log.append_many(topic, 0, [(None, b"%d" % number) for number in range(10)])
    reader = await log.reader(topic, 0, Offset(0))

    pieces = [values(await reader.read(max_records=4, timeout=60)) for _ in range(3)]

    assert pieces == [[b"0", b"1", b"2", b"3"], [b"4", b"5", b"6", b"7"], [b"8", b"9"]]
    assert reader.position == 10
    await reader.close()


async def test_readers_of_one_connection_do_not_disturb_each_other(log: Log) -> None:
    topic = await new_topic(log, partitions=2)
    await log.append(topic, 0, b"zero")
    await log.append(topic, 1, b"one")
    readers = [await log.reader(topic, partition, Offset(0)) for partition in (0, 1, 1)]

    found = await asyncio.gather(*(reader.read(timeout=60) for reader in readers))

    assert [values(each) for each in found] == [[b"zero"], [b"one"], [b"one"]]
    for reader in readers:
        await reader.close()


async def test_an_offset_above_the_end_is_lost(log: Log) -> None:
    topic = await new_topic(log)
    await log.append(topic, 0, b"0")

    with pytest.raises(OffsetLost) as lost:
        await log.reader(topic, 0, Offset(2))
    assert (
        str(lost.value)
        == f"{topic}/0: cannot continue to read from the previous position: the log begins later or ends earlier"
    )


async def test_an_offset_below_the_start_is_lost(backend: LogBackend, log: Log) -> None:
    topic = await new_topic(log)
    await log.append_many(topic, 0, [(None, b"%d" % number) for number in range(4)])
    await backend.trim(topic, 0, 3)

    assert await log.start_offset(topic, 0) == 3
    assert await log.high_watermark(topic, 0) == 4
    assert await read_all(log, topic) == [b"3"]
    with pytest.raises(OffsetLost) as lost:
        await log.reader(topic, 0, Offset(2))
    assert (lost.value.offset, lost.value.start, lost.value.end) == (2, 3, 4)


async def test_a_reader_that_retention_overtakes_keeps_saying_so(backend: LogBackend, log: Log) -> None:
    topic = await new_topic(log)
    # More than a reader fetches ahead.
    await log.append_many(topic, 0, [(None, b"x" * 900_000)] * 8)
    reader = await log.reader(topic, 0, Offset(0))
    await reader.read(max_records=1, timeout=60)
    at_end = await log.reader(topic, 0, Offset(8))
    await backend.trim(topic, 0, 8)

    with pytest.raises(OffsetLost):
        # What was fetched before may still come, in order.
        async with asyncio.timeout(60):
            while True:
                await reader.read(timeout=0.3)
    with pytest.raises(OffsetLost):
        await reader.read(timeout=0.3)
    assert list(await at_end.read(timeout=0.1)) == []
    await reader.close()
    await at_end.close()


@pytest.mark.parametrize("length", [1, 9], ids=["shorter", "longer"])
async def test_a_recreated_topic_is_never_read_on(backend: LogBackend, log: Log, length: int) -> None:
    topic = await new_topic(log)
    await log.append_many(topic, 0, [(None, b"old")] * 3)
    reader = await log.reader(topic, 0, Offset(0))
    assert len(await read_to(reader, 3)) == 3
    other = await backend.connect()
    again = await other.reader(topic, 0, Offset(0))
    assert again.topic_id == reader.topic_id
    await again.close()
    await other.delete_topic(topic)
    await other.create_topic(topic, TopicSettings(1))
    await other.append_many(topic, 0, [(None, b"new")] * length)

    for _ in range(3):
        with pytest.raises(OffsetLost):
            await reader.read(timeout=0.3)
    assert reader.position == 3
    await reader.close()
    reopened = await log.reader(topic, 0, Offset(0))
    assert reopened.topic_id != reader.topic_id
    await reopened.close()


async def test_a_reader_of_a_deleted_topic_says_so_and_does_not_bring_it_back(backend: LogBackend, log: Log) -> None:
    topic = await new_topic(log)
    reader = await log.reader(topic, 0, Offset(0))
    await (await backend.connect()).delete_topic(topic)

    for _ in range(3):
        with pytest.raises(NoSuchTopic):
            await reader.read(timeout=0.3)
    await reader.close()
    assert topic not in await log.topics()
