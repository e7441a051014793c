"""The times that public records carry, and the settings that topics need for it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from tests.stream.conftest import NewPlace
from tests.stream.places import Place

TIMESTAMP_SETTINGS = ("message.timestamp.type", "message.timestamp.before.max.ms")
DEFAULT = True


async def _with_admin(place: Place, work: Any) -> Any:
    admin = AIOKafkaAdminClient(bootstrap_servers=place.url.removeprefix("kafka://"))
    await admin.start()
    try:
        return await work(admin)
    finally:
        await admin.close()


def create_topic(place: Place, topic: str, **changed: str) -> None:
    """The topic as a version without settings for timestamps made it, but for what is `changed`."""
    config = {
        "retention.ms": "-1",
        "retention.bytes": "-1",
        "compression.type": "uncompressed",
        "max.message.bytes": "1048588",
        **{name.replace("_", "."): value for name, value in changed.items()},
    }
    asyncio.run(_with_admin(place, lambda admin: admin.create_topics([NewTopic(topic, 1, 1, topic_configs=config)])))


def timestamp_settings(place: Place, topic: str) -> Mapping[str, tuple[str, bool]]:
    """The value of each, and whether it is only the cluster's default."""
    resource = ConfigResource(ConfigResourceType.TOPIC, topic)
    (answer,) = asyncio.run(_with_admin(place, lambda admin: admin.describe_configs([resource])))
    entries = {entry[0]: entry for entry in answer.resources[0][4]}
    own_source = 1
    return {name: (entries[name][1], entries[name][3] != own_source) for name in TIMESTAMP_SETTINGS}


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("setting", "value", "difference"),
    [
        ("message_timestamp_type", "LogAppendTime", "timestamp_type LogAppendTime instead of CreateTime"),
        (
            "message_timestamp_before_max_ms",
            "86400000",
            "timestamp_before_max_ms 86400000 instead of 9223372036854775807",
        ),
    ],
)
def test_init_refuses_a_topic_that_would_not_keep_the_timestamps(
    new_place: NewPlace, setting: str, value: str, difference: str
) -> None:
    place = new_place("kafka")
    for topic in (place.topics.ledger, place.topics.synthetic("recent")):
        create_topic(place, topic, **{setting: value})

    refused = place.call("init")

    assert refused.code == 3
    assert f"topic {place.topics.ledger}: has {difference}; " in refused.complaint


@pytest.mark.kafka
def test_init_takes_a_topic_with_the_defaults_and_sets_them_explicitly_for_a_new_one(new_place: NewPlace) -> None:
    """The cluster may have other defaults, or get them while a study runs."""
    place = new_place("kafka")
    create_topic(place, place.topics.ledger)
    place.do("init")

    unlimited = str(2**63 - 1)
    assert list(timestamp_settings(place, place.topics.ledger).values()) == [("CreateTime", DEFAULT), (unlimited, DEFAULT)]
    for topic in place.all_topics() - {place.topics.ledger}:
        assert list(timestamp_settings(place, topic).values()) == [("CreateTime", False), (unlimited, False)]
