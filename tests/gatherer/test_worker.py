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

import streamproc.gatherer.partition_logic as gathering
import streamproc.gatherer.worker as gatherer
from streamproc.errors import OutcomeUnknown
from streamproc.gatherer.logic import GathererLogic
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
from tests.stream_model.fault_points import Crash, CrashingConnection, FaultPoint, FaultPointStateFolder, failing
from tests.stream_model.memory_folder import MemoryStateFolder
from tests.stream_model.reference_model import Model, rejected_reports
from tests.stream_model.simulated_study import SimulatedStudy
from tests.studies import build_study

STUDY = build_study(WindowRelease("w", 1), horizon=3, partitions=1, alphabet="abc")
FILE = "gather-0.state"


async def begun(study: Study = STUDY, roster: tuple[str, ...] | None = None) -> SimulatedStudy:
    """A study that the synthesizer has begun."""
    simulated = await SimulatedStudy(study, roster).begin()
    await simulated.log.append(
        simulated.topics.ledger, 0, StudyRecord(public_values(study), simulated.fingerprint, insecure=True).encode()
    )
    return simulated


async def say(simulated: SimulatedStudy, *reports: tuple[str, int, str]) -> None:
    values = [(None, encode_report(*report)) for report in reports]
    await simulated.log.append_many(simulated.topics.reports, 0, values)


def counts(simulated: SimulatedStudy) -> dict[int, list[int]]:
    return {period: tally.counts["w"].tolist() for (_, period), tally in simulated.tallies().items()}


def check_against_model(simulated: SimulatedStudy) -> None:
    stored = simulated.broker.partition(simulated.topics.reports, 0).stored
    ends = [cut.ends[0] for cut in simulated.cuts()]
    model = Model(simulated.study, 0, simulated.roster, [(record.offset, record.value) for record in stored], ends)
    found = {period: (tally.people, tally.counts["w"].tolist()) for (_, period), tally in simulated.tallies().items()}
    assert found == {t: (closed.people, closed.counts["w"]) for t, closed in enumerate(model.tallies(), start=1)}
    assert rejected_reports(simulated.rejects()) == model.rejected()


async def a_lively_study(simulated: SimulatedStudy) -> None:
    """People report while time passes; the steward closes three periods."""
    await say(simulated, ("p", 1, "b"), ("q", 1, "c"), ("p", 2, "c"))
    await simulated.clock.sleep(0.3)
    await say(simulated, ("q", 1, "a"), ("r", 1, "?"))
    await simulated.close_period(1)
    await simulated.log.append(simulated.topics.reports, 0, b"no report")
    await simulated.clock.sleep(0.3)
    await say(simulated, ("s", 2, "a"), ("q", 2, "b"), ("p", 2, "a"))
    await simulated.close_period(2)
    await simulated.close_period(3)


def test_the_tallies_of_a_lively_study_are_those_of_the_model() -> None:
    async def run() -> None:
        simulated = await begun()
        await asyncio.gather(a_lively_study(simulated), simulated.gatherer(0).run())
        check_against_model(simulated)
        assert len(simulated.rejects()) == len(set(simulated.rejects())) == 5
        assert sum(int(note.split()[-1]) for note in simulated.observer.events if note.startswith("rejected 0")) == 5
        assert [note for note in simulated.observer.events if note.startswith("tallied")] == [
            f"tallied 0: {period}, 3" for period in (1, 2, 3)
        ]
        assert "checkpointed 0" in simulated.observer.events

    in_virtual_time(run())


def test_after_a_crash_at_any_moment_the_tallies_are_the_same() -> None:
    async def two_lives(fatal: int) -> list[FaultPoint]:
        simulated = await begun()
        log = CrashingConnection(simulated.broker, lambda number, point: number == fatal)
        people = asyncio.create_task(a_lively_study(simulated))
        try:
            await simulated.gatherer(
                0, log=log, state_folder=FaultPointStateFolder(simulated.gatherer_folder, log.fault_points)
            ).run()
        except Crash:
            await simulated.gatherer(0).run()
        await people
        check_against_model(simulated)
        return log.fault_points.passed

    fault_points = in_virtual_time(two_lives(-1))
    assert {"before folder.write gather-0.state", "after append_many study.tallies"} <= {
        str(point) for point in fault_points
    }
    for number, point in enumerate(fault_points):
        try:
            in_virtual_time(two_lives(number))
        except Exception as problem:
            raise AssertionError(f"after a crash at fault point {number}, {point}") from problem


def test_an_append_whose_outcome_is_unknown_may_be_tried_again_by_another() -> None:
    async def run() -> None:
        simulated = await begun()
        await asyncio.gather(a_lively_study(simulated))
        lost = failing(OutcomeUnknown("no answer"), lambda number, point: str(point) == "after append_many study.tallies")
        with pytest.raises(OutcomeUnknown):
            await simulated.gatherer(0, log=simulated.connection("first", lost)).run()
        await simulated.gatherer(0).run()
        check_against_model(simulated)

    in_virtual_time(run())


def test_two_gatherers_of_one_partition_do_no_harm() -> None:
    async def run() -> None:
        simulated = await begun()
        both = [
            simulated.gatherer(0, state_folder=state_folder).run()
            for state_folder in (MemoryStateFolder(), MemoryStateFolder())
        ]
        await asyncio.gather(a_lively_study(simulated), *both)
        check_against_model(simulated)

    in_virtual_time(run())


def test_it_goes_on_where_the_checkpoint_says_and_needs_nothing_before_that() -> None:
    async def run() -> None:
        simulated = await begun()
        await say(simulated, ("p", 1, "b"), ("q", 1, "c"), ("p", 2, "a"))
        await simulated.close_period(1)
        first = asyncio.create_task(simulated.gatherer(0).run())
        await simulated.clock.sleep(1)
        first.cancel()
        simulated.broker.partition(simulated.topics.reports, 0).trim(3)
        await simulated.close_period(2)
        await simulated.close_period(3)
        await simulated.gatherer(0).run()
        assert counts(simulated) == {1: [0, 1, 1], 2: [1, 0, 1], 3: [1, 0, 1]}

    in_virtual_time(run())


def test_idle_partitions_close_too() -> None:
    async def run() -> None:
        study = build_study(WindowRelease("w", 1), horizon=2, partitions=4, alphabet="abc")
        simulated = await begun(study)
        for period in (1, 2):
            await simulated.close_period(period)
        await asyncio.gather(*(simulated.gatherer(partition).run() for partition in range(4)))
        assert {place: tally.people for place, tally in simulated.tallies().items()} == {
            (partition, period): 0 for partition in range(4) for period in (1, 2)
        }

    in_virtual_time(run())


def test_a_finished_gatherer_ends_at_once_and_sends_nothing_again() -> None:
    async def run() -> None:
        simulated = await begun()
        await asyncio.gather(a_lively_study(simulated), simulated.gatherer(0).run())
        before = simulated.snapshot()
        await simulated.gatherer(0).run()
        assert simulated.snapshot() == before

    in_virtual_time(run())


def test_nothing_is_sent_before_the_study_has_a_key_and_has_begun() -> None:
    async def run() -> None:
        simulated = SimulatedStudy(STUDY)
        for topic, settings in wanted_settings(STUDY, brokers=1).items():
            if topic != simulated.topics.ledger:
                await simulated.log.create_topic(topic, settings)
        await say(simulated, ("p", 1, "b"), ("p", 9, "b"))
        await simulated.close_period(1)
        waiting = asyncio.create_task(simulated.gatherer(0).run())
        await simulated.clock.sleep(60)
        await simulated.log.append(simulated.topics.control, 0, Key(b"k" * 32).encode())
        await simulated.clock.sleep(60)
        assert not simulated.committed(simulated.topics.tallies) and not simulated.committed(simulated.topics.rejects)
        await simulated.begin()
        await simulated.log.append(
            simulated.topics.ledger, 0, StudyRecord(public_values(STUDY), simulated.fingerprint, insecure=True).encode()
        )
        await simulated.clock.sleep(1)
        assert counts(simulated) == {1: [0, 1, 0]}
        waiting.cancel()

    in_virtual_time(run())


def test_members_of_a_roster_count_whether_they_report_or_not() -> None:
    async def run() -> None:
        simulated = await begun(roster=("p", "q", "r"))
        await asyncio.gather(a_lively_study(simulated), simulated.gatherer(0).run())
        check_against_model(simulated)
        assert {tally.people for tally in simulated.tallies().values()} == {3}

    in_virtual_time(run())


def test_under_last_a_flood_pauses_the_partition_until_the_next_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if all of it claims a period that is far from being closed."""
    monkeypatch.setattr(gathering, "MAX_UNDECIDED", 100)

    async def run() -> None:
        latest = Population(initial="a", duplicates="last")
        simulated = await begun(build_study(WindowRelease("w", 1), partitions=1, population=latest, alphabet="abc"))
        await say(simulated, ("p", 1, "b"))
        reading = asyncio.create_task(simulated.gatherer(0).run())
        for wave in range(10):
            await say(simulated, *[("p", 3, "abc"[wave % 3])] * 30)
            await simulated.clock.sleep(1)
        read = [note for note in simulated.observer.events if note.startswith("read")]
        assert [note for note in read if "read 0: 0," not in note] == ["read 0: 31, 0 to go", *["read 0: 30, 0 to go"] * 3]
        assert read[-1] == "read 0: 0, 180 to go"

        for period in (1, 2):
            await simulated.close_period(period)
            await simulated.clock.sleep(10)
        assert counts(simulated) == {1: [0, 1, 0], 2: [0, 1, 0]}
        await say(simulated, ("p", 3, "c"))
        await simulated.close_period(3)
        await reading
        check_against_model(simulated)
        assert Counter(reject.reason for reject in simulated.rejects()) == {Reason.DUPLICATE: 300}

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
        simulated = await begun(build_study(WindowRelease("w", 1), partitions=1, population=latest, alphabet="abc"))
        await say(simulated, *[("p", 1, "a")] * 10)
        reading = asyncio.create_task(simulated.gatherer(0).run())
        await simulated.clock.sleep(10)
        for period in (1, 2, 3):
            await simulated.close_period(period)
        await reading
        assert parts == [4, 4, 1]
        assert [note for note in simulated.observer.events if "rejected" in note] == ["rejected 0: 9"]
        assert simulated.rejects() == [Reject(0, offset, Reason.DUPLICATE) for offset in range(9)]
        check_against_model(simulated)

    in_virtual_time(run())


def test_a_batch_record_makes_one_reject_however_many_of_its_reports_do_not_count() -> None:
    async def run() -> None:
        simulated = await begun()
        ids = ["p"] * 1_000 + ["q"] * 1_000
        batch = ReportBatch(ids, np.array([1] * 1_500 + [9] * 500, np.uint16), np.zeros(2_000, np.uint8))
        await simulated.log.append(simulated.topics.reports, 0, batch.encode())
        reading = asyncio.create_task(simulated.gatherer(0).run())
        await simulated.clock.sleep(10)
        assert simulated.rejects() == []  # as long as one of its reports is undecided
        for period in (1, 2, 3):
            await simulated.close_period(period)
        await reading
        counts = {Reason.PERIOD_OUT_OF_RANGE: 500, Reason.DUPLICATE: 1_498}
        assert simulated.rejects() == [Reject.of(0, 0, counts)]
        assert "rejected 0: 1998" in simulated.observer.events
        check_against_model(simulated)

    in_virtual_time(run())


class FullDisk(MemoryStateFolder):
    """Takes no checkpoint."""

    def write(self, name: str, content: bytes) -> None:
        raise OSError("no space left")


async def with_rejects() -> SimulatedStudy:
    """A study with 32 rejects in each of 3 periods: some are made at once, some when a period is settled."""
    simulated = await begun(
        build_study(
            WindowRelease("w", 1), partitions=1, population=Population(initial="a", duplicates="last"), alphabet="abc"
        )
    )
    for period in (1, 2, 3):
        await say(simulated, *[("p", period, "b")] * 11, *[("p", 9, "b")] * 10, *[("s", period, "?")] * 10)
        batch = ReportBatch(["p", "s"], np.array([period, 9], np.uint16), np.zeros(2, np.uint8))
        await simulated.log.append(simulated.topics.reports, 0, batch.encode())
        await simulated.close_period(period)
    return simulated


def is_moment(fatal: int, number: int, point: FaultPoint) -> bool:
    return number == fatal


def check_rejects_once(simulated: SimulatedStudy) -> None:
    check_against_model(simulated)
    offsets = [reject.offset for reject in simulated.rejects()]
    assert len(offsets) == len(set(offsets)) == 3 * 32


def test_rejects_are_written_once_however_often_a_partition_is_taken_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """By gatherers without a checkpoint, of which each ends a little later than the one before."""
    monkeypatch.setattr(gatherer, "READ_BATCH", 5)

    async def run() -> None:
        simulated = await with_rejects()
        for fatal in range(5, 500, 9):
            run_until_crash = CrashingConnection(simulated.broker, partial(is_moment, fatal))
            with suppress(Crash):
                await simulated.gatherer(0, log=run_until_crash, state_folder=MemoryStateFolder()).run()
        await simulated.gatherer(0, state_folder=MemoryStateFolder()).run()
        check_rejects_once(simulated)

    in_virtual_time(run())


def test_rejects_are_written_once_when_a_gatherer_resumes(monkeypatch: pytest.MonkeyPatch) -> None:
    """From each of its checkpoints."""
    monkeypatch.setattr(gatherer, "READ_BATCH", 5)

    async def run() -> None:
        simulated = await with_rejects()
        kept: list[dict[str, bytes]] = [{}]

        class Noted(MemoryStateFolder):
            def write(self, name: str, content: bytes) -> None:
                super().write(name, content)
                kept.append(dict(self.files))

        await simulated.gatherer(0, state_folder=Noted()).run()
        check_rejects_once(simulated)
        assert len(kept) == 4
        for files in kept:
            await simulated.gatherer(0, state_folder=MemoryStateFolder(files)).run()
            check_rejects_once(simulated)

    in_virtual_time(run())


def test_a_gatherer_that_ends_between_its_rejects_and_its_checkpoint_writes_none_twice() -> None:
    async def run() -> None:
        simulated = await with_rejects()
        with pytest.raises(OSError, match="no space left"):
            await simulated.gatherer(0, state_folder=FullDisk()).run()
        assert len(simulated.rejects()) == 3 * 32
        await simulated.gatherer(0).run()
        check_rejects_once(simulated)

    in_virtual_time(run())


def test_rejects_that_expired_or_whose_topic_is_gone_stop_nobody() -> None:
    async def run() -> None:
        simulated = await with_rejects()
        await simulated.gatherer(0, state_folder=(state_folder := MemoryStateFolder())).run()
        await simulated.log.delete_topic(simulated.topics.rejects)
        await simulated.log.create_topic(
            simulated.topics.rejects, wanted_settings(simulated.study, brokers=1)[simulated.topics.rejects]
        )
        await simulated.gatherer(0, state_folder=state_folder).run()
        await simulated.gatherer(0, state_folder=MemoryStateFolder()).run()
        check_rejects_once(simulated)

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
        step = getattr(GathererLogic, name)

        def noted(self: GathererLogic, *arguments: Any) -> Any:
            done.setdefault(name, set()).add(bool(offloaded))
            return step(self, *arguments)

        monkeypatch.setattr(GathererLogic, name, noted)

    async def scenario() -> None:
        simulated = await begun()
        await a_lively_study(simulated)
        ports = gatherer.GathererPorts(simulated.connection("gatherer"), MemoryStateFolder(), simulated.clock, offload)
        await gatherer.Gatherer(STUDY, 0, None, ports, simulated.observer).run()
        check_against_model(simulated)

    steps = ("ingest", "add_cut", "close_periods", "drain_rejects", "arrays")
    for name in steps:
        watched(name)
    in_virtual_time(scenario())
    assert done == {name: {True} for name in steps}


def test_the_observer_hears_of_rejected_reports_while_another_report_of_their_batch_is_open() -> None:
    async def run() -> None:
        simulated = await begun()
        batch = ReportBatch(["p"] * 4, np.array([1, 3, 9, 9], dtype=np.uint16), np.zeros(4, dtype=np.uint8))
        await simulated.log.append_many(simulated.topics.reports, 0, [(None, batch.encode())])
        running = asyncio.create_task(simulated.gatherer(0).run())
        await simulated.clock.sleep(1)
        assert "rejected 0: 2" in simulated.observer.events
        assert simulated.rejects() == []
        for period in (1, 2, 3):
            await simulated.close_period(period)
        await running
        assert [note for note in simulated.observer.events if note.startswith("rejected")] == ["rejected 0: 2"]
        assert [reject.by_reason for reject in simulated.rejects()] == [{Reason.PERIOD_OUT_OF_RANGE: 2}]

    in_virtual_time(run())


def test_a_reject_writer_sorts_only_what_it_has_just_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sort of all known rejects for each chunk would be quadratic in the length of the rejects topic."""

    async def at_once(function: Callable[..., Any], *arguments: Any) -> Any:
        return function(*arguments)

    async def run() -> None:
        simulated = await begun()
        writer = await RejectWriter.open(simulated.log, simulated.topics.rejects, 0, Offset(0), at_once)
        sizes: list[int] = []
        unique = np.unique

        def measured(array: Any, **options: Any) -> Any:
            sizes.append(len(array))
            return unique(array, **options)

        monkeypatch.setattr(np, "unique", measured)
        for start in (100, 0, 50):
            rejects = [Reject(0, offset, Reason.LATE) for offset in range(start, start + 60)]
            await simulated.log.append_many(simulated.topics.rejects, 0, [(None, reject.encode()) for reject in rejects])
            await writer.catch_up()
        assert sizes == [60, 60, 60]
        assert writer.position == 0
        again = [Reject(0, offset, Reason.LATE) for offset in range(40, 170)]
        assert [reject.offset for reject in await writer.write(again)] == list(range(160, 170))
        assert writer.position == 60
        await writer.close()

    in_virtual_time(run())
