"""The broker that all tests of a session share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.broker.broker import KafkaBroker
from tests.broker.jars import missing_programs


@pytest.fixture(scope="session")
def kafka_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """Started when the first test asks for it. Tests use topics, groups and ids of their own; none stops this broker."""
    missing = missing_programs()
    if missing is not None:
        pytest.skip(missing)
    broker = KafkaBroker(tmp_path_factory.mktemp("kafka") / "broker")
    try:
        broker.start()
        yield broker
    finally:
        broker.kill()
