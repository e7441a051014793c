"""`python -m bench.reading HOW STUDY STATE ENDS`: read all reports of a study, and print what it took, period by period.

A process of its own for each reading, so that its processor time is that of this reading and of nothing else.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from time import process_time

from aiokafka import AIOKafkaConsumer, TopicPartition

from streamproc.gatherer.worker import Gatherer, GathererPorts
from streamproc.log.kafka.consumer import FETCH_BYTES
from streamproc.log.port import Offset
from streamproc.privacy.types import Period
from streamproc.protocol.rejects import Reason
from streamproc.service.deployment import Deployment
from streamproc.storage.clock import SystemClock


@dataclass(frozen=True)
class Mark:
    """How far a reader was, and what it had taken."""

    position: int
    """The offset it would read next."""
    seconds: float
    """Of processor time since the process started."""


class Marking:
    """A gatherer's observer: marks the start and every tally."""

    def __init__(self, ends: Sequence[int]) -> None:
        self._left = ends[-1]
        self._position = 0
        self.marks = [Mark(0, process_time())]

    def resumed(self, partition: int, period: Period, people: int, lag: int, size: int | None) -> None:
        """It starts from nothing, which the first mark says."""

    def read(self, partition: int, records: int, lag: int) -> None:
        """Nothing is appended meanwhile, so that the lag tells the position."""
        self._position = self._left - lag

    def rejected(self, partition: int, counts: Mapping[Reason, int]) -> None:
        """There is nothing to reject."""
        raise RuntimeError(f"{sum(counts.values())} reports were rejected")

    def tallied(self, partition: int, period: Period, people: int) -> None:
        """A period is done, its checkpoint excepted."""
        self.marks.append(Mark(self._position, process_time()))

    def checkpointed(self, partition: int, size: int) -> None:
        """Part of the next period's time."""

    def waits_for_study(self, partition: int) -> None:
        """Nothing to mark."""

    def caught_up(self, partition: int) -> None:
        """Nothing to mark."""

    def up_to_date(self, partition: int) -> None:
        """Nothing to mark."""


async def gather(deployment: Deployment, ends: Sequence[int]) -> list[Mark]:
    """The product's own gatherer: decodes, checks, collects, settles, tallies, checkpoints."""
    observer = Marking(ends)
    async with deployment.connect() as log:
        ports = GathererPorts(log, deployment.state_folder(), SystemClock())
        await Gatherer(deployment.study, 0, None, ports, observer).run()
    return observer.marks


async def bare(deployment: Deployment, ends: Sequence[int]) -> list[Mark]:
    """aiokafka's `getmany` and nothing else, fetching as much at once as the gatherer does, and taking in what is best."""
    at = TopicPartition(deployment.topics.reports, 0)
    marks = [Mark(0, process_time())]
    async with AIOKafkaConsumer(
        bootstrap_servers=deployment.broker.url.removeprefix("kafka://"),
        enable_auto_commit=False,
        max_partition_fetch_bytes=FETCH_BYTES,
    ) as consumer:
        consumer.assign([at])
        consumer.seek(at, 0)
        position = 0
        for end in ends:
            while position < end:
                for records in (await consumer.getmany(timeout_ms=500, max_records=10_000)).values():
                    position += len(records)
            marks.append(Mark(position, process_time()))
    return marks


async def bare_embedded(deployment: Deployment, ends: Sequence[int]) -> list[Mark]:
    """What takes the place of `bare` where there is no Kafka."""
    marks = [Mark(0, process_time())]
    async with deployment.connect() as log:
        reader = await log.reader(deployment.topics.reports, 0, Offset(0))
        for end in ends:
            while reader.position < end:
                await reader.read()
            marks.append(Mark(reader.position, process_time()))
    return marks


def main(how: str, study: str, state: str, ends: str) -> None:
    deployment = Deployment.of(Path(study), state=Path(state))
    read = gather if how == "gather" else bare if deployment.broker.folder is None else bare_embedded
    marks = asyncio.run(read(deployment, json.loads(ends)))
    json.dump([astuple(mark) for mark in marks], sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
