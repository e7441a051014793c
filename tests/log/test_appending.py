"""Appending: in order, once, readable from any connection."""

from __future__ import annotations

import asyncio

import pytest

from streamproc.errors import RecordTooLarge
from streamproc.log.port import MAX_RECORD_BYTES, Log, Offset
from tests.log.backends import LogBackend, new_topic, read_all, read_to


async def test_a_record_is_read_back_as_it_was_appended(backend: LogBackend, log: Log) -> None:
    topic = await new_topic(log)
    await log.append(topic, 0, b"first", key=b"ann")
    await log.append(topic, 0, b"")
    other = await backend.connect()

    reader = await other.reader(topic, 0, Offset(0))
    found = await read_to(reader, 2)
    await reader.close()

    assert [(each.offset, each.key, each.value) for each in found] == [(0, b"ann", b"first"), (1, None, b"")]


async def test_offsets_grow_by_one_for_plain_records_in_each_partition(log: Log) -> None:
    topic = await new_topic(log, partitions=2)

    assert [await log.append(topic, 0, b"x"), await log.append(topic, 1, b"x"), await log.append(topic, 0, b"x")] == [
        0,
        0,
        1,
    ]
    assert await log.high_watermark(topic, 0) == 2
    assert await log.high_watermark(topic, 1) == 1
    assert await log.start_offset(topic, 0) == 0


async def test_thousands_of_records_keep_their_order(log: Log) -> None:
    topic = await new_topic(log)
    sent = [b"%d" % number for number in range(5000)]

    offsets = await log.append_many(topic, 0, [(b"key", value) for value in sent])

    assert list(offsets) == list(range(5000))
    assert await read_all(log, topic) == sent


async def test_concurrent_appends_of_several_connections_are_all_there_once(backend: LogBackend, log: Log) -> None:
    topic = await new_topic(log)
    connections = [log, await backend.connect(), await backend.connect()]

    sent = [f"{number}/{each}".encode() for number in range(3) for each in range(20)]
    offsets = await asyncio.gather(*(connections[value[0] - 48].append(topic, 0, value) for value in sent))

    found = await read_all(log, topic)
    assert sorted(offsets) == list(range(60))
    assert [found[offset] for offset in offsets] == sent


async def test_appending_nothing_is_fine(log: Log) -> None:
    assert list(await log.append_many(await new_topic(log), 0, [])) == []


async def test_large_records_come_back_whole(log: Log) -> None:
    topic = await new_topic(log)
    large = [bytes([number]) * 900_000 for number in range(4)]
    for value in large:
        await log.append(topic, 0, value)
    await log.append(topic, 0, b"x" * (MAX_RECORD_BYTES - 1), key=b"k")

    assert await read_all(log, topic) == [*large, b"x" * (MAX_RECORD_BYTES - 1)]


async def test_a_record_above_the_limit_is_refused_and_leaves_nothing(log: Log) -> None:
    topic = await new_topic(log)

    with pytest.raises(RecordTooLarge, match="1000001 bytes, expected at most 1000000"):
        await log.append(topic, 0, b"x" * MAX_RECORD_BYTES, key=b"k")
    with pytest.raises(RecordTooLarge):
        await log.append_many(topic, 0, [(None, b"small"), (None, b"x" * (MAX_RECORD_BYTES + 1))])

    assert await log.high_watermark(topic, 0) == 0
