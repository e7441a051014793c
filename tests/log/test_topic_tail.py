"""Tailing a topic: from its first record on, also if the topic does not exist yet."""

from __future__ import annotations

import pytest

from streamproc.errors import NoSuchTopic, TopicLost
from streamproc.log.port import Log, TopicSettings
from streamproc.log.topic_tail import TopicTail
from tests.log.backends import LogBackend, new_topic, values


async def test_a_tail_reads_from_the_first_record_and_knows_when_it_has_caught_up(log: Log) -> None:
    topic = await new_topic(log)
    await log.append_many(topic, 0, [(None, b"0"), (None, b"1")])
    tail = TopicTail(log, topic)
    assert not await tail.is_caught_up()

    assert values(await tail.poll(timeout=60)) == [b"0", b"1"]

    assert (tail.position, await tail.is_caught_up(), await tail.is_at_end()) == (2, True, True)
    await log.append(topic, 0, b"2")
    assert not await tail.is_caught_up()
    assert values(await tail.poll(timeout=60)) == [b"2"]
    await tail.close()


async def test_a_topic_that_does_not_exist_yet_is_empty_until_it_is_created(log: Log) -> None:
    tail = TopicTail(log, "later")
    with pytest.raises(NoSuchTopic):
        await tail.open()
    assert (list(await tail.poll(timeout=0)), tail.position) == ([], 0)
    assert await tail.is_caught_up() and await tail.is_at_end()

    await log.create_topic("later", TopicSettings(partitions=1))
    await log.append("later", 0, b"0")

    assert not await tail.is_caught_up()
    assert values(await tail.poll(timeout=60)) == [b"0"]
    await tail.close()
    await log.delete_topic("later")


async def test_a_topic_whose_first_records_are_gone_is_refused(backend: LogBackend, log: Log) -> None:
    topic = await new_topic(log)
    await log.append_many(topic, 0, [(None, b"0"), (None, b"1")])
    await backend.trim(topic, 0, 1)

    with pytest.raises(TopicLost, match="its first records are gone") as lost:
        await TopicTail(log, topic).poll(timeout=0)
    assert (lost.value.topic, lost.value.exit_code) == (topic, 3)
