"""A broker that is starting or stopping may respond with an empty list of brokers, which no client may accept."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.client import AIOKafkaClient

from streamproc.errors import LogUnavailable
from streamproc.log.kafka import KafkaLog, KafkaSettings
from streamproc.log.kafka.admin import AdminConnection
from streamproc.log.kafka.aiokafka_patches import NoBrokerReady, require_brokers_on_bootstrap
from tests.broker import KafkaBroker

SERVERS = ("127.0.0.1:1",)


@pytest.fixture
def not_ready(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """The next so many answers to a client that starts tell of no broker."""
    real, left = AIOKafkaClient.bootstrap, [0]

    async def bootstrap(client: Any) -> None:
        if left[0]:
            left[0] -= 1
        else:
            await real(client)

    def times(number: int) -> None:
        left[0] = number
        monkeypatch.setattr(AIOKafkaClient, "bootstrap", bootstrap)

    return times


async def test_a_consumer_does_not_start_without_a_broker(not_ready: Callable[[int], None]) -> None:
    not_ready(1)
    consumer = AIOKafkaConsumer(bootstrap_servers=list(SERVERS))
    require_brokers_on_bootstrap(consumer._client)
    with pytest.raises(NoBrokerReady):
        await consumer.start()
    with suppress(asyncio.CancelledError):
        await consumer.stop()


async def test_a_connection_that_finds_no_broker_ready_says_so(
    not_ready: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def let_in(questions: AdminConnection) -> None:
        """Somebody answers."""

    monkeypatch.setattr(AdminConnection, "_probe", let_in)
    not_ready(100)
    with pytest.raises(LogUnavailable, match="no broker is ready yet"):
        await KafkaLog(KafkaSettings(SERVERS), timeout=0.2).__aenter__()


@pytest.mark.kafka
async def test_a_connection_waits_until_a_broker_is_ready(
    not_ready: Callable[[int], None], kafka_broker: KafkaBroker
) -> None:
    not_ready(3)
    async with KafkaLog(KafkaSettings((f"127.0.0.1:{kafka_broker.port}",))) as log:
        assert await log.brokers() == 1
