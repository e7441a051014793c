"""What the simulated log does to those who use it, beyond what every log promises."""

from __future__ import annotations

import asyncio

import pytest

from streamproc.errors import OutcomeUnknown
from streamproc.log.port import Offset, TopicSettings
from streamproc.testing import Faults, ManualClock, SimulatedBroker, SimulatedLog, in_virtual_time


class Torn(Faults):
    """Breaks off every append after its first record."""

    def inside(self, connection: str, call: str, topic: str | None, done: int) -> None:
        raise OutcomeUnknown("the connection broke")


class Late(Faults):
    """Lets everything arrive a second after its sender gave up."""

    def lands_later(self, connection: str, call: str, topic: str | None) -> float | None:
        return None if call == "create_topic" else 1.0


async def values(log: SimulatedLog, topic: str = "one") -> list[bytes | None]:
    reader = await log.reader(topic, 0, Offset(0))
    return [record.value for record in await reader.read(timeout=0)]


async def opened(broker: SimulatedBroker, faults: Faults | None = None) -> SimulatedLog:
    log = SimulatedLog(broker, faults)
    for topic in ("one", "two"):
        await log.create_topic(topic, TopicSettings(1))
    return log


def test_an_append_may_end_between_two_of_its_records() -> None:
    async def run() -> None:
        broker = SimulatedBroker(ManualClock())
        log = await opened(broker, Torn())
        with pytest.raises(OutcomeUnknown):
            await log.append_many("one", 0, [(None, b"a"), (None, b"b")])
        assert await values(log) == [b"a"]

    in_virtual_time(run())


def test_what_is_under_way_arrives_though_its_sender_got_no_reply() -> None:
    async def run() -> None:
        log = await opened(SimulatedBroker(ManualClock()), Late())
        with pytest.raises(OutcomeUnknown):
            await log.append("one", 0, b"a")
        assert await values(log) == []
        await asyncio.sleep(1.1)
        assert await values(log) == [b"a"]

    in_virtual_time(run())


def test_a_transaction_ends_in_one_topic_after_the_other_but_before_its_owner_goes_on() -> None:
    async def run() -> None:
        lags = iter((0.0, 5.0))
        log = await opened(SimulatedBroker(ManualClock(), marker_lag=lambda: next(lags, 0.0)))
        producer = await log.transactional_producer("owner")
        await producer.fence()
        await producer.begin()
        await producer.send("one", 0, b"a")
        await producer.send("two", 0, b"a")
        await producer.commit()
        assert (await values(log, "one"), await values(log, "two")) == ([b"a"], [])
        await producer.begin()
        await producer.send("one", 0, b"b")
        assert (await values(log, "one"), await values(log, "two")) == ([b"a"], [b"a"])

    in_virtual_time(run())


def test_nobody_is_given_more_at_once_than_the_broker_gives() -> None:
    async def run() -> None:
        log = await opened(SimulatedBroker(ManualClock(), longest_read=2))
        await log.append_many("one", 0, [(None, b"a"), (None, b"b"), (None, b"c")])
        assert await values(log) == [b"a", b"b"]

    in_virtual_time(run())
