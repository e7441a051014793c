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
from tests.stream_model.simulated_study import SimulatedStudy


async def checkpointed() -> SimulatedStudy:
    """A study whose gatherer stopped after the first period."""
    simulated = await begun()
    await say(simulated, ("p", 1, "b"), ("q", 2, "c"))
    await simulated.close_period(1)
    first = asyncio.create_task(simulated.gatherer(0).run())
    await simulated.clock.sleep(1)
    first.cancel()
    assert FILE in simulated.gatherer_folder.files
    return simulated


def damage_the_file(simulated: SimulatedStudy) -> None:
    simulated.gatherer_folder.files[FILE] = simulated.gatherer_folder.files[FILE][:-1]


def put_in_the_file_of_another_study(simulated: SimulatedStudy) -> None:
    simulated.gatherer_folder.files[FILE] = seal(b"x" * 32, pack_arrays({}))


def put_in_a_file_that_lacks_something(simulated: SimulatedStudy) -> None:
    simulated.gatherer_folder.files[FILE] = seal(simulated.fingerprint, pack_arrays({"position": 0}))


def create_control_anew(simulated: SimulatedStudy) -> None:
    simulated.broker.delete(simulated.topics.control)
    simulated.broker.create(simulated.topics.control, TopicSettings(1))
    simulated.broker.append(simulated.topics.control, 0, [(None, Key(b"another key".ljust(32)).encode())])


def lose_the_first_cuts(simulated: SimulatedStudy) -> None:
    simulated.broker.partition(simulated.topics.control, 0).trim(1)


def create_reports_anew(simulated: SimulatedStudy) -> None:
    simulated.broker.delete(simulated.topics.reports)
    simulated.broker.create(simulated.topics.reports, TopicSettings(1))


def create_reports_anew_and_longer(simulated: SimulatedStudy) -> None:
    create_reports_anew(simulated)
    simulated.broker.append(simulated.topics.reports, 0, [(None, b"other")] * 100)


def lose_reports_after_the_checkpoint(simulated: SimulatedStudy) -> None:
    simulated.broker.append(simulated.topics.reports, 0, [(None, b"1"), (None, b"2")])
    simulated.broker.partition(simulated.topics.reports, 0).trim(4)


def lose_reports_and_the_checkpoint(simulated: SimulatedStudy) -> None:
    simulated.gatherer_folder.clear()
    simulated.broker.partition(simulated.topics.reports, 0).trim(1)


def begin_the_ledger_with_something_else(simulated: SimulatedStudy) -> None:
    simulated.broker.delete(simulated.topics.ledger)
    simulated.broker.create(simulated.topics.ledger, TopicSettings(1))
    simulated.broker.append(simulated.topics.ledger, 0, [(None, b"?")])


def begin_another_study(simulated: SimulatedStudy) -> None:
    begin_the_ledger_with_something_else(simulated)
    simulated.broker.partition(simulated.topics.ledger, 0).stored.clear()
    other = StudyRecord(public_values(STUDY), b"x" * 32, insecure=True).encode()
    simulated.broker.append(simulated.topics.ledger, 0, [(None, other)])


REFUSED: dict[Callable[[SimulatedStudy], None], str] = {
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
def test_what_would_give_other_tallies_is_refused_and_changes_nothing(spoil: Callable[[SimulatedStudy], None]) -> None:
    async def run() -> None:
        simulated = await checkpointed()
        spoil(simulated)
        before = simulated.snapshot()
        with pytest.raises(Refused, match=REFUSED[spoil]) as refused:
            await simulated.gatherer(0).run()
        assert refused.value.exit_code == 3
        assert simulated.snapshot() == before

    in_virtual_time(run())


def test_a_topic_recreated_under_a_reader_is_refused() -> None:
    async def run() -> None:
        simulated = await checkpointed()
        reading = asyncio.create_task(simulated.gatherer(0).run())
        await simulated.clock.sleep(1)
        create_reports_anew(simulated)
        with pytest.raises(Refused, match="must never be recreated"):
            await reading

    in_virtual_time(run())


def test_a_damaged_checkpoint_once_deleted_is_made_again_from_the_log() -> None:
    async def run() -> None:
        simulated = await checkpointed()
        simulated.gatherer_folder.clear()
        await simulated.close_period(2)
        await simulated.close_period(3)
        await simulated.gatherer(0).run()
        check_against_model(simulated)

    in_virtual_time(run())
