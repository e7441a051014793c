"""The times that public records carry, and the settings that topics need for it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from tests.stream.conftest import DeployStudy
from tests.stream.deployed_study import DeployedStudy, random_symbols

TIMESTAMP_SETTINGS = ("message.timestamp.type", "message.timestamp.before.max.ms")
DEFAULT = True


async def _with_admin(deployed: DeployedStudy, work: Any) -> Any:
    admin = AIOKafkaAdminClient(bootstrap_servers=deployed.url.removeprefix("kafka://"))
    await admin.start()
    try:
        return await work(admin)
    finally:
        await admin.close()


def create_topic(deployed: DeployedStudy, topic: str, **changed: str) -> None:
    """The topic as a version without settings for timestamps made it, but for what is `changed`."""
    config = {
        "retention.ms": "-1",
        "retention.bytes": "-1",
        "compression.type": "uncompressed",
        "max.message.bytes": "1048588",
        **{name.replace("_", "."): value for name, value in changed.items()},
    }
    asyncio.run(_with_admin(deployed, lambda admin: admin.create_topics([NewTopic(topic, 1, 1, topic_configs=config)])))


def timestamp_settings(deployed: DeployedStudy, topic: str) -> Mapping[str, tuple[str, bool]]:
    """The value of each, and whether it is only the cluster's default."""
    resource = ConfigResource(ConfigResourceType.TOPIC, topic)
    (answer,) = asyncio.run(_with_admin(deployed, lambda admin: admin.describe_configs([resource])))
    entries = {entry[0]: entry for entry in answer.resources[0][4]}
    own_source = 1
    return {name: (entries[name][1], entries[name][3] != own_source) for name in TIMESTAMP_SETTINGS}


def public_timestamps(deployed: DeployedStudy) -> list[list[int]]:
    """Of the ledger and of the two releases."""
    public = [deployed.topics.ledger, deployed.topics.synthetic("recent"), deployed.topics.synthetic("ever")]
    return [[record.timestamp for record in deployed.records(topic)] for topic in public]


def run_two_periods(deployed: DeployedStudy) -> None:
    deployed.do("send", deployed.write_panel(random_symbols("01", 200, 2, seed=17)), "--close")
    deployed.start("run", "--until-done").done()


@pytest.mark.kafka
def test_public_records_carry_their_planned_times_and_not_when_they_were_computed(deploy_study: DeployStudy) -> None:
    schedule = '\n[schedule]\nstart = 2026-01-01T00:00:00Z\nevery = "month"\ngrace = "5m"\nrelease_after = "1h"\n'
    deployed = deploy_study("kafka", schedule=schedule, horizon=2)
    run_two_periods(deployed)

    ledger, recent, ever = public_timestamps(deployed)
    first, second = (int(1000 * datetime(2026, month, 1, 1, 5, tzinfo=UTC).timestamp()) for month in (2, 3))
    assert ledger[0] == 0  # the study record
    assert ledger[1:] == sorted(ledger[1:]) and set(ledger[1:]) == {first, second}
    assert recent == ever == [first, first, second]  # the contract and a column, then a column


@pytest.mark.kafka
def test_without_a_release_time_public_records_carry_none(deploy_study: DeployStudy) -> None:
    deployed = deploy_study("kafka", horizon=2)
    run_two_periods(deployed)
    assert {stamp for stamps in public_timestamps(deployed) for stamp in stamps} == {0}


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
    deploy_study: DeployStudy, setting: str, value: str, difference: str
) -> None:
    deployed = deploy_study("kafka")
    for topic in (deployed.topics.ledger, deployed.topics.synthetic("recent")):
        create_topic(deployed, topic, **{setting: value})

    refused = deployed.call("init")

    assert refused.code == 3
    assert f"topic {deployed.topics.ledger}: has {difference}; " in refused.complaint


@pytest.mark.kafka
def test_init_takes_a_topic_with_the_defaults_and_sets_them_explicitly_for_a_new_one(deploy_study: DeployStudy) -> None:
    """The cluster may have other defaults, or get them while a study runs."""
    deployed = deploy_study("kafka")
    create_topic(deployed, deployed.topics.ledger)
    deployed.do("init")

    unlimited = str(2**63 - 1)
    assert list(timestamp_settings(deployed, deployed.topics.ledger).values()) == [
        ("CreateTime", DEFAULT),
        (unlimited, DEFAULT),
    ]
    for topic in deployed.all_topics() - {deployed.topics.ledger}:
        assert list(timestamp_settings(deployed, topic).values()) == [("CreateTime", False), (unlimited, False)]
