"""Starting: disks and ledgers as stewards and accidents leave them; a refused start changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from streamproc.errors import Refused
from streamproc.log.port import TopicSettings
from streamproc.privacy.types import Period
from streamproc.protocol.ledger import Intent
from streamproc.storage.entropy import SeededEntropy, SystemEntropy
from streamproc.synthesizer.checkpoint import (
    PUBLISHED_MARK_FILE,
    STATE_FILE,
    mark_published,
    read_checkpoint,
    write_checkpoint,
)
from streamproc.synthesizer.published_state import read_published_state
from streamproc.testing import in_virtual_time
from tests.stream_model.memory_folder import MemoryStateFolder
from tests.stream_model.simulated_study import SimulatedStudy
from tests.synthesizer.study_runs import STUDY, PartialRun, begin_study, run_two_periods, run_until_crash, run_with_tallies

Situation = Callable[[PartialRun], Awaitable[None]]


async def an_old_state_put_back(partial_run: PartialRun) -> None:
    partial_run.state_folder.files = dict(partial_run.state_folders["settled 1"].files)


async def an_old_state_put_back_beside_a_new_mark(partial_run: PartialRun) -> None:
    partial_run.state_folder.files[STATE_FILE] = partial_run.state_folders["settled 1"].files[STATE_FILE]


async def the_state_deleted(partial_run: PartialRun) -> None:
    partial_run.state_folder.clear()


async def a_state_file_damaged(partial_run: PartialRun) -> None:
    content = partial_run.state_folder.files[STATE_FILE]
    partial_run.state_folder.files[STATE_FILE] = content[:-1] + bytes([content[-1] ^ 1])


async def a_state_file_cut_short(partial_run: PartialRun) -> None:
    partial_run.state_folder.files[STATE_FILE] = partial_run.state_folder.files[STATE_FILE][:50]


async def a_state_file_of_another_version(partial_run: PartialRun) -> None:
    content = partial_run.state_folder.files[STATE_FILE]
    magic = content.index(partial_run.simulated.fingerprint)
    partial_run.state_folder.files[STATE_FILE] = content[: magic - 1] + b"\x63" + content[magic:]


async def a_state_file_of_something_else(partial_run: PartialRun) -> None:
    partial_run.state_folder.files[STATE_FILE] = b"synthesizer"


async def a_state_file_of_another_study(partial_run: PartialRun) -> None:
    stored = read_checkpoint(partial_run.state_folder, partial_run.simulated.fingerprint)
    assert stored is not None
    write_checkpoint(partial_run.state_folder, b"x" * 32, stored)


async def a_settled_mark_damaged(partial_run: PartialRun) -> None:
    content = partial_run.state_folder.files[PUBLISHED_MARK_FILE]
    partial_run.state_folder.files[PUBLISHED_MARK_FILE] = content[:-1] + bytes([content[-1] ^ 1])


async def a_settled_mark_of_another_study(partial_run: PartialRun) -> None:
    stored = read_checkpoint(partial_run.state_folder, partial_run.simulated.fingerprint)
    assert stored is not None
    mark_published(partial_run.state_folder, b"x" * 32, stored.pending)


async def the_ledger_recreated(partial_run: PartialRun) -> None:
    partial_run.simulated.broker.delete(partial_run.simulated.topics.ledger)
    partial_run.simulated.broker.create(partial_run.simulated.topics.ledger, TopicSettings(1))


async def the_ledger_deleted(partial_run: PartialRun) -> None:
    partial_run.simulated.broker.delete(partial_run.simulated.topics.ledger)


async def the_ledger_recreated_and_the_state_deleted(partial_run: PartialRun) -> None:
    await the_ledger_recreated(partial_run)
    partial_run.state_folder.clear()


async def the_ledger_shortened(partial_run: PartialRun) -> None:
    partial_run.simulated.broker.partition(partial_run.simulated.topics.ledger, 0).trim(2)


async def the_ledger_of_one_period_ago(partial_run: PartialRun) -> None:
    log = partial_run.simulated.broker.partition(partial_run.simulated.topics.ledger, 0)
    kept = read_checkpoint(partial_run.state_folder, partial_run.simulated.fingerprint)
    assert kept is not None
    # As if the broker had lost the last transaction: its records and marker.
    while log.stored[-1].value is None or kept.pending.digest not in log.stored[-1].value:
        log.stored.pop()


async def a_forged_ledger(partial_run: PartialRun) -> None:
    await partial_run.simulated.log.append(
        partial_run.simulated.topics.ledger,
        0,
        partial_run.simulated.committed(partial_run.simulated.topics.ledger)[-1] or b"",
    )


async def the_columns_recreated(partial_run: PartialRun) -> None:
    partial_run.simulated.broker.delete(partial_run.simulated.topics.synthetic("w"))
    partial_run.simulated.broker.create(partial_run.simulated.topics.synthetic("w"), TopicSettings(1))


async def an_intent_whose_draw_is_lost(partial_run: PartialRun) -> None:
    await partial_run.simulated.log.append(partial_run.simulated.topics.ledger, 0, Intent(Period(3), b"x" * 32).encode())


REFUSED: dict[Situation, str] = {
    an_old_state_put_back: "the state folder is old: it ends at period 1, the ledger at 2",
    an_old_state_put_back_beside_a_new_mark: "the state folder is old",
    the_state_deleted: "the ledger ends at period 2, but the state folder holds nothing",
    a_state_file_damaged: "damaged",
    a_state_file_cut_short: "damaged",
    a_state_file_of_another_version: "version 99 is unknown",
    a_state_file_of_something_else: "not a state file",
    a_state_file_of_another_study: "belongs to another study",
    a_settled_mark_damaged: "synthesizer.settled: state: damaged",
    a_settled_mark_of_another_study: "synthesizer.settled: state: belongs to another study",
    the_ledger_recreated: "the ledger is empty, but the state folder holds period 2",
    the_ledger_deleted: "the ledger is empty, but the state folder holds period 2",
    the_ledger_recreated_and_the_state_deleted: "study.tallies, study.synthetic.w, study.synthetic.c held records before",
    the_ledger_shortened: "its first records are gone",
    the_ledger_of_one_period_ago: "the ledger is old: it ends at period 1, the state folder at 2",
    a_forged_ledger: "is not a valid ledger",
    the_columns_recreated: "study.synthetic.w: is empty, but the ledger has columns of it",
    an_intent_whose_draw_is_lost: "period 3 was announced, but its draw is not in the state folder",
}


@pytest.mark.parametrize("situation", REFUSED, ids=[situation.__name__ for situation in REFUSED])
def test_a_start_that_could_break_the_promise_is_refused_and_changes_nothing(situation: Situation) -> None:
    async def start() -> None:
        partial_run = await run_two_periods()
        await situation(partial_run)
        before = partial_run.simulated.snapshot()

        with pytest.raises(Refused, match=REFUSED[situation]) as refused:
            await partial_run.simulated.synthesizer().run()

        assert refused.value.exit_code == 3
        assert "\n" not in str(refused.value)
        assert partial_run.simulated.snapshot() == before

    in_virtual_time(start())


@pytest.mark.parametrize("kept", ["state 2", "settled 2"])
def test_the_newest_state_goes_on_whether_it_knows_that_it_is_settled_or_not(kept: str) -> None:
    async def start() -> None:
        partial_run = await run_two_periods()
        partial_run.state_folder.files = dict(partial_run.state_folders[kept].files)
        await partial_run.simulated.synthesizer().run()
        partial_run.simulated.check_released()

    in_virtual_time(start())


def test_without_the_mark_that_it_is_settled_a_period_is_settled_again() -> None:
    async def start() -> None:
        partial_run = await run_two_periods()
        settled = partial_run.state_folder.files.pop(PUBLISHED_MARK_FILE)
        await run_until_crash(
            partial_run.simulated, lambda number, point: str(point) == "after folder.write synthesizer.settled"
        )
        assert partial_run.state_folder.files[PUBLISHED_MARK_FILE] == settled
        await partial_run.simulated.synthesizer().run()
        partial_run.simulated.check_released()

    in_virtual_time(start())


@pytest.mark.parametrize("situation", [a_settled_mark_damaged, a_settled_mark_of_another_study])
@pytest.mark.parametrize("last", ["settled 2", "state 2"])
def test_a_mark_that_is_refused_can_be_deleted_as_the_line_says(situation: Situation, last: str) -> None:
    async def start() -> None:
        partial_run = await run_two_periods()
        partial_run.state_folder.files = dict(partial_run.state_folders[last].files)
        await situation(partial_run)
        with pytest.raises(Refused, match="state file synthesizer.settled: .*; delete it, and the ledger tells"):
            await partial_run.simulated.synthesizer().run()
        del partial_run.state_folder.files[PUBLISHED_MARK_FILE]
        await partial_run.simulated.synthesizer().run()
        partial_run.simulated.check_released()

    in_virtual_time(start())


def test_a_finished_study_ends_at_once_and_needs_no_tallies() -> None:
    async def start() -> None:
        partial_run = await run_two_periods()
        await partial_run.simulated.synthesizer().run()
        partial_run.simulated.broker.delete(partial_run.simulated.topics.tallies)
        released = partial_run.simulated.released_bytes()
        await partial_run.simulated.synthesizer().run()
        assert partial_run.simulated.released_bytes() == released

    in_virtual_time(start())


def test_a_study_that_only_began_goes_on_without_a_disk() -> None:
    async def start() -> None:
        simulated = await begin_study()
        await run_until_crash(simulated, lambda number, point: str(point) == "after commit")
        assert simulated.ledger().period == 0
        simulated.state_folder.clear()
        await run_with_tallies(simulated, simulated.synthesizer().run())
        simulated.check_released()

    in_virtual_time(start())


@pytest.mark.parametrize("topic", ["tallies", "rejects", "synthetic"])
def test_a_new_study_does_not_begin_on_topics_that_were_used(topic: str) -> None:
    async def start() -> None:
        simulated = await begin_study()
        name = simulated.topics.synthetic("w") if topic == "synthetic" else getattr(simulated.topics, topic)
        await simulated.log.append(name, 0, b"of an earlier run")
        before = simulated.snapshot()
        with pytest.raises(Refused, match=f"{name} held records before: this study has run already"):
            await simulated.synthesizer().run()
        assert simulated.snapshot() == before

    in_virtual_time(start())


def test_reports_and_cuts_may_be_there_before_the_study_begins() -> None:
    async def start() -> None:
        simulated = await begin_study()
        await simulated.log.append(simulated.topics.reports, 0, b"early")
        await simulated.close_period(1)
        await run_with_tallies(simulated, simulated.synthesizer().run())
        simulated.check_released()

    in_virtual_time(start())


def test_who_dies_while_the_study_begins_does_not_make_its_name_unusable() -> None:
    async def start() -> None:
        simulated = await begin_study()
        await run_until_crash(simulated, lambda number, point: str(point) == "after send study.ledger")
        assert simulated.uncommitted(simulated.topics.ledger) and not simulated.state_folder.files
        await run_with_tallies(simulated, simulated.synthesizer().run())
        simulated.check_released()

    in_virtual_time(start())


def test_looking_creates_nothing() -> None:
    async def start() -> None:
        simulated = SimulatedStudy(STUDY)
        seen = await read_published_state(simulated.log, STUDY)
        assert (seen.ledger, seen.published_state, seen.used) == (None, None, ())
        assert simulated.broker.topics == {}

    in_virtual_time(start())


def test_a_study_with_other_values_is_refused() -> None:
    async def start() -> None:
        partial_run = await run_two_periods()
        before = partial_run.simulated.snapshot()
        with pytest.raises(Refused, match="begun with other values"):
            await partial_run.simulated.synthesizer(state_folder=MemoryStateFolder(), mark=b"x" * 32).run()
        assert partial_run.simulated.snapshot() == before

    in_virtual_time(start())


@pytest.mark.parametrize("first", [SeededEntropy(1), SystemEntropy()], ids=["seeded", "secure"])
def test_a_study_never_changes_between_seeded_and_secure(first: SeededEntropy | SystemEntropy) -> None:
    async def start() -> None:
        simulated = await begin_study()
        other = SystemEntropy() if first.insecure else SeededEntropy(1)
        beginning = asyncio.create_task(simulated.synthesizer(entropy=first).run())
        await simulated.clock.sleep(1)
        beginning.cancel()
        before = simulated.snapshot()
        with pytest.raises(Refused, match="a seed and cannot go on with"):
            await simulated.synthesizer(entropy=other).run()
        assert simulated.snapshot() == before

    in_virtual_time(start())


def test_a_copied_disk_started_elsewhere_draws_nothing_twice() -> None:
    async def start() -> None:
        partial_run = await run_two_periods()
        simulated, copy = partial_run.simulated, partial_run.state_folder.copy()
        await run_until_crash(simulated, lambda number, point: str(point) == "after send study.synthetic.w", run_number=7)
        assert simulated.uncommitted(simulated.topics.synthetic("w"))[-1] not in simulated.committed(
            simulated.topics.synthetic("w")
        )

        # The copy is of before the third period was drawn, which was announced since.
        with pytest.raises(Refused, match="its draw is not in the state folder"):
            await simulated.synthesizer(state_folder=copy, entropy=SeededEntropy(8)).run()
        await simulated.synthesizer(entropy=SeededEntropy(9)).run()
        simulated.check_released()
        with pytest.raises(Refused, match="the state folder is old"):
            await simulated.synthesizer(state_folder=copy, entropy=SeededEntropy(8)).run()

    in_virtual_time(start())
