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
from streamproc.synthesizer.recovery import read_published_state
from streamproc.testing import in_virtual_time
from tests.stream_model.memory_folder import MemoryDisk
from tests.stream_model.simulated_study import StudyWorld
from tests.synthesizer.runs import STUDY, Past, begun, doomed, fed, two_periods

Situation = Callable[[Past], Awaitable[None]]


async def an_old_state_put_back(past: Past) -> None:
    past.disk.files = dict(past.disks["settled 1"].files)


async def an_old_state_put_back_beside_a_new_mark(past: Past) -> None:
    past.disk.files[STATE_FILE] = past.disks["settled 1"].files[STATE_FILE]


async def the_state_deleted(past: Past) -> None:
    past.disk.clear()


async def a_state_file_damaged(past: Past) -> None:
    content = past.disk.files[STATE_FILE]
    past.disk.files[STATE_FILE] = content[:-1] + bytes([content[-1] ^ 1])


async def a_state_file_cut_short(past: Past) -> None:
    past.disk.files[STATE_FILE] = past.disk.files[STATE_FILE][:50]


async def a_state_file_of_another_version(past: Past) -> None:
    content = past.disk.files[STATE_FILE]
    magic = content.index(past.world.fingerprint)
    past.disk.files[STATE_FILE] = content[: magic - 1] + b"\x63" + content[magic:]


async def a_state_file_of_something_else(past: Past) -> None:
    past.disk.files[STATE_FILE] = b"synthesizer"


async def a_state_file_of_another_study(past: Past) -> None:
    stored = read_checkpoint(past.disk, past.world.fingerprint)
    assert stored is not None
    write_checkpoint(past.disk, b"x" * 32, stored)


async def a_settled_mark_damaged(past: Past) -> None:
    content = past.disk.files[PUBLISHED_MARK_FILE]
    past.disk.files[PUBLISHED_MARK_FILE] = content[:-1] + bytes([content[-1] ^ 1])


async def a_settled_mark_of_another_study(past: Past) -> None:
    stored = read_checkpoint(past.disk, past.world.fingerprint)
    assert stored is not None
    mark_published(past.disk, b"x" * 32, stored.pending)


async def the_ledger_recreated(past: Past) -> None:
    past.world.broker.delete(past.world.topics.ledger)
    past.world.broker.create(past.world.topics.ledger, TopicSettings(1))


async def the_ledger_deleted(past: Past) -> None:
    past.world.broker.delete(past.world.topics.ledger)


async def the_ledger_recreated_and_the_state_deleted(past: Past) -> None:
    await the_ledger_recreated(past)
    past.disk.clear()


async def the_ledger_shortened(past: Past) -> None:
    past.world.broker.partition(past.world.topics.ledger, 0).trim(2)


async def the_ledger_of_one_period_ago(past: Past) -> None:
    log = past.world.broker.partition(past.world.topics.ledger, 0)
    kept = read_checkpoint(past.disk, past.world.fingerprint)
    assert kept is not None
    # As if the broker had lost the last transaction: its records and marker.
    while log.stored[-1].value is None or kept.pending.digest not in log.stored[-1].value:
        log.stored.pop()


async def a_forged_ledger(past: Past) -> None:
    await past.world.log.append(past.world.topics.ledger, 0, past.world.committed(past.world.topics.ledger)[-1] or b"")


async def the_columns_recreated(past: Past) -> None:
    past.world.broker.delete(past.world.topics.synthetic("w"))
    past.world.broker.create(past.world.topics.synthetic("w"), TopicSettings(1))


async def an_intent_whose_draw_is_lost(past: Past) -> None:
    await past.world.log.append(past.world.topics.ledger, 0, Intent(Period(3), b"x" * 32).encode())


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
        past = await two_periods()
        await situation(past)
        before = past.world.snapshot()

        with pytest.raises(Refused, match=REFUSED[situation]) as refused:
            await past.world.synthesizer().run()

        assert refused.value.exit_code == 3
        assert "\n" not in str(refused.value)
        assert past.world.snapshot() == before

    in_virtual_time(start())


@pytest.mark.parametrize("kept", ["state 2", "settled 2"])
def test_the_newest_state_goes_on_whether_it_knows_that_it_is_settled_or_not(kept: str) -> None:
    async def start() -> None:
        past = await two_periods()
        past.disk.files = dict(past.disks[kept].files)
        await past.world.synthesizer().run()
        past.world.check_released()

    in_virtual_time(start())


def test_without_the_mark_that_it_is_settled_a_period_is_settled_again() -> None:
    async def start() -> None:
        past = await two_periods()
        settled = past.disk.files.pop(PUBLISHED_MARK_FILE)
        await doomed(past.world, lambda number, moment: str(moment) == "after disk.write synthesizer.settled")
        assert past.disk.files[PUBLISHED_MARK_FILE] == settled
        await past.world.synthesizer().run()
        past.world.check_released()

    in_virtual_time(start())


@pytest.mark.parametrize("situation", [a_settled_mark_damaged, a_settled_mark_of_another_study])
@pytest.mark.parametrize("last", ["settled 2", "state 2"])
def test_a_mark_that_is_refused_can_be_deleted_as_the_line_says(situation: Situation, last: str) -> None:
    async def start() -> None:
        past = await two_periods()
        past.disk.files = dict(past.disks[last].files)
        await situation(past)
        with pytest.raises(Refused, match="state file synthesizer.settled: .*; delete it, and the ledger tells"):
            await past.world.synthesizer().run()
        del past.disk.files[PUBLISHED_MARK_FILE]
        await past.world.synthesizer().run()
        past.world.check_released()

    in_virtual_time(start())


def test_a_finished_study_ends_at_once_and_needs_no_tallies() -> None:
    async def start() -> None:
        past = await two_periods()
        await past.world.synthesizer().run()
        past.world.broker.delete(past.world.topics.tallies)
        released = past.world.released_bytes()
        await past.world.synthesizer().run()
        assert past.world.released_bytes() == released

    in_virtual_time(start())


def test_a_study_that_only_began_goes_on_without_a_disk() -> None:
    async def start() -> None:
        world = await begun()
        await doomed(world, lambda number, moment: str(moment) == "after commit")
        assert world.ledger().period == 0
        world.disk.clear()
        await fed(world, world.synthesizer().run())
        world.check_released()

    in_virtual_time(start())


@pytest.mark.parametrize("topic", ["tallies", "rejects", "synthetic"])
def test_a_new_study_does_not_begin_on_topics_that_were_used(topic: str) -> None:
    async def start() -> None:
        world = await begun()
        name = world.topics.synthetic("w") if topic == "synthetic" else getattr(world.topics, topic)
        await world.log.append(name, 0, b"of an earlier run")
        before = world.snapshot()
        with pytest.raises(Refused, match=f"{name} held records before: this study has run already"):
            await world.synthesizer().run()
        assert world.snapshot() == before

    in_virtual_time(start())


def test_reports_and_cuts_may_be_there_before_the_study_begins() -> None:
    async def start() -> None:
        world = await begun()
        await world.log.append(world.topics.reports, 0, b"early")
        await world.close_period(1)
        await fed(world, world.synthesizer().run())
        world.check_released()

    in_virtual_time(start())


def test_who_dies_while_the_study_begins_does_not_make_its_name_unusable() -> None:
    async def start() -> None:
        world = await begun()
        await doomed(world, lambda number, moment: str(moment) == "after send study.ledger")
        assert world.uncommitted(world.topics.ledger) and not world.disk.files
        await fed(world, world.synthesizer().run())
        world.check_released()

    in_virtual_time(start())


def test_looking_creates_nothing() -> None:
    async def start() -> None:
        world = StudyWorld(STUDY)
        seen = await read_published_state(world.log, STUDY)
        assert (seen.ledger, seen.published_state, seen.used) == (None, None, ())
        assert world.broker.topics == {}

    in_virtual_time(start())


def test_a_study_with_other_values_is_refused() -> None:
    async def start() -> None:
        past = await two_periods()
        before = past.world.snapshot()
        with pytest.raises(Refused, match="begun with other values"):
            await past.world.synthesizer(disk=MemoryDisk(), mark=b"x" * 32).run()
        assert past.world.snapshot() == before

    in_virtual_time(start())


@pytest.mark.parametrize("first", [SeededEntropy(1), SystemEntropy()], ids=["seeded", "secure"])
def test_a_study_never_changes_between_seeded_and_secure(first: SeededEntropy | SystemEntropy) -> None:
    async def start() -> None:
        world = await begun()
        other = SystemEntropy() if first.insecure else SeededEntropy(1)
        beginning = asyncio.create_task(world.synthesizer(entropy=first).run())
        await world.clock.sleep(1)
        beginning.cancel()
        before = world.snapshot()
        with pytest.raises(Refused, match="a seed and cannot go on with"):
            await world.synthesizer(entropy=other).run()
        assert world.snapshot() == before

    in_virtual_time(start())


def test_a_copied_disk_started_elsewhere_draws_nothing_twice() -> None:
    async def start() -> None:
        past = await two_periods()
        world, copy = past.world, past.disk.copy()
        await doomed(world, lambda number, moment: str(moment) == "after send study.synthetic.w", life=7)
        assert world.uncommitted(world.topics.synthetic("w"))[-1] not in world.committed(world.topics.synthetic("w"))

        # The copy is of before the third period was drawn, which was announced since.
        with pytest.raises(Refused, match="its draw is not in the state folder"):
            await world.synthesizer(disk=copy, entropy=SeededEntropy(8)).run()
        await world.synthesizer(entropy=SeededEntropy(9)).run()
        world.check_released()
        with pytest.raises(Refused, match="the state folder is old"):
            await world.synthesizer(disk=copy, entropy=SeededEntropy(8)).run()

    in_virtual_time(start())
