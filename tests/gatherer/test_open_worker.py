"""The gatherer of an open study: it ends with the last cut, and may be stopped and started at any moment."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

import streamproc.gatherer.departed as departed_module
from streamproc.errors import StateFileUnusable
from streamproc.gatherer.segment_files import segment_name
from streamproc.privacy.types import Period
from streamproc.protocol.control import Cut
from streamproc.study import Population, WindowRelease
from streamproc.testing import in_virtual_time
from tests.gatherer.open_sequences import open_study
from tests.gatherer.test_worker import begun, say
from tests.stream_model.fault_points import Crash, CrashingConnection, FaultPoint, FaultPointStateFolder
from tests.stream_model.memory_folder import MemoryStateFolder
from tests.stream_model.open_model import OpenModel
from tests.stream_model.reference_model import rejected_reports
from tests.stream_model.simulated_study import SimulatedStudy

STUDY = open_study(
    Population(initial="a", open=True, tenure=2, absent_after=1), partitions=1, releases=[WindowRelease("w", 1)]
)


async def close(simulated: SimulatedStudy, period: int, *, last: bool = False) -> None:
    end = await simulated.log.high_watermark(simulated.topics.reports, 0)
    await simulated.log.append(simulated.topics.control, 0, Cut(Period(period), (end,), last).encode())


async def people_come_and_go(simulated: SimulatedStudy) -> None:
    await say(simulated, ("p", 1, "b"), ("q", 1, "c"), ("r", 3, "c"), ("p", 9, "a"))
    await simulated.clock.sleep(0.3)
    await close(simulated, 1)
    await say(simulated, ("p", 2, "b"), ("q", 1, "a"), ("s", 2, "?"))
    await close(simulated, 2)
    await simulated.clock.sleep(0.3)
    await say(simulated, ("p", 3, "b"), ("q", 3, "b"), ("t", 3, "b"))
    await close(simulated, 3)
    await say(simulated, ("t", 4, "b"), ("r", 4, "b"), ("t", 5, "b"))
    await close(simulated, 4, last=True)
    await close(simulated, 5)


def check(simulated: SimulatedStudy) -> None:
    stored = simulated.broker.partition(simulated.topics.reports, 0).stored
    records = [(record.offset, record.value) for record in stored]
    ends = [cut.ends[0] for cut in simulated.cuts()][:4]
    model = OpenModel(simulated.study, 0, simulated.key, simulated.roster, records, ends, ended=True)
    found = {period: (tally.people, tally.counts["w"].tolist()) for (_, period), tally in simulated.tallies().items()}
    assert found == {t: (closed.people, closed.counts["w"]) for t, closed in enumerate(model.tallies(), start=1)}
    assert [period for (_, period), tally in simulated.tallies().items() if tally.last] == [4]
    assert rejected_reports(simulated.rejects()) == model.rejected()
    assert [people for people, _ in found.values()] == [2, 1, 2, 2]


def test_it_ends_with_the_last_cut() -> None:
    async def run() -> None:
        simulated = await begun(STUDY)
        await asyncio.gather(people_come_and_go(simulated), simulated.gatherer(0).run())
        check(simulated)
        before = simulated.snapshot()
        await simulated.gatherer(0).run()
        assert simulated.snapshot() == before

    in_virtual_time(run())


def test_it_ends_with_the_horizon() -> None:
    async def run() -> None:
        simulated = await begun(replace(STUDY, horizon=2))
        gatherer = asyncio.create_task(simulated.gatherer(0).run())
        for period in (1, 2):
            await close(simulated, period)
        await gatherer
        assert [period for _, period in simulated.tallies()] == [1, 2]
        assert not any(tally.last for tally in simulated.tallies().values())

    in_virtual_time(run())


@pytest.mark.parametrize("segment", [1, 65_536])
def test_after_a_crash_at_any_moment_the_tallies_are_the_same(segment: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(departed_module, "SEGMENT_HASHES", segment)

    async def two_lives(fatal: int) -> list[FaultPoint]:
        simulated = await begun(STUDY)
        log = CrashingConnection(simulated.broker, lambda number, point: number == fatal)
        people = asyncio.create_task(people_come_and_go(simulated))
        folder = FaultPointStateFolder(simulated.gatherer_folder, log.fault_points)
        try:
            await simulated.gatherer(0, log=log, state_folder=folder).run()
        except Crash:
            await simulated.gatherer(0).run()
        await people
        check(simulated)
        return log.fault_points.passed

    fault_points = in_virtual_time(two_lives(-1))
    assert ("before folder.write departed-0-000001.state" in map(str, fault_points)) is (segment == 1)
    for number, point in enumerate(fault_points):
        try:
            in_virtual_time(two_lives(number))
        except Exception as problem:
            raise AssertionError(f"after a crash at fault point {number}, {point}") from problem


def test_a_replay_of_the_log_writes_the_same_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(departed_module, "SEGMENT_HASHES", 1)

    async def run() -> None:
        simulated = await begun(STUDY)
        await asyncio.gather(people_come_and_go(simulated), simulated.gatherer(0).run())
        again = MemoryStateFolder()
        await simulated.gatherer(0, state_folder=again).run()
        check(simulated)
        segments = {name for name in again.files if name.startswith("departed")}
        assert segments == {segment_name(0, number) for number in (1, 2)}
        assert {name: again.files[name] for name in segments} == {
            name: simulated.gatherer_folder.files[name] for name in segments
        }

    in_virtual_time(run())


def test_a_lost_segment_is_refused_and_a_replay_restores_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(departed_module, "SEGMENT_HASHES", 1)

    async def run() -> None:
        simulated = await begun(STUDY)
        await asyncio.gather(people_come_and_go(simulated), simulated.gatherer(0).run())
        files = simulated.gatherer_folder.files
        lost = files.pop(segment_name(0, 1))
        with pytest.raises(StateFileUnusable, match="departed-0-000001.state: missing; delete gather-0.state"):
            await simulated.gatherer(0).run()
        del files["gather-0.state"]
        await simulated.gatherer(0).run()
        assert files[segment_name(0, 1)] == lost
        check(simulated)

    in_virtual_time(run())
