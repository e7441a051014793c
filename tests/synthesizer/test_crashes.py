"""A synthesizer that dies at any moment is started again: every column is there once, and no period was seen drawn twice."""

from __future__ import annotations

from functools import cache

import pytest

from streamproc.synthesizer.checkpoint import read_checkpoint
from streamproc.testing import in_virtual_time
from tests.stream_model.fault_points import Moment
from tests.stream_model.simulated_study import FreshEntropy
from tests.synthesizer.runs import begun, doomed, fed

NAMED = {
    "before persist": "before disk.write synthesizer.state",
    "after persist": "after disk.write synthesizer.state",
    "before announce": "before send study.ledger",
    "inside the transaction": "after send study.synthetic.w",
    "before commit": "before commit",
    "after commit": "after commit",
    "before settle": "before disk.write synthesizer.settled",
    "after settle": "after disk.write synthesizer.settled",
}


@cache
def moments_of_a_study() -> list[Moment]:
    async def uneventful() -> list[Moment]:
        world = await begun()
        passed: list[Moment] = []

        async def live() -> None:
            passed.extend(await doomed(world, lambda number, moment: False))

        await fed(world, live())
        world.check_released()
        return passed

    return in_virtual_time(uneventful())


def test_the_moments_of_a_study_include_those_that_matter_most() -> None:
    assert set(NAMED.values()) <= {str(moment) for moment in moments_of_a_study()}


def test_after_a_crash_at_any_moment_every_column_is_there_once_and_drawn_once() -> None:
    async def die_and_live_again(fatal: int) -> None:
        world = await begun()

        async def two_lives() -> None:
            await doomed(world, lambda number, moment: number == fatal)
            await world.synthesizer(entropy=FreshEntropy(1000)).run()

        await fed(world, two_lives())
        world.check_released()

    for number, moment in enumerate(moments_of_a_study()):
        try:
            in_virtual_time(die_and_live_again(number))
        except Exception as problem:
            raise AssertionError(f"after a crash at moment {number}, {moment}") from problem


@pytest.mark.parametrize("lives", [2, 5])
@pytest.mark.parametrize("moment", NAMED.values(), ids=NAMED)
def test_it_may_die_at_the_same_moment_again_and_again(moment: str, lives: int) -> None:
    async def stubborn() -> None:
        world = await begun()

        async def live_and_die() -> None:
            for life in range(lives):
                await doomed(world, lambda number, reached: str(reached) == moment, life=life)
            await world.synthesizer(entropy=FreshEntropy(1000 * lives)).run()

        await fed(world, live_and_die())
        world.check_released()

    in_virtual_time(stubborn())


@pytest.mark.parametrize("moment", ["after disk.write synthesizer.state", "after send study.synthetic.w", "after commit"])
def test_what_was_drawn_before_the_crash_is_what_is_released_after_it(moment: str) -> None:
    async def die_late() -> None:
        world = await begun()

        async def two_lives() -> None:
            await doomed(world, lambda number, reached: str(reached) == moment and bool(world.disk.files))
            drawn = read_checkpoint(world.disk, world.fingerprint)
            assert drawn is not None
            await doomed(world, lambda number, reached: str(reached) == "after disk.write synthesizer.settled", life=1)
            assert world.ledger().head == drawn.pending.digest

        await fed(world, two_lives())

    in_virtual_time(die_late())
