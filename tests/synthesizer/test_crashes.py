"""A synthesizer that dies at any moment is started again: every column is there once, and no period was seen drawn twice."""

from __future__ import annotations

from functools import cache

import pytest

from streamproc.synthesizer.checkpoint import read_checkpoint
from streamproc.testing import in_virtual_time
from tests.stream_model.fault_points import FaultPoint
from tests.stream_model.simulated_study import FreshEntropy
from tests.synthesizer.study_runs import begin_study, run_until_crash, run_with_tallies

NAMED = {
    "before persist": "before folder.write synthesizer.state",
    "after persist": "after folder.write synthesizer.state",
    "before announce": "before send study.ledger",
    "inside the transaction": "after send study.synthetic.w",
    "before commit": "before commit",
    "after commit": "after commit",
    "before settle": "before folder.write synthesizer.settled",
    "after settle": "after folder.write synthesizer.settled",
}


@cache
def moments_of_a_study() -> list[FaultPoint]:
    async def uneventful() -> list[FaultPoint]:
        simulated = await begin_study()
        passed: list[FaultPoint] = []

        async def live() -> None:
            passed.extend(await run_until_crash(simulated, lambda number, point: False))

        await run_with_tallies(simulated, live())
        simulated.check_released()
        return passed

    return in_virtual_time(uneventful())


def test_the_moments_of_a_study_include_those_that_matter_most() -> None:
    assert set(NAMED.values()) <= {str(point) for point in moments_of_a_study()}


def test_after_a_crash_at_any_moment_every_column_is_there_once_and_drawn_once() -> None:
    async def die_and_live_again(fatal: int) -> None:
        simulated = await begin_study()

        async def two_lives() -> None:
            await run_until_crash(simulated, lambda number, point: number == fatal)
            await simulated.synthesizer(entropy=FreshEntropy(1000)).run()

        await run_with_tallies(simulated, two_lives())
        simulated.check_released()

    for number, point in enumerate(moments_of_a_study()):
        try:
            in_virtual_time(die_and_live_again(number))
        except Exception as problem:
            raise AssertionError(f"after a crash at fault point {number}, {point}") from problem


@pytest.mark.parametrize("lives", [2, 5])
@pytest.mark.parametrize("point", NAMED.values(), ids=NAMED)
def test_it_may_die_at_the_same_moment_again_and_again(point: str, lives: int) -> None:
    async def stubborn() -> None:
        simulated = await begin_study()

        async def live_and_die() -> None:
            for life in range(lives):
                await run_until_crash(simulated, lambda number, reached: str(reached) == point, run_number=life)
            await simulated.synthesizer(entropy=FreshEntropy(1000 * lives)).run()

        await run_with_tallies(simulated, live_and_die())
        simulated.check_released()

    in_virtual_time(stubborn())


@pytest.mark.parametrize("point", ["after folder.write synthesizer.state", "after send study.synthetic.w", "after commit"])
def test_what_was_drawn_before_the_crash_is_what_is_released_after_it(point: str) -> None:
    async def die_late() -> None:
        simulated = await begin_study()

        async def two_lives() -> None:
            await run_until_crash(
                simulated, lambda number, reached: str(reached) == point and bool(simulated.state_folder.files)
            )
            drawn = read_checkpoint(simulated.state_folder, simulated.fingerprint)
            assert drawn is not None
            await run_until_crash(
                simulated, lambda number, reached: str(reached) == "after folder.write synthesizer.settled", run_number=1
            )
            assert simulated.ledger().head == drawn.pending.digest

        await run_with_tallies(simulated, two_lives())

    in_virtual_time(die_late())
