"""`release_after`: a period is drawn at once, and nothing of it leaves before its release time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import msgpack
import pytest

from streamproc.errors import Fenced, OutcomeUnknown
from streamproc.study import Schedule, WindowRelease
from streamproc.synthesizer.checkpoint import read_checkpoint
from streamproc.testing import BEGINNING, in_virtual_time
from streamproc.testing.simulated_broker import StoredRecord
from tests.stream_model.fault_points import Crash, DoomedConnection, failing
from tests.stream_model.simulated_study import FreshEntropy, StudyWorld
from tests.synthesizer.runs import HISTORIES, STUDY, fed

HOUR = timedelta(hours=1)
HOURLY = Schedule(start=BEGINNING, every=HOUR, grace=timedelta(minutes=5), release_after=timedelta(minutes=30))
"""Periods 1, 2 and 3 are due at 1:35, 2:35 and 3:35."""

WINDOW = next(release for release in STUDY.releases if isinstance(release, WindowRelease))


async def begun(schedule: Schedule | None = HOURLY) -> StudyWorld:
    return await StudyWorld(replace(STUDY, schedule=schedule)).begin()


def public_records(world: StudyWorld) -> list[StoredRecord]:
    """Every record of the public topics, also of open and aborted transactions."""
    topics = [world.topics.ledger, *(world.topics.synthetic(release.name) for release in world.study.releases)]
    found = [each for topic in topics for each in world.broker.partition(topic, 0).stored]
    return [each for each in found if not each.marker]


def of_period(record: StoredRecord) -> int:
    """The period with which a record is published: 0 for the study record."""
    fields = msgpack.unpackb(record.value or b"")
    first = {WINDOW.name: WINDOW.k}.get(fields.get("release"), 1)
    if fields["type"] == "contract":
        return first
    # The first k columns of a window release are published together.
    return max(int(fields.get("period", 0)), first if fields["type"] == "column" else 0)


def times(world: StudyWorld) -> Mapping[int, tuple[set[datetime], set[int]]]:
    """For each period, when its records arrived, and their timestamps."""
    found: dict[int, tuple[set[datetime], set[int]]] = {}
    for record in public_records(world):
        arrived, stamps = found.setdefault(of_period(record), (set(), set()))
        arrived.add(datetime.fromtimestamp(record.arrived, UTC))
        stamps.add(record.timestamp)
    return found


def check_in_time(world: StudyWorld, *, within: timedelta = timedelta(seconds=1)) -> None:
    schedule, found = world.study.schedule, times(world)
    assert schedule is not None and sorted(found) == [0, 1, 2, 3]
    assert found[0][1] == {0}
    for period in (1, 2, 3):
        planned, (arrived, stamps) = schedule.release_of(period), found[period]
        assert planned <= min(arrived) and max(arrived) <= planned + within
        assert stamps == {round(1000 * planned.timestamp())}


def test_nothing_of_a_period_leaves_before_its_release_time_though_all_is_there_earlier() -> None:
    async def run() -> StudyWorld:
        world = await begun()
        await fed(world, world.synthesizer().run())
        return world

    world = in_virtual_time(run())
    check_in_time(world)
    world.check_released()
    assert [told for told in world.diary.told if "due" in told or "waiting" in told] == [
        "waiting 1 until 01:35:00", "due 1",
        "waiting 2 until 02:35:00", "due 2",
        "waiting 3 until 03:35:00", "due 3",
    ]  # fmt: skip


def test_a_release_time_after_the_next_cuts_delays_no_other() -> None:
    async def run() -> StudyWorld:
        world = await begun(replace(HOURLY, release_after=timedelta(hours=7)))
        await fed(world, world.synthesizer().run())
        return world

    check_in_time(in_virtual_time(run()))


def test_a_period_that_is_late_is_published_at_once_and_stamped_as_if_it_were_not() -> None:
    async def run() -> StudyWorld:
        world = await begun(replace(HOURLY, start=BEGINNING - timedelta(hours=9)))
        await fed(world, world.synthesizer().run())
        return world

    world = in_virtual_time(run())
    check_in_time(world, within=timedelta(hours=10))
    assert [told for told in world.diary.told if "due" in told] == ["due 1, late", "due 2, late", "due 3, late"]
    assert not any("waiting" in told for told in world.diary.told)


@pytest.mark.parametrize("schedule", [None, replace(HOURLY, release_after=None)])
def test_without_a_release_time_public_records_say_nothing_about_time(schedule: Schedule | None) -> None:
    """A steward may close a period long before its scheduled cut, and brokers refuse timestamps of the future."""

    async def run() -> StudyWorld:
        world = await begun(schedule)
        await world.clock.sleep(1234.5)
        await fed(world, world.synthesizer().run())
        return world

    world = in_virtual_time(run(), at_most=2000.0)
    assert {record.timestamp for record in public_records(world)} == {0}


def test_who_is_stopped_while_waiting_publishes_the_same_bytes_in_time() -> None:
    async def run() -> None:
        world = await begun()
        feeder = asyncio.create_task(world.feed(HISTORIES))
        first = asyncio.create_task(world.synthesizer(entropy=FreshEntropy(1)).run())
        await world.clock.sleep(95 * 60 - 5)
        first.cancel()
        with suppress(asyncio.CancelledError):
            await first
        drawn = read_checkpoint(world.disk, world.fingerprint)
        assert drawn is not None and set(times(world)) == {0}

        second = world.synthesizer(entropy=FreshEntropy(1000))
        running = asyncio.create_task(second.run())
        await world.clock.sleep(2)
        assert second.started.is_set()  # gatherers and the schedule do not wait for the release time
        assert set(times(world)) == {0}
        await running
        await feeder
        published = [value for values in world.released_bytes().values() for value in values]
        assert {record.value for record in drawn.pending.outgoing} <= set(published)
        check_in_time(world)
        world.check_released()

    in_virtual_time(run())


@pytest.mark.parametrize("moment", ["before send", "after commit", "after disk.write synthesizer.settled"])
def test_who_dies_around_the_release_time_publishes_once_and_never_before(moment: str) -> None:
    async def run() -> None:
        world = await begun()

        async def lives() -> None:
            for life in range(6):
                # Each life ends at such a moment after its first ten.
                log = DoomedConnection(world.broker, lambda number, at: number > 10 and str(at).startswith(moment))
                with suppress(Crash):
                    await world.synthesizer(log=log, entropy=FreshEntropy(1000 * life)).run()
            await world.synthesizer(entropy=FreshEntropy(9000)).run()

        await fed(world, lives())
        check_in_time(world)
        world.check_released()

    in_virtual_time(run())


def test_clock_set_forward_is_noticed_in_half_a_minute_and_set_back_is_waited_for() -> None:
    async def run() -> None:
        world = await begun()
        running = asyncio.create_task(fed(world, world.synthesizer().run()))
        await world.clock.sleep(600)
        world.clock.jump(timedelta(minutes=-10))
        await world.clock.sleep(90 * 60)
        assert set(times(world)) == {0}  # it is 1:30 by the clock
        world.clock.jump(timedelta(minutes=5))
        await world.clock.sleep(31)
        assert set(times(world)) == {0, 1}
        await running

    in_virtual_time(run())


@pytest.mark.parametrize("error", [Fenced("forgotten"), OutcomeUnknown("forgotten")])
def test_a_transactor_that_the_broker_has_forgotten_meanwhile_changes_no_byte(error: Exception) -> None:
    """Kafka forgets a transactional id that was idle for `transactional.id.expiration.ms`."""

    async def run(faults: bool) -> StudyWorld:
        world = await begun()
        failed: set[int] = set()

        def forgotten(number: int, moment: object) -> bool:
            # The first send after each wait of an hour fails.
            hour = world.clock.now().hour
            chosen = faults and hour > 0 and str(moment) == f"before send {world.topics.ledger}" and hour not in failed
            failed.update({hour} if chosen else ())
            return chosen

        log = world.connection("synthesizer", failing(error, forgotten))
        await fed(world, world.synthesizer(log=log).run())
        assert len(failed) == (3 if faults else 0)
        return world

    world = in_virtual_time(run(True))
    check_in_time(world, within=timedelta(seconds=10))
    world.check_released()
    assert world.released_bytes() == in_virtual_time(run(False)).released_bytes()
