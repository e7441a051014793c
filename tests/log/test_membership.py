"""Membership: every partition has one owner once things have settled."""

from __future__ import annotations

import asyncio

from streamproc.log.port import GroupMembership, Log
from tests.log.backends import LogBackend, new_topic


async def settled(*members: GroupMembership, partitions: int) -> list[frozenset[int]]:
    """What the members have once they share all partitions, and each has its part."""
    async with asyncio.timeout(120):
        while True:
            shares = await asyncio.gather(*(member.assigned(timeout=0.3) for member in members))
            sizes = [len(share) for share in shares]
            if sum(sizes) == partitions == len(frozenset().union(*shares)) and max(sizes) - min(sizes) <= 1:
                return shares


async def test_a_lone_member_has_every_partition(log: Log) -> None:
    topic = await new_topic(log, partitions=4)
    member = await log.join_group(f"{topic}.gather", topic)

    assert await settled(member, partitions=4) == [frozenset(range(4))]
    assert await member.assigned(timeout=0.1) == frozenset(range(4))
    await member.close()


async def test_members_share_and_take_over_what_one_leaves(backend: LogBackend, log: Log) -> None:
    topic = await new_topic(log, partitions=4)
    first = await log.join_group(f"{topic}.gather", topic)
    await settled(first, partitions=4)
    second = await (await backend.connect()).join_group(f"{topic}.gather", topic)

    shares = await settled(first, second, partitions=4)
    assert [len(share) for share in shares] == [2, 2]

    await first.close()
    assert await settled(second, partitions=4) == [frozenset(range(4))]
    await second.close()


async def test_groups_do_not_share(backend: LogBackend, log: Log) -> None:
    topic = await new_topic(log, partitions=2)
    one = await log.join_group(f"{topic}.one", topic)
    two = await (await backend.connect()).join_group(f"{topic}.two", topic)

    assert await settled(one, partitions=2) == await settled(two, partitions=2) == [frozenset({0, 1})]
    await one.close()
    await two.close()


async def test_a_member_knows_that_it_has_joined_also_when_no_partition_is_left_for_it(
    backend: LogBackend, log: Log
) -> None:
    topic = await new_topic(log, partitions=1)
    first = await log.join_group(f"{topic}.gather", topic)
    before = first.joined
    await settled(first, partitions=1)
    assert (before, first.joined) == (False, True)
    second = await (await backend.connect()).join_group(f"{topic}.gather", topic)
    async with asyncio.timeout(60):
        while not second.joined:
            await asyncio.gather(first.assigned(timeout=0.1), second.assigned(timeout=0.1))
    shares = [await member.assigned(timeout=0.1) for member in (first, second)]
    assert sorted(map(len, shares)) == [0, 1]
    await first.close()
    await second.close()
