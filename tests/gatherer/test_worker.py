"""A gatherer on a log: it waits for its study, tallies what cuts close, and may be stopped and started at any moment."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import pytest

import streamproc.gatherer.logic as gathering
import streamproc.gatherer.worker as gatherer
from streamproc.errors import OutcomeUnknown
from streamproc.gatherer.reject_writer import RejectWriter
from streamproc.log.port import Offset
from streamproc.log.topic_setup import wanted_settings
from streamproc.protocol.control import Key
from streamproc.protocol.ledger import StudyRecord
from streamproc.protocol.rejects import Reason, Reject
from streamproc.protocol.reports import ReportBatch, encode_report
from streamproc.study import Population, Study, WindowRelease
from streamproc.study.fingerprint import public_values
from streamproc.testing import in_virtual_time
from tests.stream_model.fault_points import Crash, DoomedConnection, Moment, WatchedDisk, failing
from tests.stream_model.memory_folder import MemoryDisk
from tests.stream_model.reference_model import Model, rejected_reports
from tests.stream_model.simulated_study import StudyWorld
from tests.studies import build_study

STUDY = build_study(WindowRelease("w", 1), horizon=3, partitions=1, alphabet="abc")
FILE = "gather-0.state"


async def begun(study: Study = STUDY, roster: tuple[str, ...] | None = None) -> StudyWorld:
    """A study that the synthesizer has begun."""
    world = await StudyWorld(study, roster).begin()
    await world.log.append(
        world.topics.ledger, 0, StudyRecord(public_values(study), world.fingerprint, insecure=True).encode()
    )
    return world


async def say(world: StudyWorld, *reports: tuple[str, int, str]) -> None:
    values = [(None, encode_report(*report)) for report in reports]
    await world.log.append_many(world.topics.reports, 0, values)


def counts(world: StudyWorld) -> dict[int, list[int]]:
    return {period: tally.counts["w"].tolist() for (_, period), tally in world.tallies().items()}


def check_against_model(world: StudyWorld) -> None:
    stored = world.broker.partition(world.topics.reports, 0).stored
    ends = [cut.ends[0] for cut in world.cuts()]
    model = Model(world.study, 0, world.roster, [(record.offset, record.value) for record in stored], ends)
    found = {period: (tally.people, tally.counts["w"].tolist()) for (_, period), tally in world.tallies().items()}
    assert found == {t: (closed.people, closed.counts["w"]) for t, closed in enumerate(model.tallies(), start=1)}
    assert rejected_reports(world.rejects()) == model.rejected()


async def a_lively_study(world: StudyWorld) -> None:
    """People report while time passes; the steward closes three periods."""
    await say(world, ("p", 1, "b"), ("q", 1, "c"), ("p", 2, "c"))
    await world.clock.sleep(0.3)
    await say(world, ("q", 1, "a"), ("r", 1, "?"))
    await world.close_period(1)
    await world.log.append(world.topics.reports, 0, b"no report")
    await world.clock.sleep(0.3)
    await say(world, ("s", 2, "a"), ("q", 2, "b"), ("p", 2, "a"))
    await world.close_period(2)
    await world.close_period(3)


def test_the_tallies_of_a_lively_study_are_those_of_the_model() -> None:
    async def run() -> None:
        world = await begun()
        await asyncio.gather(a_lively_study(world), world.gatherer(0).run())
        check_against_model(world)
        assert len(world.rejects()) == len(set(world.rejects())) == 5
        assert sum(int(note.split()[-1]) for note in world.diary.told if note.startswith("rejected 0")) == 5
        assert [note for note in world.diary.told if note.startswith("tallied")] == [
            f"tallied 0: {period}, 3" for period in (1, 2, 3)
        ]
        assert "checkpointed 0" in world.diary.told

    in_virtual_time(run())


def test_after_a_crash_at_any_moment_the_tallies_are_the_same() -> None:
    async def two_lives(fatal: int) -> list[Moment]:
        world = await begun()
        log = DoomedConnection(world.broker, lambda number, moment: number == fatal)
        people = asyncio.create_task(a_lively_study(world))
        try:
            await world.gatherer(0, log=log, disk=WatchedDisk(world.gather_disk, log.moments)).run()
        except Crash:
            await world.gatherer(0).run()
        await people
        check_against_model(world)
        return log.moments.passed

    moments = in_virtual_time(two_lives(-1))
    assert {"before disk.write gather-0.state", "after append_many study.tallies"} <= {str(moment) for moment in moments}
    for number, moment in enumerate(moments):
        try:
            in_virtual_time(two_lives(number))
        except Exception as problem:
            raise AssertionError(f"after a crash at moment {number}, {moment}") from problem


def test_an_append_whose_outcome_is_unknown_may_be_tried_again_by_another() -> None:
    async def run() -> None:
        world = await begun()
        await asyncio.gather(a_lively_study(world))
        lost = failing(OutcomeUnknown("no answer"), lambda number, moment: str(moment) == "after append_many study.tallies")
        with pytest.raises(OutcomeUnknown):
            await world.gatherer(0, log=world.connection("first", lost)).run()
        await world.gatherer(0).run()
        check_against_model(world)

    in_virtual_time(run())


def test_two_gatherers_of_one_partition_do_no_harm() -> None:
    async def run() -> None:
        world = await begun()
        both = [world.gatherer(0, disk=disk).run() for disk in (MemoryDisk(), MemoryDisk())]
        await asyncio.gather(a_lively_study(world), *both)
        check_against_model(world)

    in_virtual_time(run())


def test_it_goes_on_where_the_checkpoint_says_and_needs_nothing_before_that() -> None:
    async def run() -> None:
        world = await begun()
        await say(world, ("p", 1, "b"), ("q", 1, "c"), ("p", 2, "a"))
        await world.close_period(1)
        first = asyncio.create_task(world.gatherer(0).run())
        await world.clock.sleep(1)
        first.cancel()
        world.broker.partition(world.topics.reports, 0).trim(3)
        await world.close_period(2)
        await world.close_period(3)
        await world.gatherer(0).run()
        assert counts(world) == {1: [0, 1, 1], 2: [1, 0, 1], 3: [1, 0, 1]}

    in_virtual_time(run())


def test_idle_partitions_close_too() -> None:
    async def run() -> None:
        study = build_study(WindowRelease("w", 1), horizon=2, partitions=4, alphabet="abc")
        world = await begun(study)
        for period in (1, 2):
            await world.close_period(period)
        await asyncio.gather(*(world.gatherer(partition).run() for partition in range(4)))
        assert {place: tally.people for place, tally in world.tallies().items()} == {
            (partition, period): 0 for partition in range(4) for period in (1, 2)
        }

    in_virtual_time(run())


def test_a_finished_gatherer_ends_at_once_and_sends_nothing_again() -> None:
    async def run() -> None:
        world = await begun()
        await asyncio.gather(a_lively_study(world), world.gatherer(0).run())
        before = world.snapshot()
        await world.gatherer(0).run()
        assert world.snapshot() == before

    in_virtual_time(run())


def test_nothing_is_sent_before_the_study_has_a_key_and_has_begun() -> None:
    async def run() -> None:
        world = StudyWorld(STUDY)
        for topic, settings in wanted_settings(STUDY, brokers=1).items():
            if topic != world.topics.ledger:
                await world.log.create_topic(topic, settings)
        await say(world, ("p", 1, "b"), ("p", 9, "b"))
        await world.close_period(1)
        waiting = asyncio.create_task(world.gatherer(0).run())
        await world.clock.sleep(60)
        await world.log.append(world.topics.control, 0, Key(b"k" * 32).encode())
        await world.clock.sleep(60)
        assert not world.committed(world.topics.tallies) and not world.committed(world.topics.rejects)
        await world.begin()
        await world.log.append(
            world.topics.ledger, 0, StudyRecord(public_values(STUDY), world.fingerprint, insecure=True).encode()
        )
        await world.clock.sleep(1)
        assert counts(world) == {1: [0, 1, 0]}
        waiting.cancel()

    in_virtual_time(run())


def test_members_of_a_roster_count_whether_they_report_or_not() -> None:
    async def run() -> None:
        world = await begun(roster=("p", "q", "r"))
        await asyncio.gather(a_lively_study(world), world.gatherer(0).run())
        check_against_model(world)
        assert {tally.people for tally in world.tallies().values()} == {3}

    in_virtual_time(run())


def test_under_last_a_flood_pauses_the_partition_until_the_next_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if all of it claims a period that is far from being closed."""
    monkeypatch.setattr(gathering, "MAX_UNDECIDED", 100)

    async def run() -> None:
        latest = Population(initial="a", duplicates="last")
        world = await begun(build_study(WindowRelease("w", 1), partitions=1, population=latest, alphabet="abc"))
        await say(world, ("p", 1, "b"))
        reading = asyncio.create_task(world.gatherer(0).run())
        for wave in range(10):
            await say(world, *[("p", 3, "abc"[wave % 3])] * 30)
            await world.clock.sleep(1)
        read = [note for note in world.diary.told if note.startswith("read")]
        assert [note for note in read if "read 0: 0," not in note] == ["read 0: 31, 0 to go", *["read 0: 30, 0 to go"] * 3]
        assert read[-1] == "read 0: 0, 180 to go"

        for period in (1, 2):
            await world.close_period(period)
            await world.clock.sleep(10)
        assert counts(world) == {1: [0, 1, 0], 2: [0, 1, 0]}
        await say(world, ("p", 3, "c"))
        await world.close_period(3)
        await reading
        check_against_model(world)
        assert Counter(reject.reason for reject in world.rejects()) == {Reason.DUPLICATE: 300}

    in_virtual_time(run())


def test_many_rejects_are_sent_a_part_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """All decided at once, and more than a log takes in the time of one call."""
    monkeypatch.setattr(gatherer, "READ_BATCH", 4)
    parts: list[int] = []
    write = RejectWriter.write

    async def counted(self: RejectWriter, rejects: Sequence[Reject]) -> Sequence[Reject]:
        parts.append(len(rejects))
        return await write(self, rejects)

    monkeypatch.setattr(RejectWriter, "write", counted)

    async def run() -> None:
        latest = Population(initial="a", duplicates="last")
        world = await begun(build_study(WindowRelease("w", 1), partitions=1, population=latest, alphabet="abc"))
        await say(world, *[("p", 1, "a")] * 10)
        reading = asyncio.create_task(world.gatherer(0).run())
        await world.clock.sleep(10)
        for period in (1, 2, 3):
            await world.close_period(period)
        await reading
        assert parts == [4, 4, 1]
        assert [note for note in world.diary.told if "rejected" in note] == ["rejected 0: 9"]
        assert world.rejects() == [Reject(0, offset, Reason.DUPLICATE) for offset in range(9)]
        check_against_model(world)

    in_virtual_time(run())


def test_a_batch_record_makes_one_reject_however_many_of_its_reports_do_not_count() -> None:
    async def run() -> None:
        world = await begun()
        ids = ["p"] * 1_000 + ["q"] * 1_000
        batch = ReportBatch(ids, np.array([1] * 1_500 + [9] * 500, np.uint16), np.zeros(2_000, np.uint8))
        await world.log.append(world.topics.reports, 0, batch.encode())
        reading = asyncio.create_task(world.gatherer(0).run())
        await world.clock.sleep(10)
        assert world.rejects() == []  # as long as one of its reports is undecided
        for period in (1, 2, 3):
            await world.close_period(period)
        await reading
        counts = {Reason.PERIOD_OUT_OF_RANGE: 500, Reason.DUPLICATE: 1_498}
        assert world.rejects() == [Reject.of(0, 0, counts)]
        assert "rejected 0: 1998" in world.diary.told
        check_against_model(world)

    in_virtual_time(run())


class FullDisk(MemoryDisk):
    """Takes no checkpoint."""

    def write(self, name: str, content: bytes) -> None:
        raise OSError("no space left")


async def with_rejects() -> StudyWorld:
    """A study with 32 rejects in each of 3 periods: some are made at once, some when a period is settled."""
    world = await begun(
        build_study(
            WindowRelease("w", 1), partitions=1, population=Population(initial="a", duplicates="last"), alphabet="abc"
        )
    )
    for period in (1, 2, 3):
        await say(world, *[("p", period, "b")] * 11, *[("p", 9, "b")] * 10, *[("s", period, "?")] * 10)
        batch = ReportBatch(["p", "s"], np.array([period, 9], np.uint16), np.zeros(2, np.uint8))
        await world.log.append(world.topics.reports, 0, batch.encode())
        await world.close_period(period)
    return world


def is_moment(fatal: int, number: int, moment: Moment) -> bool:
    return number == fatal


def check_rejects_once(world: StudyWorld) -> None:
    check_against_model(world)
    offsets = [reject.offset for reject in world.rejects()]
    assert len(offsets) == len(set(offsets)) == 3 * 32


def test_rejects_are_written_once_however_often_a_partition_is_taken_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """By gatherers without a checkpoint, of which each ends a little later than the one before."""
    monkeypatch.setattr(gatherer, "READ_BATCH", 5)

    async def run() -> None:
        world = await with_rejects()
        for fatal in range(5, 500, 9):
            doomed = DoomedConnection(world.broker, partial(is_moment, fatal))
            with suppress(Crash):
                await world.gatherer(0, log=doomed, disk=MemoryDisk()).run()
        await world.gatherer(0, disk=MemoryDisk()).run()
        check_rejects_once(world)

    in_virtual_time(run())


def test_rejects_are_written_once_when_a_gatherer_resumes(monkeypatch: pytest.MonkeyPatch) -> None:
    """From each of its checkpoints."""
    monkeypatch.setattr(gatherer, "READ_BATCH", 5)

    async def run() -> None:
        world = await with_rejects()
        kept: list[dict[str, bytes]] = [{}]

        class Noted(MemoryDisk):
            def write(self, name: str, content: bytes) -> None:
                super().write(name, content)
                kept.append(dict(self.files))

        await world.gatherer(0, disk=Noted()).run()
        check_rejects_once(world)
        assert len(kept) == 4
        for files in kept:
            await world.gatherer(0, disk=MemoryDisk(files)).run()
            check_rejects_once(world)

    in_virtual_time(run())


def test_a_gatherer_that_ends_between_its_rejects_and_its_checkpoint_writes_none_twice() -> None:
    async def run() -> None:
        world = await with_rejects()
        with pytest.raises(OSError, match="no space left"):
            await world.gatherer(0, disk=FullDisk()).run()
        assert len(world.rejects()) == 3 * 32
        await world.gatherer(0).run()
        check_rejects_once(world)

    in_virtual_time(run())


def test_rejects_that_expired_or_whose_topic_is_gone_stop_nobody() -> None:
    async def run() -> None:
        world = await with_rejects()
        await world.gatherer(0, disk=(disk := MemoryDisk())).run()
        await world.log.delete_topic(world.topics.rejects)
        await world.log.create_topic(world.topics.rejects, wanted_settings(world.study, brokers=1)[world.topics.rejects])
        await world.gatherer(0, disk=disk).run()
        await world.gatherer(0, disk=MemoryDisk()).run()
        check_rejects_once(world)

    in_virtual_time(run())


def test_nothing_that_takes_long_is_done_where_heartbeats_are_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a partition full of rejects even sorting them takes seconds."""
    offloaded: list[bool] = []
    done: dict[str, set[bool]] = {}

    async def offload(function: Callable[..., Any], *arguments: Any) -> Any:
        offloaded.append(True)
        try:
            return function(*arguments)
        finally:
            offloaded.pop()

    def watched(name: str) -> None:
        step = getattr(gathering.GathererLogic, name)

        def noted(self: gathering.GathererLogic, *arguments: Any) -> Any:
            done.setdefault(name, set()).add(bool(offloaded))
            return step(self, *arguments)

        monkeypatch.setattr(gathering.GathererLogic, name, noted)

    async def story() -> None:
        world = await begun()
        await a_lively_study(world)
        ports = gatherer.GathererPorts(world.connection("gatherer"), MemoryDisk(), world.clock, offload)
        await gatherer.Gatherer(STUDY, 0, None, ports, world.diary).run()
        check_against_model(world)

    steps = ("ingest", "add_cut", "close_periods", "drain_rejects", "arrays")
    for name in steps:
        watched(name)
    in_virtual_time(story())
    assert done == {name: {True} for name in steps}


def test_the_observer_hears_of_rejected_reports_while_another_report_of_their_batch_is_open() -> None:
    async def run() -> None:
        world = await begun()
        batch = ReportBatch(["p"] * 4, np.array([1, 3, 9, 9], dtype=np.uint16), np.zeros(4, dtype=np.uint8))
        await world.log.append_many(world.topics.reports, 0, [(None, batch.encode())])
        running = asyncio.create_task(world.gatherer(0).run())
        await world.clock.sleep(1)
        assert "rejected 0: 2" in world.diary.told
        assert world.rejects() == []
        for period in (1, 2, 3):
            await world.close_period(period)
        await running
        assert [note for note in world.diary.told if note.startswith("rejected")] == ["rejected 0: 2"]
        assert [reject.by_reason for reject in world.rejects()] == [{Reason.PERIOD_OUT_OF_RANGE: 2}]

    in_virtual_time(run())


def test_a_reject_writer_sorts_only_what_it_has_just_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sort of all known rejects for each chunk would be quadratic in the length of the rejects topic."""

    async def at_once(function: Callable[..., Any], *arguments: Any) -> Any:
        return function(*arguments)

    async def run() -> None:
        world = await begun()
        writer = await RejectWriter.open(world.log, world.topics.rejects, 0, Offset(0), at_once)
        sizes: list[int] = []
        unique = np.unique

        def measured(array: Any, **options: Any) -> Any:
            sizes.append(len(array))
            return unique(array, **options)

        monkeypatch.setattr(np, "unique", measured)
        for start in (100, 0, 50):
            rejects = [Reject(0, offset, Reason.LATE) for offset in range(start, start + 60)]
            await world.log.append_many(world.topics.rejects, 0, [(None, reject.encode()) for reject in rejects])
            await writer.catch_up()
        assert sizes == [60, 60, 60]
        assert writer.position == 0
        again = [Reject(0, offset, Reason.LATE) for offset in range(40, 170)]
        assert [reject.offset for reject in await writer.write(again)] == list(range(160, 170))
        assert writer.position == 60
        await writer.close()

    in_virtual_time(run())
