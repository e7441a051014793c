"""What a gatherer refuses, and what it makes again by itself: its checkpoint and the log must be of one past."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from streamproc.errors import Refused
from streamproc.log.port import TopicSettings
from streamproc.protocol.control import Key
from streamproc.protocol.ledger import StudyRecord
from streamproc.protocol.state_file import pack_arrays, seal
from streamproc.study.fingerprint import public_values
from streamproc.testing import in_virtual_time
from tests.gatherer.test_worker import FILE, STUDY, begun, check_against_model, say
from tests.stream_model.simulated_study import StudyWorld


async def checkpointed() -> StudyWorld:
    """A study whose gatherer stopped after the first period."""
    world = await begun()
    await say(world, ("p", 1, "b"), ("q", 2, "c"))
    await world.close_period(1)
    first = asyncio.create_task(world.gatherer(0).run())
    await world.clock.sleep(1)
    first.cancel()
    assert FILE in world.gather_disk.files
    return world


def damage_the_file(world: StudyWorld) -> None:
    world.gather_disk.files[FILE] = world.gather_disk.files[FILE][:-1]


def put_in_the_file_of_another_study(world: StudyWorld) -> None:
    world.gather_disk.files[FILE] = seal(b"x" * 32, pack_arrays({}))


def put_in_a_file_that_lacks_something(world: StudyWorld) -> None:
    world.gather_disk.files[FILE] = seal(world.fingerprint, pack_arrays({"position": 0}))


def create_control_anew(world: StudyWorld) -> None:
    world.broker.delete(world.topics.control)
    world.broker.create(world.topics.control, TopicSettings(1))
    world.broker.append(world.topics.control, 0, [(None, Key(b"another key".ljust(32)).encode())])


def lose_the_first_cuts(world: StudyWorld) -> None:
    world.broker.partition(world.topics.control, 0).trim(1)


def create_reports_anew(world: StudyWorld) -> None:
    world.broker.delete(world.topics.reports)
    world.broker.create(world.topics.reports, TopicSettings(1))


def create_reports_anew_and_longer(world: StudyWorld) -> None:
    create_reports_anew(world)
    world.broker.append(world.topics.reports, 0, [(None, b"other")] * 100)


def lose_reports_after_the_checkpoint(world: StudyWorld) -> None:
    world.broker.append(world.topics.reports, 0, [(None, b"1"), (None, b"2")])
    world.broker.partition(world.topics.reports, 0).trim(4)


def lose_reports_and_the_checkpoint(world: StudyWorld) -> None:
    world.gather_disk.clear()
    world.broker.partition(world.topics.reports, 0).trim(1)


def begin_the_ledger_with_something_else(world: StudyWorld) -> None:
    world.broker.delete(world.topics.ledger)
    world.broker.create(world.topics.ledger, TopicSettings(1))
    world.broker.append(world.topics.ledger, 0, [(None, b"?")])


def begin_another_study(world: StudyWorld) -> None:
    begin_the_ledger_with_something_else(world)
    world.broker.partition(world.topics.ledger, 0).stored.clear()
    other = StudyRecord(public_values(STUDY), b"x" * 32, insecure=True).encode()
    world.broker.append(world.topics.ledger, 0, [(None, other)])


REFUSED: dict[Callable[[StudyWorld], None], str] = {
    damage_the_file: f"state file {FILE}: .*damaged.*delete it, and the gatherer replays the log",
    put_in_the_file_of_another_study: "belongs to another study",
    put_in_a_file_that_lacks_something: "its content does not fit together",
    create_control_anew: "not of the study's key",
    lose_the_first_cuts: "study.control: its first records are gone",
    create_reports_anew: "study.reports/0: the log begins later or ends earlier than it must",
    create_reports_anew_and_longer: f"state file {FILE}: belongs to an earlier incarnation of topic study.reports",
    lose_reports_after_the_checkpoint: "study.reports/0: the log begins later",
    lose_reports_and_the_checkpoint: "study.reports/0: the log begins later",
    begin_the_ledger_with_something_else: "study.ledger: does not begin with a study record",
    begin_another_study: "begun with other values",
}


@pytest.mark.parametrize("spoil", REFUSED, ids=[spoil.__name__ for spoil in REFUSED])
def test_what_would_give_other_tallies_is_refused_and_changes_nothing(spoil: Callable[[StudyWorld], None]) -> None:
    async def run() -> None:
        world = await checkpointed()
        spoil(world)
        before = world.snapshot()
        with pytest.raises(Refused, match=REFUSED[spoil]) as refused:
            await world.gatherer(0).run()
        assert refused.value.exit_code == 3
        assert world.snapshot() == before

    in_virtual_time(run())


def test_a_topic_recreated_under_a_reader_is_refused() -> None:
    async def run() -> None:
        world = await checkpointed()
        reading = asyncio.create_task(world.gatherer(0).run())
        await world.clock.sleep(1)
        create_reports_anew(world)
        with pytest.raises(Refused, match="must never be recreated"):
            await reading

    in_virtual_time(run())


def test_a_damaged_checkpoint_once_deleted_is_made_again_from_the_log() -> None:
    async def run() -> None:
        world = await checkpointed()
        world.gather_disk.clear()
        await world.close_period(2)
        await world.close_period(3)
        await world.gatherer(0).run()
        check_against_model(world)

    in_virtual_time(run())
