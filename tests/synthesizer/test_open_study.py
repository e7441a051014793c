"""A synthesizer releases the columns of an open study, from complete tallies to the record that is marked as the last."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from streamproc.client.public_reader import PublicReader
from streamproc.client.subscribe import subscribe
from streamproc.errors import TallyConflict
from streamproc.privacy.adjacency import Adjacency
from streamproc.privacy.types import Period
from streamproc.protocol import snapshots
from streamproc.protocol.topics import Topics
from streamproc.releases.contracts import stated_contracts
from streamproc.releases.open_presence import NO_REPORT
from streamproc.releases.synthesis import Synthesis
from streamproc.service.restore import restore_state
from streamproc.storage.entropy import SeededEntropy
from streamproc.storage.state_folder import LocalStateFolder
from streamproc.study import CumulativeRelease, Release, SpellRelease, Study, WindowRelease
from streamproc.synthesizer.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from streamproc.synthesizer.outbox import build_pending_release
from streamproc.synthesizer.state_size import max_state_size, max_step_memory
from streamproc.synthesizer.tally_reader import RECHECKED_PERIODS, TallyReader
from streamproc.testing import in_virtual_time
from tests.memory import memory_taken
from tests.service.test_restore import Restoring
from tests.stream_model.fault_points import FaultPoint
from tests.stream_model.memory_folder import MemoryStateFolder
from tests.stream_model.open_study import open_study, open_tallies, partition_tallies, reports, send_tallies
from tests.stream_model.simulated_study import FreshEntropy, SimulatedStudy
from tests.synthesizer.study_runs import run_until_crash

PERIODS = 14


async def streamed(study: Study, seed: int = 1, periods: int = PERIODS, *, last: bool = True) -> SimulatedStudy:
    simulated = await SimulatedStudy(study).begin()
    tallies = partition_tallies(study, reports(study, 200, periods, seed), last=last)
    await asyncio.gather(simulated.synthesizer(entropy=SeededEntropy(3)).run(), send_tallies(simulated, tallies))
    return simulated


@pytest.mark.parametrize("adjacency", [Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE])
def test_the_stream_and_the_computation_without_a_stream_give_the_same_bytes(adjacency: Adjacency) -> None:
    study = open_study(adjacency=adjacency)
    simulated = in_virtual_time(streamed(study))
    ledger = simulated.ledger()

    assert ledger.period == PERIODS and ledger.is_over and ledger.periods[-1].last
    synthesis = Synthesis.start(stated_contracts(study, 0, insecure=True))
    for period, (_, tally) in enumerate(open_tallies(study, reports(study, 200, PERIODS, 1)), start=1):
        synthesis, steps = synthesis.step(tally, SeededEntropy(3))
        for name, step in steps.items():
            column = simulated.columns(name)[period - 1]
            assert column.symbols.tobytes() == step.columns[0].tobytes()
            assert ledger.measurements[name, Period(period)].tolist() == step.measurements[0].tolist()
            assert ledger.periods[period - 1].releases[name].n_star == synthesis.rows(name)
            assert ledger.periods[period - 1].releases[name].rho_spent == synthesis.accountants[name].spent
    simulated.check_released(PERIODS)


def test_every_check_of_a_reader_holds() -> None:
    async def scenario() -> PublicReader:
        simulated = await streamed(open_study())
        return await PublicReader.read_all(simulated.log, simulated.study)

    public = in_virtual_time(scenario())

    public.check_complete()
    assert public.is_over and public.n is None
    assert all(len(public.columns(release.name)) == PERIODS for release in public.study.releases)
    assert all(public.n_star(release.name) for release in public.study.releases)


def test_a_study_with_a_horizon_ends_with_it() -> None:
    simulated = in_virtual_time(streamed(open_study(horizon=6), periods=6, last=False))

    ledger = simulated.ledger()
    assert ledger.period == 6 and ledger.is_over and not ledger.periods[-1].last


SHORT = 3
SMALL = open_study(size=20, tenure=2, releases=(WindowRelease("w", 1), SpellRelease("s", ("1",), length=1)))


async def crashed(fatal: Callable[[int, FaultPoint], bool]) -> tuple[SimulatedStudy, list[FaultPoint]]:
    """A study whose synthesizer ends at a fatal point and is started again, with other noise."""
    simulated = await SimulatedStudy(SMALL).begin()
    passed: list[FaultPoint] = []

    async def two_lives() -> None:
        passed.extend(await run_until_crash(simulated, fatal))
        await simulated.synthesizer(entropy=FreshEntropy(1000)).run()

    tallies = partition_tallies(SMALL, reports(SMALL, 30, SHORT))
    await asyncio.gather(two_lives(), send_tallies(simulated, tallies))
    return simulated, passed


def test_after_a_crash_at_any_moment_every_column_is_there_once_and_the_study_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "SUMMARY_EVERY", 2)
    _, points = in_virtual_time(crashed(lambda number, point: False))
    assert len(points) > 50

    for number, point in enumerate(points):
        try:
            simulated, _ = in_virtual_time(crashed(lambda at, _, last=number: at == last))  # type: ignore[misc]
            simulated.check_released(SHORT)
            assert simulated.ledger().is_over
        except Exception as problem:
            raise AssertionError(f"after a crash at fault point {number}, {point}") from problem


@pytest.mark.parametrize("after", [1, 5, PERIODS])
def test_a_restored_state_is_the_state_that_was_lost(tmp_path: Path, after: int) -> None:
    study = open_study()

    async def scenario() -> None:
        simulated = await SimulatedStudy(study).begin()
        tallies = partition_tallies(study, reports(study, 200, PERIODS, 1))

        async def first_periods() -> None:
            await run_until_crash(simulated, lambda _, point: reached(simulated, after, point))

        await asyncio.gather(first_periods(), send_tallies(simulated, [sent[:after] for sent in tallies]))
        await simulated.log.delete_topic(simulated.topics.tallies)
        await simulated.begin()
        lost = read_checkpoint(simulated.state_folder, simulated.fingerprint)
        assert lost is not None and lost.synthesis.period == after
        folder = LocalStateFolder(tmp_path / "state")
        deployment = Restoring(study, study.broker, tmp_path, tmp_path / "state", None, simulated=simulated)

        assert await restore_state(deployment, accept_cost=False) == after

        found = read_checkpoint(folder, simulated.fingerprint)
        assert found is not None and found.pending.last == (after == PERIODS)
        for name, state in lost.synthesis.states.items():
            before = lost.synthesis.contracts[name].state_arrays(state)
            again = found.synthesis.contracts[name].state_arrays(found.synthesis.states[name])
            assert {key: array.tolist() for key, array in again.items()} == {
                key: array.tolist() for key, array in before.items()
            }
        rest = simulated.synthesizer(state_folder=folder, entropy=SeededEntropy(3)).run()
        await asyncio.gather(rest, send_tallies(simulated, [sent[after:] for sent in tallies]))
        assert simulated.ledger().period == PERIODS
        simulated.check_released(PERIODS)

    in_virtual_time(scenario())


def reached(simulated: SimulatedStudy, period: int, point: FaultPoint) -> bool:
    """Whether so many periods are published and marked as such."""
    if str(point) != "after folder.write synthesizer.settled":
        return False
    kept = read_checkpoint(simulated.state_folder, simulated.fingerprint)
    return kept is not None and kept.synthesis.period == period


def test_partitions_that_disagree_about_the_end_stop_the_study() -> None:
    study = open_study()

    async def scenario() -> None:
        simulated = await SimulatedStudy(study).begin()
        tallies = partition_tallies(study, reports(study, 50, 2))
        tallies[1] = partition_tallies(study, reports(study, 50, 2), last=False)[1]
        with pytest.raises(TallyConflict, match="period 2: only some of its tallies say that the study ends"):
            await asyncio.gather(simulated.synthesizer().run(), send_tallies(simulated, tallies))

    in_virtual_time(scenario())


def test_a_subscriber_gets_every_column_until_the_study_ends() -> None:
    async def scenario() -> list[tuple[str, int]]:
        simulated = await SimulatedStudy(SMALL).begin()
        columns = []

        async def follow() -> None:
            async for column in subscribe(simulated.log, SMALL):
                columns.append((column.release, int(column.period)))

        tallies = partition_tallies(SMALL, reports(SMALL, 30, SHORT))
        await asyncio.gather(simulated.synthesizer().run(), send_tallies(simulated, tallies), follow())
        return columns

    columns = in_virtual_time(scenario())

    assert sorted(columns) == sorted((release.name, t) for release in SMALL.releases for t in range(1, SHORT + 1))


def test_a_reader_of_tallies_keeps_what_it_needs_for_a_few_periods_only() -> None:
    study = open_study()

    async def scenario() -> None:
        simulated = await SimulatedStudy(study).begin()
        tallies = partition_tallies(study, reports(study, 50, 3 * RECHECKED_PERIODS), last=False)
        reader = await TallyReader.open(simulated.log, study)
        for period in range(1, 3 * RECHECKED_PERIODS + 1):
            for sent in tallies:
                await simulated.send_tally(sent[period - 1])
            await reader.catch_up()
            assert reader.complete(Period(period)) is not None and reader.watermark == period
            reader.forget(Period(period))
        assert len(reader._assemblers) == len(reader._reported) == RECHECKED_PERIODS
        assert not reader._waiting and not reader._people

        late = await TallyReader.open(simulated.log, study)
        late.forget(Period(2 * RECHECKED_PERIODS))
        await late.catch_up()
        assert late.watermark == 3 * RECHECKED_PERIODS and len(late._assemblers) == 2 * RECHECKED_PERIODS

        changed = replace(tallies[0][-1], people=tallies[0][-1].people + 1)
        await simulated.send_tally(changed)
        with pytest.raises(TallyConflict, match="two different tallies"):
            await reader.catch_up()

    in_virtual_time(scenario())


def resources(people: int, every: int, release: Release, *, waves: bool) -> list[tuple[int, int, int, int]]:
    """Of each period, the state file's size and the memory taken, each with what was allowed for it before.

    With `waves`, most people enter and leave together.
    """
    study = open_study(releases=(release,), size=people, partitions=1)
    entropy, topics, state_folder = SeededEntropy(5), Topics(study.name), MemoryStateFolder()
    synthesis = Synthesis.start(stated_contracts(study, 0, insecure=True))
    symbols = reports(study, people, 9, 4)
    if waves:
        symbols[: people * 9 // 10] = np.array([0, 0, 0, 0, NO_REPORT, NO_REPORT, NO_REPORT, NO_REPORT, NO_REPORT])
    found = []
    for _, tally in open_tallies(study, symbols):
        allowed, memory_allowed = max_state_size(synthesis), max_step_memory(synthesis)
        with memory_taken() as memory:
            after, steps = synthesis.step(tally, entropy)
            pending = build_pending_release(topics, synthesis, after, steps, bytes(32), bytes(32), study_digest=bytes(32))
            size = write_checkpoint(state_folder, bytes(32), Checkpoint(after, pending))
        assert (after.period % every == 0) == (b"summary" in pending.outgoing[-1].value)
        found.append((size, allowed, memory.peak, memory_allowed))
        synthesis = after
    return found


@pytest.mark.parametrize("waves", [False, True])
@pytest.mark.parametrize("people", [5, 30_000])
@pytest.mark.parametrize(
    "release", [WindowRelease("w", 3), CumulativeRelease("c", ("1",), most=4)], ids=lambda each: each.name
)
def test_there_is_room_for_every_draw_of_an_open_study(
    monkeypatch: pytest.MonkeyPatch, people: int, waves: bool, release: Release
) -> None:
    monkeypatch.setattr(snapshots, "SUMMARY_EVERY", 3)
    resources(5, 3, release, waves=False)  # the first step of a process loads modules, which no later one needs again

    for size, allowed, memory, memory_allowed in resources(people, 3, release, waves=waves):
        assert size <= allowed and memory <= memory_allowed
