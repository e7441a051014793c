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
from tests.stream_model.fault_points import FaultPoint, FaultPoints, failing
from tests.stream_model.simulated_study import RecordingObserver, SimulatedStudy
from tests.synthesizer.study_runs import HISTORIES, begin_study, run_with_tallies

PRODUCER = ("fence", "begin", "send", "commit")


async def troubled(faults: Faults | None) -> SimulatedStudy:
    simulated = await begin_study()
    await run_with_tallies(simulated, simulated.synthesizer(log=simulated.connection("synthesizer", faults)).run())
    return simulated


@cache
def without_trouble() -> tuple[list[FaultPoint], object]:
    async def run() -> tuple[list[FaultPoint], object]:
        fault_points = FaultPoints()
        simulated = await troubled(fault_points)
        return fault_points.passed, simulated.released_bytes()

    return in_virtual_time(run())


def check_same_bytes(error: Exception, applies: Callable[[FaultPoint], bool]) -> None:
    async def once(index: int) -> SimulatedStudy:
        return await troubled(failing(error, lambda number, point: number == index))

    fault_points, wanted = without_trouble()
    chosen = [(number, point) for number, point in enumerate(fault_points) if applies(point)]
    assert len(chosen) > 15
    for number, point in chosen:
        simulated = in_virtual_time(once(number))
        assert simulated.released_bytes() == wanted, f"{error} at fault point {number}, {point}"
        simulated.check_released()
        assert len(simulated.observer.fencings) + len(simulated.observer.troubles) == 1


def test_a_broker_that_is_away_at_any_call_changes_no_byte() -> None:
    check_same_bytes(LogUnavailable("away"), lambda point: point.when == "before")


def test_an_unknown_outcome_of_any_call_changes_no_byte() -> None:
    # Before or after a question is the same.
    check_same_bytes(OutcomeUnknown("no answer"), lambda point: point.when == "after" or point.changes)


def test_being_fenced_once_changes_no_byte() -> None:
    check_same_bytes(Fenced("timed out"), lambda point: point.call in PRODUCER)


@pytest.mark.parametrize("call", PRODUCER)
def test_fenced_three_times_in_one_period_it_gives_way(call: str) -> None:
    async def fight() -> None:
        simulated = await begin_study()
        faults = failing(Fenced("again"), lambda number, point: point.when == "before" and point.call == call)
        with pytest.raises(Refused, match="fenced 3 times in period 1") as refused:
            await simulated.synthesizer(log=simulated.connection("synthesizer", faults)).run()
        assert refused.value.exit_code == 3
        assert simulated.observer.fencings == [1, 1, 1]
        assert simulated.clock.now().timestamp() % 3600 >= 6

    in_virtual_time(fight())


def test_fenced_once_in_every_period_it_goes_on() -> None:
    async def quarrel() -> None:
        hit: set[int] = set()

        def first_commit_of_a_period(number: int, point: FaultPoint) -> bool:
            released = len(simulated.ledger().periods) if simulated.committed(simulated.topics.ledger) else -1
            if str(point) != "before commit" or released in hit:
                return False
            hit.add(released)
            return True

        simulated = await begin_study()
        log = simulated.connection("synthesizer", failing(Fenced("timed out"), first_commit_of_a_period))
        await run_with_tallies(simulated, simulated.synthesizer(log=log).run())
        simulated.check_released()
        # Before the study begins and in its first period it is period 1 that is next.
        assert simulated.observer.fencings == [1, 1, 2, 3]

    in_virtual_time(quarrel())


def test_a_broker_that_stays_away_is_asked_ever_more_rarely_and_after_it_was_there_often_again() -> None:
    async def outages() -> None:
        simulated = await begin_study()
        started = simulated.clock.now()

        def away(number: int, point: FaultPoint) -> bool:
            since = (simulated.clock.now() - started).total_seconds()
            return point.when == "before" and (since < 300 or 1000 < since < 1001)

        log = simulated.connection("synthesizer", failing(LogUnavailable("away"), away))
        synthesizer = simulated.synthesizer(log=log)

        async def late_tallies() -> None:
            await simulated.clock.sleep(1100)
            await simulated.feed(HISTORIES)

        await asyncio.gather(synthesizer.run(), late_tallies())
        simulated.check_released()
        pauses = [problem.split("again in ")[1].split(" s:")[0] for problem in simulated.observer.troubles]
        assert pauses == ["0.5", "1", "2", "4", "8", "16", *["30"] * 9, "0.5"]

    in_virtual_time(outages())


def test_what_the_broker_denies_is_not_tried_again() -> None:
    async def denied() -> None:
        simulated = await begin_study()
        faults = failing(NotAllowed("topic study.ledger: no"), lambda number, point: point.call == "fence")
        with pytest.raises(NotAllowed) as refused:
            await simulated.synthesizer(log=simulated.connection("synthesizer", faults)).run()
        assert refused.value.exit_code == 5

    in_virtual_time(denied())


def test_the_watermark_never_goes_back_though_the_topic_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    read = SimulatedReader.read

    async def one_by_one(reader: SimulatedReader, *, max_records: int = 1, timeout: float = 0.5) -> Sequence[Record]:
        return await read(reader, max_records=1, timeout=timeout)

    async def run() -> None:
        monkeypatch.setattr(SimulatedReader, "read", one_by_one)

        def second_period_is_out(number: int, point: FaultPoint) -> bool:
            out = str(point) == "after commit" and simulated.ledger().period == 2
            return out and not simulated.observer.troubles

        simulated = await begin_study()
        log = simulated.connection("synthesizer", failing(OutcomeUnknown("no answer"), second_period_is_out))
        await run_with_tallies(simulated, simulated.synthesizer(log=log).run())
        assert len(simulated.observer.troubles) == 1
        assert simulated.observer.watermarks == sorted(simulated.observer.watermarks)
        assert set(simulated.observer.watermarks) == {0, 1, 2, 3}

    in_virtual_time(run())


def test_nothing_is_shown_of_a_period_before_it_is_published() -> None:
    async def run() -> None:
        simulated = await begin_study()
        calls: list[tuple[str, int, int]] = []

        class Witness(RecordingObserver):
            def persisted(self, period: Period, size: int) -> None:
                calls.append(("persisted", period, simulated.ledger().period))

            def released(self, period: Period, synthesis: Synthesis, steps: Mapping[str, Step] | None) -> None:
                calls.append(("released", period, simulated.ledger().period))

        simulated.observer = Witness()
        await run_with_tallies(simulated, simulated.synthesizer().run())
        assert calls == [(what, period, period) for period in (1, 2, 3) for what in ("persisted", "released")]

    in_virtual_time(run())
