"""The simulated log: faults where they are asked for, crashes, and time that passes only when it is advanced."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from streamproc.errors import Fenced, LogUnavailable, OutcomeUnknown
from streamproc.log.port import Offset, TopicSettings
from streamproc.testing import Faults, SimulatedBroker, SimulatedLog, in_virtual_time
from tests.log.backends import values


class ManualClock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self._now = datetime(2026, 1, 1, tzinfo=UTC)
        self._moved = asyncio.Event()

    def now(self) -> datetime:
        return self._now

    async def sleep(self, seconds: float) -> None:
        until = self._now + timedelta(seconds=seconds)
        while self._now < until:
            await self._moved.wait()

    def pass_by(self, seconds: float) -> None:
        self._now += timedelta(seconds=seconds)
        self._moved.set()
        self._moved = asyncio.Event()


class Once(Faults):
    """Raises at one call, before or after its effect."""

    def __init__(self, call: str, when: str, error: Exception) -> None:
        self._at: tuple[str, str] | None = (call, when)
        self._error = error

    async def before(self, connection: str, call: str, topic: str | None) -> None:
        self._meet(call, "before")

    async def after(self, connection: str, call: str, topic: str | None) -> None:
        self._meet(call, "after")

    def _meet(self, call: str, when: str) -> None:
        if self._at == (call, when):
            self._at = None
            raise self._error


async def settle() -> None:
    """Let every task go on until it waits."""
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def broker(clock: ManualClock) -> SimulatedBroker:
    broker = SimulatedBroker(clock)
    broker.create("topic", TopicSettings(2))
    return broker


@pytest.mark.parametrize(
    ("when", "error", "happened"),
    [
        ("before", LogUnavailable("away"), False),
        ("before", OutcomeUnknown("lost request"), False),
        ("after", OutcomeUnknown("lost answer"), True),
    ],
)
async def test_a_fault_is_raised_around_the_effect(
    broker: SimulatedBroker, when: str, error: Exception, happened: bool
) -> None:
    log = SimulatedLog(broker, Once("append", when, error))

    with pytest.raises(type(error)):
        await log.append("topic", 0, b"value")
    assert await log.high_watermark("topic", 0) == int(happened)
    await log.append("topic", 0, b"again")


async def test_a_lost_answer_to_a_commit_is_unknown_to_its_transactor_only(broker: SimulatedBroker) -> None:
    log = SimulatedLog(broker, Once("commit", "after", OutcomeUnknown("lost answer")))
    producer = await log.transactional_producer("id")
    await producer.fence()
    await producer.begin()
    await producer.send("topic", 0, b"value")

    with pytest.raises(OutcomeUnknown):
        await producer.commit()
    with pytest.raises(OutcomeUnknown):
        await producer.begin()
    reader = await log.reader("topic", 0, Offset(0))
    assert values(await reader.read(timeout=0)) == [b"value"]
    assert reader.position == 2


async def test_a_crashed_connection_does_nothing_more_and_its_transaction_stays_open(
    broker: SimulatedBroker, clock: ManualClock
) -> None:
    log, other = SimulatedLog(broker), SimulatedLog(broker)
    producer = await log.transactional_producer("id", timeout=60)
    await producer.fence()
    await producer.begin()
    await producer.send("topic", 0, b"torn")
    log.crash()

    with pytest.raises(LogUnavailable):
        await producer.commit()
    with pytest.raises(LogUnavailable):
        await log.append("topic", 0, b"value")
    clock.pass_by(59)
    assert await other.last_stable_offset("topic", 0) == 0
    clock.pass_by(1)
    assert await other.last_stable_offset("topic", 0) == 2


async def test_a_transaction_times_out_by_the_clock(broker: SimulatedBroker, clock: ManualClock) -> None:
    log = SimulatedLog(broker)
    producer = await log.transactional_producer("id", timeout=5)
    await producer.fence()
    await producer.begin()
    await producer.send("topic", 0, b"late")
    clock.pass_by(5)

    with pytest.raises(Fenced):
        await producer.commit()


def test_a_reader_waits_in_the_loops_time_which_a_simulation_lets_pass_at_once() -> None:
    async def wait_an_hour() -> float:
        broker = SimulatedBroker(ManualClock())
        broker.create("topic", TopicSettings(1))
        reader = await SimulatedLog(broker).reader("topic", 0, Offset(0))
        assert list(await reader.read(timeout=3600)) == []
        return asyncio.get_running_loop().time()

    assert in_virtual_time(wait_an_hour()) == 3600


async def test_a_silent_member_is_given_up_and_may_come_back(broker: SimulatedBroker, clock: ManualClock) -> None:
    first, second = [await SimulatedLog(broker).join_group("group", "topic") for _ in range(2)]
    assert await first.assigned() == {0}
    assert await second.assigned() == {1}
    clock.pass_by(11)

    assert await second.assigned() == {0, 1}
    assert await first.assigned(timeout=0) == {0}
    assert await second.assigned() == {1}
