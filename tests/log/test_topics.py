"""Topics: created only on purpose, with the settings asked for."""

from __future__ import annotations

import pytest

from streamproc.errors import NoSuchTopic
from streamproc.log.port import Log, Offset, TopicSettings
from tests.log.backends import LogBackend, new_topic, read_all


async def test_a_topic_has_the_settings_it_was_created_with(log: Log) -> None:
    topic = await new_topic(log)
    rejects = f"{topic}.rejects"
    await log.create_topic(rejects, TopicSettings(3, retention_ms=30 * 86_400_000))

    assert await log.settings_of(topic) == TopicSettings(1)
    assert await log.settings_of(rejects) == TopicSettings(3, retention_ms=30 * 86_400_000)


async def test_every_connection_sees_the_topics_and_their_partitions(backend: LogBackend, log: Log) -> None:
    topic = await new_topic(log, partitions=3)
    other = await backend.connect()

    assert (await other.topics())[topic] == 3


async def test_creating_a_topic_that_is_there_changes_nothing(log: Log) -> None:
    topic = await new_topic(log)
    await log.append(topic, 0, b"kept")
    await log.create_topic(topic, TopicSettings(5, retention_ms=1))

    assert await log.settings_of(topic) == TopicSettings(1)
    assert await read_all(log, topic) == [b"kept"]


async def test_a_deleted_topic_is_gone_and_deleting_it_again_is_fine(log: Log) -> None:
    topic = await new_topic(log)
    await log.delete_topic(topic)
    await log.delete_topic(topic)

    assert topic not in await log.topics()
    with pytest.raises(NoSuchTopic):
        await log.settings_of(topic)


async def test_asking_for_a_topic_that_does_not_exist_says_so_and_creates_nothing(log: Log) -> None:
    there = await new_topic(log)
    topic = f"{there}.absent"
    before = set(await log.topics())
    producer = await log.transactional_producer(f"{topic}.synthesizer")
    await producer.fence()
    await producer.begin()

    for attempt in (
        log.settings_of(topic),
        log.start_offset(topic, 0),
        log.high_watermark(topic, 0),
        log.last_stable_offset(topic, 0),
        log.reader(topic, 0, Offset(0)),
        log.append(topic, 0, b"value"),
        log.append_many(topic, 0, [(None, b"value")]),
        log.join_group(f"{topic}.group", topic),
        producer.send(topic, 0, b"value"),
    ):
        with pytest.raises(NoSuchTopic) as refused:
            await attempt
        assert str(refused.value) == f"topic {topic} does not exist"
    await producer.close()

    assert set(await log.topics()) <= before | {"__transaction_state", "__consumer_offsets"}


async def test_a_partition_the_topic_does_not_have_is_refused(log: Log) -> None:
    topic = await new_topic(log, partitions=2)

    for attempt in (log.high_watermark(topic, 2), log.append(topic, 2, b"value"), log.reader(topic, 2, Offset(0))):
        with pytest.raises(NoSuchTopic, match=f"topic {topic} has no partition 2"):
            await attempt
