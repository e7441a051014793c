"""Every test of a promise of the `Log` port runs on each log there is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from streamproc.log.port import Log
from tests.broker import KafkaBroker
from tests.log.backends import EmbeddedBackend, KafkaBackend, LogBackend, SimulatedBackend


@pytest.fixture(params=["simulated", "embedded", pytest.param("kafka", marks=pytest.mark.kafka)])
async def backend(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[LogBackend]:
    async with AsyncExitStack() as stack:
        if request.param == "simulated":
            yield SimulatedBackend(stack)
        elif request.param == "embedded":
            yield EmbeddedBackend(stack, tmp_path / "log")
        else:
            broker: KafkaBroker = request.getfixturevalue("kafka_broker")
            yield KafkaBackend(stack, broker.url)


@pytest.fixture
async def log(backend: LogBackend) -> Log:
    return await backend.connect()
