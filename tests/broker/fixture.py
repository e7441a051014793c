"""Brokers that run for as long as tests need them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, TypeVar

import pytest

from tests.broker.broker import KafkaBroker
from tests.broker.jars import missing_programs


class Killable(Protocol):
    """A broker or a cluster."""

    def start(self) -> None: ...
    def kill(self) -> None: ...


SomeBroker = TypeVar("SomeBroker", bound=Killable)


@contextmanager
def running(make: Callable[[Path], SomeBroker], folder: Path) -> Iterator[SomeBroker]:
    """Start what `make` makes of the folder, and kill it at the end; skip the test on a machine without the programs."""
    missing = missing_programs()
    if missing is not None:
        pytest.skip(missing)
    broker = make(folder)
    try:
        broker.start()
        yield broker
    finally:
        broker.kill()


@pytest.fixture(scope="session")
def kafka_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """Started when the first test asks for it. Tests use topics, groups and ids of their own; none stops this broker."""
    with running(KafkaBroker, tmp_path_factory.mktemp("kafka") / "broker") as broker:
        yield broker
