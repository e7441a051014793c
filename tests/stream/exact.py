"""What a study without noise must have come to: tallies, rejects and columns, from its reports and cuts alone."""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import product
from typing import Any

import msgpack
import numpy as np
from aiokafka import AIOKafkaConsumer, TopicPartition

from streamproc.protocol.rejects import Reason, decode_reject
from streamproc.protocol.tallies import decode_tally
from tests.stream.deployed_study import DeployedStudy
from tests.stream_model.reference_model import Closed, Model


def models(deployed: DeployedStudy) -> list[Model]:
    """What each partition must have tallied and rejected, from its records and its cuts alone."""
    roster = (
        None if deployed.parameters.roster is None else (deployed.folder / deployed.parameters.roster).read_text().split()
    )
    ends = deployed.ends()
    assert len(ends) == deployed.parameters.horizon
    found = []
    for partition in range(deployed.parameters.partitions):
        records = [(record.offset, record.value) for record in deployed.records(deployed.topics.reports, partition)]
        found.append(Model(deployed.study, partition, roster, records, [cut[partition] for cut in ends]))
    return found


def check_tallies(deployed: DeployedStudy, expected: list[Model]) -> None:
    """Every tally is the model's, however often it was sent."""
    sent: dict[tuple[int, int, str], set[tuple[int, tuple[int, ...]]]] = {}
    for value in deployed.values(deployed.topics.tallies):
        chunk = decode_tally(value)
        assert (chunk.first, chunk.total) == (0, len(chunk.counts))
        key = chunk.partition, int(chunk.period), chunk.release
        sent.setdefault(key, set()).add((chunk.people, tuple(chunk.counts.tolist())))
    assert sent == {
        (partition, period, release): {(closed.people, tuple(counts))}
        for partition, model in enumerate(expected)
        for period, closed in enumerate(model.tallies(), start=1)
        for release, counts in closed.counts.items()
    }


def check_rejects(deployed: DeployedStudy, expected: list[Model], *, repeated: bool = False) -> None:
    """Every report that was not counted is named, with a true reason and without what it said; again after a restart."""
    found: list[Counter[int]] = [Counter() for _ in expected]
    reasons = set()
    for value in deployed.values(deployed.topics.rejects):
        assert set(msgpack.unpackb(value)) - {"counts"} == {"v", "type", "partition", "offset", "reason"}
        reject = decode_reject(value)
        found[reject.partition][reject.offset] += reject.count
        reasons |= set(reject.by_reason)
        assert set(reject.by_reason) <= expected[reject.partition].true_reasons()[reject.offset]
    for counted, model in zip(found, expected, strict=True):
        assert counted.keys() == model.rejected().keys()
        assert repeated or counted == model.rejected()
    of_open_studies = {Reason.TENURE_OVER, Reason.LEFT, Reason.NOT_SAMPLED}
    assert reasons == set(Reason) - of_open_studies - {Reason.NOT_ADMITTED, Reason.TOO_EARLY}


def read_plainly(deployed: DeployedStudy, release: str) -> list[dict[str, Any]]:
    """The records of a synthetic topic as anybody's consumer sees them: on Kafka one that knows nothing of our code."""
    topic = deployed.topics.synthetic(release)
    values = asyncio.run(consumed(deployed.url, topic)) if deployed.url.startswith("kafka:") else deployed.values(topic)
    return [msgpack.unpackb(value) for value in values]


async def consumed(url: str, topic: str) -> list[bytes]:
    servers = url.removeprefix("kafka://")
    consumer = AIOKafkaConsumer(
        bootstrap_servers=servers, isolation_level="read_committed", auto_offset_reset="earliest", enable_auto_commit=False
    )
    await consumer.start()
    try:
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        await consumer.seek_to_beginning(partition)
        end = (await consumer.end_offsets([partition]))[partition]
        values: list[bytes] = []
        while await consumer.position(partition) < end:
            for records in (await consumer.getmany(timeout_ms=500)).values():
                values += [record.value for record in records]
        return values
    finally:
        await consumer.stop()


def symbols_of(column: dict[str, Any]) -> list[int]:
    """A column's rows, from the contract alone."""
    bits = np.unpackbits(np.frombuffer(column["data"], dtype=np.uint8)).reshape(-1, column["bits"])[: column["rows"]]
    return [int("".join(map(str, row)), 2) for row in bits.tolist()]


def check_columns(deployed: DeployedStudy, expected: list[Model]) -> None:
    """Without noise: each column comes once, in order, and all together are the exact histogram, padding aside."""
    parameters = deployed.parameters
    exact = [model.tallies() for model in expected]
    for release in ("recent", "ever"):
        contract, *columns = read_plainly(deployed, release)
        assert contract["type"] == "contract"
        assert contract["insecure"] is True
        assert contract["n"] == sum(tallies[0].people for tallies in exact)
        assert [column["type"] for column in columns] == ["column"] * parameters.horizon
        assert [column["period"] for column in columns] == list(range(1, parameters.horizon + 1))
        assert {(column["first"], column["total"]) for column in columns} == {(0, contract["n_star"])}
        rows = list(zip(*map(symbols_of, columns), strict=True))
        if release == "recent":
            check_windows(parameters.k, len(parameters.alphabet), rows, exact, contract["n_pad"])
        else:
            check_ones(rows, exact)


def check_windows(k: int, q: int, rows: list[tuple[int, ...]], exact: list[list[Closed]], n_pad: int) -> None:
    for period in range(1, len(rows[0]) + 1):
        length = min(k, period)
        released = Counter(row[period - length : period] for row in rows)
        truth = np.sum([tallies[period - 1].counts["recent"] for tallies in exact], axis=0)[: q**length]
        padding = n_pad * q ** (k - length)
        assert [released[window] - padding for window in product(range(q), repeat=length)] == truth.tolist()


def check_ones(rows: list[tuple[int, ...]], exact: list[list[Closed]]) -> None:
    for period in range(1, len(rows[0]) + 1):
        made = np.sum([tallies[period - 1].counts["ever"] for tallies in exact], axis=0).reshape(-1, 2)
        reached: Counter[int] = Counter()
        for (ones_before, one), people in np.ndenumerate(made):
            reached[ones_before + one] += int(people)
        assert Counter(sum(row[:period]) for row in rows) == +reached
