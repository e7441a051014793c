"""What people, careless clients and strangers send, by a plain producer that knows the contract and nothing of our code."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

import msgpack
import numpy as np
from aiokafka import AIOKafkaProducer
from aiokafka.partitioner import murmur2

from streamproc.log.port import Offset
from tests.stream.places import Place


class Letter(NamedTuple):
    """One record of the reports topic."""

    partition: int | None
    """None: wherever Kafka's default partitioner sends the key."""
    key: bytes | None
    value: bytes


def report(individual: str, period: int, symbol: str, *, astray: int | None = None) -> Letter:
    value = msgpack.packb({"v": 1, "id": individual, "t": period, "s": symbol})
    return Letter(astray, individual.encode(), value)


def home(individual: str, partitions: int) -> int:
    """By aiokafka's own hash."""
    return int((murmur2(individual.encode()) & 0x7FFFFFFF) % partitions)


class Correspondence:
    """The letters of a study, the same for a seed: some early, twice, late, missing, astray or broken."""

    def __init__(self, people: Sequence[str], alphabet: Sequence[str], horizon: int, partitions: int, seed: int) -> None:
        self._people, self._alphabet = people, alphabet
        self._horizon, self._partitions = horizon, partitions
        self._rng = np.random.default_rng(seed)

    def of(self, period: int) -> list[Letter]:
        """What is sent between the cuts of the period before and of this one, in no order."""
        letters = self._reports(period, 0.9) + self._reports(period, 0.1)
        if period < self._horizon:
            letters += self._reports(period + 1, 0.1)
        if period > 1:
            letters += self._reports(period - 1, 0.1)
        letters += [report(each, period, "?") for each in self._some(0.03)]
        letters += [report(each, strange, self._symbol()) for each in self._some(0.02) for strange in (0, self._horizon + 1)]
        letters += [report(each, period, self._symbol(), astray=self._elsewhere(each)) for each in self._some(0.03)]
        letters += [report(f"stranger-{period}-{number}", max(period, 2), self._symbol()) for number in range(3)]
        broken = [b"", b"\xc1", self._rng.bytes(20), msgpack.packb({"v": 1, "id": 7, "t": period, "s": "0"})]
        letters += [Letter(int(self._rng.integers(self._partitions)), None, value) for value in broken]
        return [letters[place] for place in self._rng.permutation(len(letters))]

    def _reports(self, period: int, fraction: float) -> list[Letter]:
        return [report(each, period, self._symbol()) for each in self._some(fraction)]

    def _some(self, fraction: float) -> list[str]:
        return [each for each in self._people if self._rng.random() < fraction]

    def _symbol(self) -> str:
        return str(self._rng.choice(np.array(self._alphabet)))

    def _elsewhere(self, individual: str) -> int:
        return (home(individual, self._partitions) + 1) % self._partitions


def post(place: Place, letters: Sequence[Letter]) -> None:
    """Send in this order; returns when all are acknowledged."""
    asyncio.run(_post_to_kafka(place, letters) if place.url.startswith("kafka:") else _post_to_folder(place, letters))


async def _post_to_kafka(place: Place, letters: Sequence[Letter]) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=place.url.removeprefix("kafka://"), acks="all", enable_idempotence=True)
    await producer.start()
    try:
        topic = place.topics.reports
        sent = [await producer.send(topic, value, key, partition) for partition, key, value in letters]
        await asyncio.gather(*sent)
    finally:
        await producer.stop()


async def _post_to_folder(place: Place, letters: Sequence[Letter]) -> None:
    partitions = place.parameters.partitions
    async with place.connect() as log:
        for partition in range(partitions):
            batch = [
                (key, value) for to, key, value in letters if (_default(key, partitions) if to is None else to) == partition
            ]
            offsets: Sequence[Offset] = await log.append_many(place.topics.reports, partition, batch)
            assert len(offsets) == len(batch)


def _default(key: bytes | None, partitions: int) -> int:
    assert key is not None
    return home(key.decode(), partitions)
