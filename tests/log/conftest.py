"""Every test of a promise of the `Log` port runs on each log there is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from streamproc.log.port import Log
from tests.broker import KafkaBroker
from tests.log.worlds import EmbeddedWorld, KafkaWorld, SimulatedWorld, World


@pytest.fixture(params=["simulated", "embedded", pytest.param("kafka", marks=pytest.mark.kafka)])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    async with AsyncExitStack() as stack:
        if request.param == "simulated":
            yield SimulatedWorld(stack)
        elif request.param == "embedded":
            yield EmbeddedWorld(stack, tmp_path / "log")
        else:
            broker: KafkaBroker = request.getfixturevalue("kafka_broker")
            yield KafkaWorld(stack, broker.url)


@pytest.fixture
async def log(world: World) -> Log:
    return await world.connect()
