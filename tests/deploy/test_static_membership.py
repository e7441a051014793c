"""Gatherers that keep their names over a restart: nobody else's work is moved while one of them is away for a moment."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from streamproc.log.connect import connect
from streamproc.log.kafka.group import MAX_HEARTBEAT_INTERVAL_S
from streamproc.log.port import GroupMembership
from tests.broker import KafkaBroker
from tests.log.backends import new_topic
from tests.log.test_membership import settled

pytestmark = pytest.mark.kafka

Shares = set[frozenset[int]]


@asynccontextmanager
async def member(broker: KafkaBroker, topic: str, instance: str | None) -> AsyncIterator[GroupMembership]:
    """As a process that was started with STREAMPROC_KAFKA_INSTANCE has it."""
    environ = {} if instance is None else {"STREAMPROC_KAFKA_INSTANCE": instance}
    async with connect(broker.url, environ=environ | {"STREAMPROC_KAFKA_SESSION_TIMEOUT": "60"}) as log:
        yield await log.join_group(f"{topic}.gather", topic)


async def watched(other: GroupMembership, shares: Shares) -> None:
    """Record every share that is assigned to `other`."""
    while True:
        shares.add(await other.assigned(timeout=0.2))


async def restart_one_of_two(broker: KafkaBroker, *names: str | None) -> tuple[Shares, bool]:
    """What shares the one that is not restarted had all along; and whether the other had the same before and after."""
    async with connect(broker.url) as log:
        topic = await new_topic(log, partitions=4)
    shares: Shares = set()
    async with member(broker, topic, names[0]) as lasting:
        async with member(broker, topic, names[1]) as first:
            before = await settled(lasting, first, partitions=4)
        watching = asyncio.ensure_future(watched(lasting, shares))
        await asyncio.sleep(1.5 * MAX_HEARTBEAT_INTERVAL_S)  # by which the other would hear of a rebalance
        async with member(broker, topic, names[1]) as second:
            async with asyncio.timeout(60):
                while len(share := await second.assigned(timeout=0.3)) != 2:
                    pass
            watching.cancel()
            return shares, share == before[1]


async def test_a_member_with_a_name_comes_back_to_its_partitions_and_others_keep_theirs(kafka_broker: KafkaBroker) -> None:
    shares, same = await restart_one_of_two(kafka_broker, "gatherer-0", "gatherer-1")

    assert [len(share) for share in shares] == [2]
    assert same


@pytest.mark.slow
async def test_without_a_name_others_take_over_at_once(kafka_broker: KafkaBroker) -> None:
    shares, _ = await restart_one_of_two(kafka_broker, None, None)

    assert frozenset(range(4)) in shares
