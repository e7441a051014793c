"""Whatever a broker answers, the synthesizer looks again and releases the same bytes as without any trouble."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import cache

import pytest

from streamproc.errors import Fenced, LogUnavailable, NotAllowed, OutcomeUnknown, Refused
from streamproc.log.port import Record
from streamproc.privacy.types import Period
from streamproc.releases.step import Step
from streamproc.releases.synthesis import Synthesis
from streamproc.testing import Faults, in_virtual_time
from streamproc.testing.simulated_log import SimulatedReader
from tests.stream_model.fault_points import Moment, Moments, failing
from tests.stream_model.simulated_study import Diary, StudyWorld
from tests.synthesizer.runs import HISTORIES, begun, fed

TRANSACTOR = ("fence", "begin", "send", "commit")


async def troubled(faults: Faults | None) -> StudyWorld:
    world = await begun()
    await fed(world, world.synthesizer(log=world.connection("synthesizer", faults)).run())
    return world


@cache
def without_trouble() -> tuple[list[Moment], object]:
    async def run() -> tuple[list[Moment], object]:
        moments = Moments()
        world = await troubled(moments)
        return moments.passed, world.released_bytes()

    return in_virtual_time(run())


def check_same_bytes(error: Exception, applies: Callable[[Moment], bool]) -> None:
    async def once(place: int) -> StudyWorld:
        return await troubled(failing(error, lambda number, moment: number == place))

    moments, wanted = without_trouble()
    chosen = [(number, moment) for number, moment in enumerate(moments) if applies(moment)]
    assert len(chosen) > 15
    for number, moment in chosen:
        world = in_virtual_time(once(number))
        assert world.released_bytes() == wanted, f"{error} at moment {number}, {moment}"
        world.check_released()
        assert len(world.diary.fencings) + len(world.diary.troubles) == 1


def test_a_broker_that_is_away_at_any_call_changes_no_byte() -> None:
    check_same_bytes(LogUnavailable("away"), lambda moment: moment.when == "before")


def test_an_unknown_outcome_of_any_call_changes_no_byte() -> None:
    # Before or after a question is the same.
    check_same_bytes(OutcomeUnknown("no answer"), lambda moment: moment.when == "after" or moment.changes)


def test_being_fenced_once_changes_no_byte() -> None:
    check_same_bytes(Fenced("timed out"), lambda moment: moment.call in TRANSACTOR)


@pytest.mark.parametrize("call", TRANSACTOR)
def test_fenced_three_times_in_one_period_it_gives_way(call: str) -> None:
    async def fight() -> None:
        world = await begun()
        faults = failing(Fenced("again"), lambda number, moment: moment.when == "before" and moment.call == call)
        with pytest.raises(Refused, match="fenced 3 times in period 1") as refused:
            await world.synthesizer(log=world.connection("synthesizer", faults)).run()
        assert refused.value.exit_code == 3
        assert world.diary.fencings == [1, 1, 1]
        assert world.clock.now().timestamp() % 3600 >= 6

    in_virtual_time(fight())


def test_fenced_once_in_every_period_it_goes_on() -> None:
    async def quarrel() -> None:
        hit: set[int] = set()

        def first_commit_of_a_period(number: int, moment: Moment) -> bool:
            released = len(world.ledger().periods) if world.committed(world.topics.ledger) else -1
            if str(moment) != "before commit" or released in hit:
                return False
            hit.add(released)
            return True

        world = await begun()
        log = world.connection("synthesizer", failing(Fenced("timed out"), first_commit_of_a_period))
        await fed(world, world.synthesizer(log=log).run())
        world.check_released()
        # Before the study begins and in its first period it is period 1 that is next.
        assert world.diary.fencings == [1, 1, 2, 3]

    in_virtual_time(quarrel())


def test_a_broker_that_stays_away_is_asked_ever_more_rarely_and_after_it_was_there_often_again() -> None:
    async def outages() -> None:
        world = await begun()
        started = world.clock.now()

        def away(number: int, moment: Moment) -> bool:
            since = (world.clock.now() - started).total_seconds()
            return moment.when == "before" and (since < 300 or 1000 < since < 1001)

        log = world.connection("synthesizer", failing(LogUnavailable("away"), away))
        synthesizer = world.synthesizer(log=log)

        async def late_tallies() -> None:
            await world.clock.sleep(1100)
            await world.feed(HISTORIES)

        await asyncio.gather(synthesizer.run(), late_tallies())
        world.check_released()
        pauses = [problem.split("again in ")[1].split(" s:")[0] for problem in world.diary.troubles]
        assert pauses == ["0.5", "1", "2", "4", "8", "16", *["30"] * 9, "0.5"]

    in_virtual_time(outages())


def test_what_the_broker_denies_is_not_tried_again() -> None:
    async def denied() -> None:
        world = await begun()
        faults = failing(NotAllowed("topic study.ledger: no"), lambda number, moment: moment.call == "fence")
        with pytest.raises(NotAllowed) as refused:
            await world.synthesizer(log=world.connection("synthesizer", faults)).run()
        assert refused.value.exit_code == 5

    in_virtual_time(denied())


def test_the_watermark_never_goes_back_though_the_topic_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    read = SimulatedReader.read

    async def one_by_one(reader: SimulatedReader, *, max_records: int = 1, timeout: float = 0.5) -> Sequence[Record]:
        return await read(reader, max_records=1, timeout=timeout)

    async def run() -> None:
        monkeypatch.setattr(SimulatedReader, "read", one_by_one)

        def second_period_is_out(number: int, moment: Moment) -> bool:
            out = str(moment) == "after commit" and world.ledger().period == 2
            return out and not world.diary.troubles

        world = await begun()
        log = world.connection("synthesizer", failing(OutcomeUnknown("no answer"), second_period_is_out))
        await fed(world, world.synthesizer(log=log).run())
        assert len(world.diary.troubles) == 1
        assert world.diary.watermarks == sorted(world.diary.watermarks)
        assert set(world.diary.watermarks) == {0, 1, 2, 3}

    in_virtual_time(run())


def test_nothing_is_shown_of_a_period_before_it_is_published() -> None:
    async def run() -> None:
        world = await begun()
        told: list[tuple[str, int, int]] = []

        class Witness(Diary):
            def persisted(self, period: Period, size: int) -> None:
                told.append(("persisted", period, world.ledger().period))

            def released(self, period: Period, synthesis: Synthesis, steps: Mapping[str, Step] | None) -> None:
                told.append(("released", period, world.ledger().period))

        world.diary = Witness()
        await fed(world, world.synthesizer().run())
        assert told == [(what, period, period) for period in (1, 2, 3) for what in ("persisted", "released")]

    in_virtual_time(run())
