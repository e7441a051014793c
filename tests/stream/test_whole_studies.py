"""Whole studies over reports of every kind, by gatherers in processes of their own: tallies, rejects and columns."""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import product
from typing import Any

import msgpack
import numpy as np
import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition

from streamproc.wire.rejects import Reason, decode_reject
from streamproc.wire.tallies import decode_tally
from tests.stream.conftest import BROKERS, NewPlace
from tests.stream.mail import Correspondence, post
from tests.stream.places import Place, individual
from tests.world.model import Closed, Model

BINARY: dict[str, Any] = {}
FOUR_LEVELS: dict[str, Any] = {
    "alphabet": ("A", "B", "C", "D"),
    "event": ("C", "D"),
    "horizon": 5,
    "roster": "people.txt",
    "duplicates": "last",
}
PEOPLE = [individual(row) for row in range(200)]


def begun(place: Place) -> None:
    """Topics are there, and the roster if the study wants one: a few of its people never report."""
    if place.recipe.roster is not None:
        (place.folder / place.recipe.roster).write_text("".join(f"{each}\n" for each in [*PEOPLE, "silent-1", "silent-2"]))
    place.do("init")


def correspondence(place: Place, seed: int) -> Correspondence:
    recipe = place.recipe
    return Correspondence(PEOPLE, recipe.alphabet, recipe.horizon, recipe.partitions, seed)


def models(place: Place) -> list[Model]:
    """What each partition must have tallied and rejected, from its records and its cuts alone."""
    roster = None if place.recipe.roster is None else (place.folder / place.recipe.roster).read_text().split()
    ends = place.ends()
    assert len(ends) == place.recipe.horizon
    found = []
    for partition in range(place.recipe.partitions):
        records = [(record.offset, record.value) for record in place.records(place.topics.reports, partition)]
        found.append(Model(place.study, partition, roster, records, [cut[partition] for cut in ends]))
    return found


def check_tallies(place: Place, expected: list[Model]) -> None:
    """Every tally is the model's, however often it was sent."""
    sent: dict[tuple[int, int, str], set[tuple[int, tuple[int, ...]]]] = {}
    for value in place.values(place.topics.tallies):
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


def check_rejects(place: Place, expected: list[Model], *, repeated: bool = False) -> None:
    """Every report that was not counted is named, with a true reason and without what it said; again after a restart."""
    found: list[Counter[int]] = [Counter() for _ in expected]
    reasons = set()
    for value in place.values(place.topics.rejects):
        assert set(msgpack.unpackb(value)) == {"v", "type", "partition", "offset", "reason"}
        reject = decode_reject(value)
        found[reject.partition][reject.offset] += 1
        reasons.add(reject.reason)
        assert reject.reason in expected[reject.partition].true_reasons()[reject.offset]
    for counted, model in zip(found, expected, strict=True):
        assert counted.keys() == model.rejected().keys()
        assert repeated or counted == model.rejected()
    assert reasons == set(Reason) - {Reason.NOT_ADMITTED}


def read_plainly(place: Place, release: str) -> list[dict[str, Any]]:
    """The records of a synthetic topic as anybody's consumer sees them: on Kafka one that knows nothing of our code."""
    topic = place.topics.synthetic(release)
    values = asyncio.run(consumed(place.url, topic)) if place.url.startswith("kafka:") else place.values(topic)
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


def check_columns(place: Place, expected: list[Model]) -> None:
    """Without noise: each column comes once, in order, and all together are the exact histogram, padding aside."""
    recipe = place.recipe
    exact = [model.tallies() for model in expected]
    for release in ("recent", "ever"):
        contract, *columns = read_plainly(place, release)
        assert contract["type"] == "contract"
        assert contract["insecure"] is True
        assert contract["n"] == sum(tallies[0].people for tallies in exact)
        assert [column["type"] for column in columns] == ["column"] * recipe.horizon
        assert [column["period"] for column in columns] == list(range(1, recipe.horizon + 1))
        assert {(column["first"], column["total"]) for column in columns} == {(0, contract["n_star"])}
        rows = list(zip(*map(symbols_of, columns), strict=True))
        if release == "recent":
            check_windows(recipe.k, len(recipe.alphabet), rows, exact, contract["n_pad"])
        else:
            check_ones(rows, exact)


def check_windows(k: int, q: int, rows: list[tuple[int, ...]], exact: list[list[Closed]], n_pad: int) -> None:
    for period in range(k, len(rows[0]) + 1):
        released = Counter(row[period - k : period] for row in rows)
        truth = np.sum([tallies[period - 1].counts["recent"] for tallies in exact], axis=0)
        assert [released[window] - n_pad for window in product(range(q), repeat=k)] == truth.tolist()


def check_ones(rows: list[tuple[int, ...]], exact: list[list[Closed]]) -> None:
    truth = np.zeros(len(rows[0]), dtype=np.int64)
    for period in range(1, len(rows[0]) + 1):
        truth += np.sum([tallies[period - 1].counts["ever"] for tallies in exact], axis=0)
        ones = [sum(row[:period]) for row in rows]
        assert [sum(one >= b for one in ones) for b in range(1, len(rows[0]) + 1)] == truth.tolist()


@pytest.mark.parametrize("broker", BROKERS)
@pytest.mark.parametrize("kind", [BINARY, FOUR_LEVELS], ids=["binary", "four-levels"])
def test_pinned_gatherers_tally_what_the_model_says(new_place: NewPlace, broker: str, kind: dict[str, Any]) -> None:
    place = new_place(broker, **kind)
    begun(place)
    synthesizer = place.start_altered("silent", "synthesize", "--state", place.folder / "synthesizer")
    gatherers = [
        place.start("gather", "--partition", 0, "--partition", 1, "--state", place.folder / "one"),
        place.start("gather", "--partition", 2, "--partition", 3, "--state", place.folder / "two"),
    ]
    letters = correspondence(place, seed=3)

    for period in range(1, place.recipe.horizon + 1):
        post(place, letters.of(period))
        place.do("close", "--period", period)
    for program in (synthesizer, *gatherers):
        program.done()

    expected = models(place)
    check_tallies(place, expected)
    check_rejects(place, expected)
    check_columns(place, expected)


@pytest.mark.parametrize("broker", BROKERS)
def test_gatherers_come_and_go_and_nothing_is_counted_twice(new_place: NewPlace, broker: str) -> None:
    """A second joins after period 1; the first is killed after period 2. Their state folders are on different machines."""
    place = new_place(broker, **FOUR_LEVELS)
    begun(place)
    synthesizer = place.start_altered("silent", "synthesize", "--state", place.folder / "synthesizer")
    first = place.start("gather", "--state", place.folder / "one")
    letters = correspondence(place, seed=4)

    post(place, letters.of(1))
    place.do("close", "--period", 1)
    synthesizer.says("period released period=1")
    second = place.start("gather", "--state", place.folder / "two")
    post(place, letters.of(2))
    place.do("close", "--period", 2)
    second.says("tallied")
    first.kill()
    for period in range(3, place.recipe.horizon + 1):
        post(place, letters.of(period))
        place.do("close", "--period", period)
    for program in (synthesizer, second):
        program.done()

    expected = models(place)
    check_tallies(place, expected)
    check_rejects(place, expected, repeated=True)
    check_columns(place, expected)
