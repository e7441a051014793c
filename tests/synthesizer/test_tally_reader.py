"""The synthesizer's reader: tallies of all partitions, however often they were sent, and nothing that does not add up."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import numpy as np
import pytest

from streamproc.errors import Refused
from streamproc.log.port import TopicSettings
from streamproc.privacy.types import Period
from streamproc.protocol.tallies import Tally
from streamproc.study import CumulativeRelease, WindowRelease
from streamproc.synthesizer.tally_reader import TallyReader
from streamproc.testing import in_virtual_time
from tests.stream_model.simulated_study import SimulatedStudy
from tests.studies import build_study
from tests.synthesizer.study_runs import HISTORIES, begin_study

STUDY = build_study(
    WindowRelease("w", 2),
    CumulativeRelease("c", ("1",), weights="rule"),
    WindowRelease("paper-w", 2, measure="paper"),
    CumulativeRelease("paper-c", ("1",), measure="paper"),
    partitions=2,
)
"""Three periods; the windows of the paper begin in the second."""


def tally(partition: int, period: int, *, people: int = 4, **counts: list[int]) -> Tally:
    """A tally of people without events, but for the `counts` of releases, with `_` for `-` in their names."""
    quiet = {
        "w": [people, 0, 0, 0],
        "c": no_event(people),
        "paper-w": [0 if period == 1 else people, 0, 0, 0],
        "paper-c": [0, 0, 0],
    }
    return of(partition, period, people, quiet | {name.replace("_", "-"): given for name, given in counts.items()})


def no_event(people: int) -> list[int]:
    """The transitions of people who have had no event: "none" and "one more" from each of the states 0 to 3."""
    return [people, 0, 0, 0, 0, 0, 0, 0]


def first_event(people: int, events: int) -> list[int]:
    """The same if some of them have their first event now."""
    return [people - events, events, 0, 0, 0, 0, 0, 0]


def of(partition: int, period: int, people: int, counts: Mapping[str, list[int]]) -> Tally:
    arrays = {name: np.array(numbers, dtype=np.int64) for name, numbers in counts.items()}
    return Tally(partition, Period(period), people, arrays)


async def inbox_with(*tallies: Tally) -> TallyReader:
    simulated = await SimulatedStudy(STUDY).begin()
    for each in tallies:
        await simulated.send_tally(each)
    reader = await TallyReader.open(simulated.log, STUDY)
    await reader.poll(timeout=0)
    assert reader.topic == simulated.topics.tallies
    assert reader.position == await simulated.log.high_watermark(reader.topic, 0)
    return reader


def test_a_period_is_complete_when_every_partition_has_tallied_it() -> None:
    async def run() -> None:
        reader = await inbox_with(
            tally(0, 1, w=[3, 1, 0, 0], c=first_event(4, 1), paper_c=[1, 0, 0]),
            tally(1, 1, people=5, w=[3, 2, 0, 0], c=first_event(5, 2), paper_c=[2, 0, 0]),
            tally(0, 2),
        )
        whole = reader.complete(Period(1))
        assert whole is not None
        assert (whole.period, whole.people) == (1, 9)
        assert {name: counts.tolist() for name, counts in whole.counts.items()} == {
            "w": [6, 3, 0, 0],
            "c": [6, 3, 0, 0, 0, 0, 0, 0],
            "paper-w": [0, 0, 0, 0],
            "paper-c": [3, 0, 0],
        }
        assert reader.complete(Period(2)) is None
        assert reader.watermark == 1
        await reader.close()

    in_virtual_time(run())


def test_before_anybody_has_tallied_the_watermark_is_0() -> None:
    async def run() -> None:
        reader = await inbox_with()
        assert (reader.watermark, reader.complete(Period(1))) == (0, None)

    in_virtual_time(run())


def test_a_tally_sent_twice_counts_once() -> None:
    async def run() -> None:
        reader = await inbox_with(tally(0, 1), tally(0, 1), tally(1, 1), tally(0, 1))
        whole = reader.complete(Period(1))
        assert whole is not None and whole.people == 8
        assert reader.watermark == 1

    in_virtual_time(run())


def test_what_is_forgotten_takes_no_room_but_is_still_part_of_the_watermark() -> None:
    async def run() -> None:
        reader = await inbox_with(*[tally(partition, period) for period in (1, 2, 3) for partition in (0, 1)])
        reader.forget(Period(2))
        assert [reader.complete(Period(period)) is None for period in (1, 2, 3)] == [True, True, False]
        assert reader.watermark == 3
        assert list(reader._waiting) == [3]

    in_virtual_time(run())


def test_what_was_forgotten_before_it_came_is_not_kept_either() -> None:
    async def run() -> None:
        simulated = await SimulatedStudy(STUDY).begin()
        reader = await TallyReader.open(simulated.log, STUDY)
        reader.forget(Period(1))
        for partition in (0, 1):
            await simulated.send_tally(tally(partition, 1))
        await reader.poll(timeout=0)
        assert (reader.watermark, list(reader._waiting)) == (1, [])
        await simulated.send_tally(tally(0, 1, c=first_event(4, 4)))
        with pytest.raises(Refused, match="two different tallies"):
            await reader.poll(timeout=0)

    in_virtual_time(run())


REFUSED: dict[str, tuple[str, list[Tally]]] = {
    "two different tallies": ("two different tallies", [tally(0, 2), tally(0, 2, w=[3, 1, 0, 0])]),
    "a partition too many": ("a tally of partition 2, but the study has 2", [tally(2, 1)]),
    "other people": ("partition 0, period 2: its number of people changed", [tally(0, 1), tally(0, 2, people=5)]),
    "a period too many": ("partition 1, period 4: tally does not match the study", [tally(1, 4)]),
    "a release missing": ("partition 0, period 1: tally does not match", [of(0, 1, 4, {"w": [4, 0, 0, 0]})]),
    "somebody in no window": ("partition 0, period 2: tally does not match", [tally(0, 2, w=[3, 0, 0, 0])]),
    "a full window too early": ("partition 1, period 1: tally does not match", [tally(1, 1, w=[3, 0, 1, 0])]),
    "too few windows": ("partition 1, period 2: tally does not match", [tally(1, 2, w=[4, 0])]),
    "somebody on no transition": ("partition 0, period 3: tally does not match", [tally(0, 3, c=no_event(3))]),
    "somebody on two transitions": ("partition 0, period 3: tally does not match", [tally(0, 3, c=first_event(5, 1))]),
    "a second event too early": ("partition 0, period 1: tally does not match", [tally(0, 1, c=[3, 0, 0, 1, 0, 0, 0, 0])]),
    "too many transitions": ("partition 1, period 3: tally does not match", [tally(1, 3, c=[*no_event(4), 0])]),
    "paper: somebody in no window": ("partition 0, period 2: tally does not match", [tally(0, 2, paper_w=[3, 0, 0, 0])]),
    "paper: a window too early": ("partition 1, period 1: tally does not match", [tally(1, 1, paper_w=[4, 0, 0, 0])]),
    "paper: too few windows": ("partition 1, period 2: tally does not match", [tally(1, 2, paper_w=[4, 0])]),
    "paper: more events than people": ("partition 0, period 3: tally does not match", [tally(0, 3, paper_c=[3, 2, 0])]),
    "paper: too many streams": ("partition 1, period 3: tally does not match", [tally(1, 3, paper_c=[0, 0, 0, 0])]),
}


@pytest.mark.parametrize("case", REFUSED)
def test_tallies_that_do_not_add_up_stop_the_study(case: str) -> None:
    reason, tallies = REFUSED[case]

    async def run() -> None:
        with pytest.raises(Refused, match=reason) as refused:
            await inbox_with(*tallies)
        assert "\n" not in str(refused.value)

    in_virtual_time(run())


def test_a_record_that_is_no_tally_stops_the_study() -> None:
    async def run() -> None:
        simulated = await SimulatedStudy(STUDY).begin()
        await simulated.log.append(simulated.topics.tallies, 0, b"?")
        reader = await TallyReader.open(simulated.log, STUDY)
        with pytest.raises(Refused, match="tallies offset 0: no tally"):
            await reader.poll(timeout=0)

    in_virtual_time(run())


def test_tallies_whose_first_are_gone_are_refused() -> None:
    async def run() -> None:
        simulated = await SimulatedStudy(STUDY).begin()
        await simulated.send_tally(tally(0, 1))
        simulated.broker.partition(simulated.topics.tallies, 0).trim(1)
        with pytest.raises(Refused, match="its first records are gone"):
            await TallyReader.open(simulated.log, STUDY)

    in_virtual_time(run())


def test_conflicting_tallies_stop_a_running_synthesizer_which_releases_nothing_more() -> None:
    async def run() -> None:
        simulated = await begin_study()
        running = asyncio.create_task(simulated.synthesizer().run())
        await simulated.clock.sleep(1)
        await simulated.send_tally(of(0, 1, 10, {"w": [9, 1, 0, 0], "c": first_event(10, 1)}))
        await simulated.send_tally(of(0, 1, 10, {"w": [8, 2, 0, 0], "c": first_event(10, 2)}))
        with pytest.raises(Refused, match="partition 0, period 1: two different tallies"):
            await running
        assert simulated.ledger().period == 0

    in_virtual_time(run())


def test_tallies_of_another_number_of_people_than_the_study_has_are_refused() -> None:
    """Simulates a tallies topic that was recreated: its earlier records are gone."""

    async def run() -> None:
        simulated = await begin_study()
        running = asyncio.create_task(simulated.synthesizer().run())
        await simulated.clock.sleep(1)
        for partition in (0, 1):
            await simulated.send_tally(of(partition, 1, 10, {"w": [9, 1, 0, 0], "c": first_event(10, 1)}))
        await simulated.clock.sleep(1)
        running.cancel()
        assert simulated.ledger().period == 1
        simulated.broker.delete(simulated.topics.tallies)
        simulated.broker.create(simulated.topics.tallies, TopicSettings(1))
        for partition in (0, 1):
            await simulated.send_tally(of(partition, 2, 11, {"w": [11, 0, 0, 0], "c": first_event(11, 1)}))
        with pytest.raises(Refused, match="period 2: its tallies are of another number of people"):
            await simulated.synthesizer().run()
        assert simulated.ledger().period == 1

    in_virtual_time(run())


def test_a_recreated_tallies_topic_is_refused() -> None:
    async def run() -> None:
        simulated = await begin_study()
        running = asyncio.create_task(simulated.synthesizer().run())
        await simulated.clock.sleep(1)
        simulated.broker.delete(simulated.topics.tallies)
        simulated.broker.create(simulated.topics.tallies, TopicSettings(1))
        with pytest.raises(Refused, match="study.tallies: the log begins later or ends earlier than it must"):
            await running

    in_virtual_time(run())


def test_a_study_in_which_nobody_reported_cannot_go_on() -> None:
    async def run() -> None:
        simulated = await begin_study()
        running = asyncio.create_task(simulated.synthesizer().run())
        await simulated.clock.sleep(1)
        for partition in (0, 1):
            await simulated.send_tally(of(partition, 1, 0, {"w": [0] * 4, "c": no_event(0)}))
        with pytest.raises(Refused, match="nobody reported in period 1"):
            await running
        assert not simulated.state_folder.files

    in_virtual_time(run())


def test_what_was_released_is_not_kept_by_a_synthesizer() -> None:
    async def run() -> None:
        simulated = await begin_study()
        kept: list[list[int]] = []
        forget = TallyReader.forget

        def watched(reader: TallyReader, through: Period) -> None:
            forget(reader, through)
            kept.append(sorted(reader._waiting))

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(TallyReader, "forget", watched)
            await asyncio.gather(simulated.feed(HISTORIES), simulated.synthesizer().run())
        assert kept == [[], [2, 3], [3]]

    in_virtual_time(run())
