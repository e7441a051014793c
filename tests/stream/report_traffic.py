"""Records of correct and incorrect clients, sent by a plain producer that uses the wire format but none of our code."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

import msgpack
import numpy as np
from aiokafka import AIOKafkaProducer
from aiokafka.partitioner import murmur2

from streamproc.log.port import Offset
from tests.stream.deployed_study import DeployedStudy


class RawRecord(NamedTuple):
    """One record of the reports topic."""

    partition: int | None
    """None: wherever Kafka's default partitioner sends the key."""
    key: bytes | None
    value: bytes


def report(individual: str, period: int, symbol: str, *, wrong_partition: int | None = None) -> RawRecord:
    value = msgpack.packb({"v": 1, "id": individual, "t": period, "s": symbol})
    return RawRecord(wrong_partition, individual.encode(), value)


def home(individual: str, partitions: int) -> int:
    """The home partition of an id, computed with aiokafka's hash."""
    return int((murmur2(individual.encode()) & 0x7FFFFFFF) % partitions)


class ReportTraffic:
    """The report records of a study, determined by a seed: some early, repeated, late, missing, misdirected or invalid."""

    def __init__(self, people: Sequence[str], alphabet: Sequence[str], horizon: int, partitions: int, seed: int) -> None:
        self._people, self._alphabet = people, alphabet
        self._horizon, self._partitions = horizon, partitions
        self._rng = np.random.default_rng(seed)

    def of(self, period: int) -> list[RawRecord]:
        """The records sent between the cuts of the period before and of this one, in random order."""
        raw_records = self._reports(period, 0.9) + self._reports(period, 0.1)
        if period < self._horizon:
            raw_records += self._reports(period + 1, 0.1)
        if period > 1:
            raw_records += self._reports(period - 1, 0.1)
        raw_records += [report(each, period, "?") for each in self._some(0.03)]
        raw_records += [
            report(each, strange, self._symbol()) for each in self._some(0.02) for strange in (0, self._horizon + 1)
        ]
        raw_records += [
            report(each, period, self._symbol(), wrong_partition=self._elsewhere(each)) for each in self._some(0.03)
        ]
        raw_records += [report(f"stranger-{period}-{number}", max(period, 2), self._symbol()) for number in range(3)]
        broken = [b"", b"\xc1", self._rng.bytes(20), msgpack.packb({"v": 1, "id": 7, "t": period, "s": "0"})]
        raw_records += [RawRecord(int(self._rng.integers(self._partitions)), None, value) for value in broken]
        return [raw_records[index] for index in self._rng.permutation(len(raw_records))]

    def _reports(self, period: int, fraction: float) -> list[RawRecord]:
        return [report(each, period, self._symbol()) for each in self._some(fraction)]

    def _some(self, fraction: float) -> list[str]:
        return [each for each in self._people if self._rng.random() < fraction]

    def _symbol(self) -> str:
        return str(self._rng.choice(np.array(self._alphabet)))

    def _elsewhere(self, individual: str) -> int:
        return (home(individual, self._partitions) + 1) % self._partitions


def send_raw(deployed: DeployedStudy, raw_records: Sequence[RawRecord]) -> None:
    """Send the records in this order; returns when all are acknowledged."""
    asyncio.run(
        _send_to_kafka(deployed, raw_records)
        if deployed.url.startswith("kafka:")
        else _send_to_folder(deployed, raw_records)
    )


async def _send_to_kafka(deployed: DeployedStudy, raw_records: Sequence[RawRecord]) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=deployed.url.removeprefix("kafka://"), acks="all", enable_idempotence=True)
    await producer.start()
    try:
        topic = deployed.topics.reports
        sent = [await producer.send(topic, value, key, partition) for partition, key, value in raw_records]
        await asyncio.gather(*sent)
    finally:
        await producer.stop()


async def _send_to_folder(deployed: DeployedStudy, raw_records: Sequence[RawRecord]) -> None:
    partitions = deployed.parameters.partitions
    async with deployed.connect() as log:
        for partition in range(partitions):
            batch = [
                (key, value)
                for to, key, value in raw_records
                if (_default(key, partitions) if to is None else to) == partition
            ]
            offsets: Sequence[Offset] = await log.append_many(deployed.topics.reports, partition, batch)
            assert len(offsets) == len(batch)


def _default(key: bytes | None, partitions: int) -> int:
    assert key is not None
    return home(key.decode(), partitions)
