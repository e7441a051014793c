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
from streamproc.study import CumulativeRelease, Schedule, Study, WindowRelease
from streamproc.synthesizer.checkpoint import read_checkpoint
from streamproc.testing import BEGINNING, in_virtual_time
from streamproc.testing.simulated_broker import StoredRecord
from tests.stream_model.fault_points import Crash, CrashingConnection, failing
from tests.stream_model.simulated_study import FreshEntropy, SimulatedStudy
from tests.studies import build_study
from tests.synthesizer.study_runs import HISTORIES, STUDY, run_with_tallies

HOUR = timedelta(hours=1)
HOURLY = Schedule(start=BEGINNING, every=HOUR, grace=timedelta(minutes=5), release_after=timedelta(minutes=30))
"""Periods 1, 2 and 3 are due at 1:35, 2:35 and 3:35."""

PAPER = (WindowRelease("w", k=2, measure="paper"), CumulativeRelease("c", event=("1",), measure="paper"))


async def begin_study(schedule: Schedule | None = HOURLY, *, study: Study = STUDY) -> SimulatedStudy:
    return await SimulatedStudy(replace(study, schedule=schedule)).begin()


def public_records(simulated: SimulatedStudy) -> list[StoredRecord]:
    """Every record of the public topics, also of open and aborted transactions."""
    topics = [simulated.topics.ledger, *(simulated.topics.synthetic(release.name) for release in simulated.study.releases)]
    found = [each for topic in topics for each in simulated.broker.partition(topic, 0).stored]
    return [each for each in found if not each.marker]


def of_period(record: StoredRecord, study: Study) -> int:
    """The period with which a record is published: 0 for the study record."""
    fields = msgpack.unpackb(record.value or b"")
    first = {release.name: release.first_column for release in study.releases}.get(fields.get("release"), 1)
    if fields["type"] == "contract":
        return first
    # As in the paper, the first k columns of a window release are published together.
    return max(int(fields.get("period", 0)), first if fields["type"] == "column" else 0)


def times(simulated: SimulatedStudy) -> Mapping[int, tuple[set[datetime], set[int]]]:
    """For each period, when its records arrived, and their timestamps."""
    found: dict[int, tuple[set[datetime], set[int]]] = {}
    for record in public_records(simulated):
        arrived, stamps = found.setdefault(of_period(record, simulated.study), (set(), set()))
        arrived.add(datetime.fromtimestamp(record.arrived, UTC))
        stamps.add(record.timestamp)
    return found


def check_in_time(simulated: SimulatedStudy, *, within: timedelta = timedelta(seconds=1)) -> None:
    schedule, found = simulated.study.schedule, times(simulated)
    assert schedule is not None and sorted(found) == [0, 1, 2, 3]
    assert found[0][1] == {0}
    for period in (1, 2, 3):
        planned, (arrived, stamps) = schedule.release_of(period), found[period]
        assert planned <= min(arrived) and max(arrived) <= planned + within
        assert stamps == {round(1000 * planned.timestamp())}


@pytest.mark.parametrize("study", [STUDY, build_study(*PAPER, rho=50.0)], ids=["flow", "paper"])
def test_nothing_of_a_period_leaves_before_its_release_time_though_all_is_there_earlier(study: Study) -> None:
    async def run() -> SimulatedStudy:
        simulated = await begin_study(study=study)
        await run_with_tallies(simulated, simulated.synthesizer().run())
        return simulated

    simulated = in_virtual_time(run())
    check_in_time(simulated)
    simulated.check_released()
    assert [event for event in simulated.observer.events if "due" in event or "waiting" in event] == [
        "waiting 1 until 01:35:00", "due 1",
        "waiting 2 until 02:35:00", "due 2",
        "waiting 3 until 03:35:00", "due 3",
    ]  # fmt: skip


def test_a_release_time_after_the_next_cuts_delays_no_other() -> None:
    async def run() -> SimulatedStudy:
        simulated = await begin_study(replace(HOURLY, release_after=timedelta(hours=7)))
        await run_with_tallies(simulated, simulated.synthesizer().run())
        return simulated

    check_in_time(in_virtual_time(run()))


def test_a_period_that_is_late_is_published_at_once_and_stamped_as_if_it_were_not() -> None:
    async def run() -> SimulatedStudy:
        simulated = await begin_study(replace(HOURLY, start=BEGINNING - timedelta(hours=9)))
        await run_with_tallies(simulated, simulated.synthesizer().run())
        return simulated

    simulated = in_virtual_time(run())
    check_in_time(simulated, within=timedelta(hours=10))
    assert [event for event in simulated.observer.events if "due" in event] == ["due 1, late", "due 2, late", "due 3, late"]
    assert not any("waiting" in event for event in simulated.observer.events)


@pytest.mark.parametrize("schedule", [None, replace(HOURLY, release_after=None)])
def test_without_a_release_time_public_records_say_nothing_about_time(schedule: Schedule | None) -> None:
    """A steward may close a period long before its scheduled cut, and brokers refuse timestamps of the future."""

    async def run() -> SimulatedStudy:
        simulated = await begin_study(schedule)
        await simulated.clock.sleep(1234.5)
        await run_with_tallies(simulated, simulated.synthesizer().run())
        return simulated

    simulated = in_virtual_time(run(), at_most=2000.0)
    assert {record.timestamp for record in public_records(simulated)} == {0}


def test_who_is_stopped_while_waiting_publishes_the_same_bytes_in_time() -> None:
    async def run() -> None:
        simulated = await begin_study()
        feeder = asyncio.create_task(simulated.feed(HISTORIES))
        first = asyncio.create_task(simulated.synthesizer(entropy=FreshEntropy(1)).run())
        await simulated.clock.sleep(95 * 60 - 5)
        first.cancel()
        with suppress(asyncio.CancelledError):
            await first
        drawn = read_checkpoint(simulated.state_folder, simulated.fingerprint)
        assert drawn is not None and set(times(simulated)) == {0}

        second = simulated.synthesizer(entropy=FreshEntropy(1000))
        running = asyncio.create_task(second.run())
        await simulated.clock.sleep(2)
        assert second.started.is_set()  # gatherers and the schedule do not wait for the release time
        assert set(times(simulated)) == {0}
        await running
        await feeder
        published = [value for values in simulated.released_bytes().values() for value in values]
        assert {record.value for record in drawn.pending.outgoing} <= set(published)
        check_in_time(simulated)
        simulated.check_released()

    in_virtual_time(run())


@pytest.mark.parametrize("point", ["before send", "after commit", "after folder.write synthesizer.settled"])
def test_who_dies_around_the_release_time_publishes_once_and_never_before(point: str) -> None:
    async def run() -> None:
        simulated = await begin_study()

        async def lives() -> None:
            for life in range(6):
                # Each life ends at such a moment after its first ten.
                log = CrashingConnection(simulated.broker, lambda number, at: number > 10 and str(at).startswith(point))
                with suppress(Crash):
                    await simulated.synthesizer(log=log, entropy=FreshEntropy(1000 * life)).run()
            await simulated.synthesizer(entropy=FreshEntropy(9000)).run()

        await run_with_tallies(simulated, lives())
        check_in_time(simulated)
        simulated.check_released()

    in_virtual_time(run())


def test_clock_set_forward_is_noticed_in_half_a_minute_and_set_back_is_waited_for() -> None:
    async def run() -> None:
        simulated = await begin_study()
        running = asyncio.create_task(run_with_tallies(simulated, simulated.synthesizer().run()))
        await simulated.clock.sleep(600)
        simulated.clock.jump(timedelta(minutes=-10))
        await simulated.clock.sleep(90 * 60)
        assert set(times(simulated)) == {0}  # it is 1:30 by the clock
        simulated.clock.jump(timedelta(minutes=5))
        await simulated.clock.sleep(31)
        assert set(times(simulated)) == {0, 1}
        await running

    in_virtual_time(run())


@pytest.mark.parametrize("error", [Fenced("forgotten"), OutcomeUnknown("forgotten")])
def test_a_transactor_that_the_broker_has_forgotten_meanwhile_changes_no_byte(error: Exception) -> None:
    """Kafka forgets a transactional id that was idle for `transactional.id.expiration.ms`."""

    async def run(faults: bool) -> SimulatedStudy:
        simulated = await begin_study()
        failed: set[int] = set()

        def forgotten(number: int, point: object) -> bool:
            # The first send after each wait of an hour fails.
            hour = simulated.clock.now().hour
            chosen = faults and hour > 0 and str(point) == f"before send {simulated.topics.ledger}" and hour not in failed
            failed.update({hour} if chosen else ())
            return chosen

        log = simulated.connection("synthesizer", failing(error, forgotten))
        await run_with_tallies(simulated, simulated.synthesizer(log=log).run())
        assert len(failed) == (3 if faults else 0)
        return simulated

    simulated = in_virtual_time(run(True))
    check_in_time(simulated, within=timedelta(seconds=10))
    simulated.check_released()
    assert simulated.released_bytes() == in_virtual_time(run(False)).released_bytes()
