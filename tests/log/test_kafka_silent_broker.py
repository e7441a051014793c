"""A broker that is there and says nothing, as a machine that was lost: others are asked in time."""

from __future__ import annotations

import asyncio
import socket

import pytest

from streamproc.log.connect import connect
from streamproc.log.port import Log, Offset
from tests.broker import KafkaBroker
from tests.log.backends import new_topic

pytestmark = pytest.mark.kafka

CLIENTS = 4
"""Of each kind. Each asks the brokers in an order of its own: once in 16 runs none of a kind begins with the silent one."""


async def append(log: Log, topic: str) -> None:
    await log.append(topic, 0, b"appended")


async def fence(log: Log, topic: str) -> None:
    await (await log.transactional_producer(f"{topic}.synthesizer")).fence()


async def read(log: Log, topic: str) -> None:
    reader = await log.reader(topic, 0, Offset(0))
    while not await reader.read(timeout=0.5):
        pass


async def test_clients_turn_to_another_broker_when_one_is_silent(kafka_broker: KafkaBroker) -> None:
    async with connect(kafka_broker.url) as log:
        topics = [await new_topic(log) for _ in range(CLIENTS)]
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(100)
        url = f"kafka://127.0.0.1:{silent.getsockname()[1]},127.0.0.1:{kafka_broker.port}"

        async def work(topic: str) -> None:
            async with connect(url, timeout=15.0) as log:
                await asyncio.gather(*(doing(log, topic) for doing in (append, fence, read)))

        await asyncio.gather(*map(work, topics))
