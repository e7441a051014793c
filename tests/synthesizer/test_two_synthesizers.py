"""Two synthesizers at once, with disks of their own or copies of one: however they meet, one draw of a period leaves."""

from __future__ import annotations

import asyncio

import pytest

from streamproc.errors import Refused
from streamproc.testing import in_virtual_time
from tests.stream_model.fault_points import SlowNetwork
from tests.stream_model.memory_folder import MemoryStateFolder
from tests.stream_model.simulated_study import FreshEntropy, SimulatedStudy
from tests.synthesizer.study_runs import begin_study, run_until_crash, run_with_tallies


async def ends_well(
    simulated: SimulatedStudy, state_folder: MemoryStateFolder, first: int, network: SlowNetwork | None = None
) -> bool:
    """Whether a synthesizer with this disk and draws of its own gets to the end."""
    log = simulated.connection(f"synthesizer {first}", network)
    try:
        await simulated.synthesizer(state_folder=state_folder, entropy=FreshEntropy(first), log=log).run()
    except Refused:
        return False
    return True


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("shared_past", [False, True], ids=["two new disks", "a disk and its copy"])
def test_only_one_draw_of_a_period_ever_leaves(seed: int, shared_past: bool) -> None:
    async def together() -> None:
        simulated = await begin_study()

        async def compete() -> None:
            if shared_past:
                await run_until_crash(
                    simulated, lambda number, point: str(point) == "after folder.write synthesizer.settled"
                )
            one, other = simulated.state_folder, simulated.state_folder.copy()
            await asyncio.gather(
                ends_well(simulated, one, 1000, SlowNetwork(seed)),
                ends_well(simulated, other, 2000, SlowNetwork(seed + 100)),
            )
            assert [place for place, versions in simulated.visible_draws().items() if len(versions) > 1] == []
            # The synthesizer that remains, with the state folder whose draws were announced, finishes the study.
            assert await ends_well(simulated, one, 3000) or await ends_well(simulated, other, 4000)

        await run_with_tallies(simulated, compete())
        simulated.check_released()

    in_virtual_time(together())


def test_a_zombie_that_wakes_up_after_its_successor_published_is_refused() -> None:
    async def wake_up() -> None:
        simulated = await begin_study()

        async def succeed() -> None:
            asleep = asyncio.Event()

            class Paused(SlowNetwork):
                async def before(self, connection: str, call: str, topic: str | None) -> None:
                    if call == "send" and topic == simulated.topics.synthetic("c"):
                        asleep.set()
                        await asyncio.sleep(3600)

                async def after(self, connection: str, call: str, topic: str | None) -> None:
                    pass

            zombie = asyncio.create_task(ends_well(simulated, simulated.state_folder, 1000, Paused(0)))
            await asleep.wait()
            successor = simulated.state_folder.copy()
            assert await ends_well(simulated, successor, 2000)
            released = simulated.released_bytes()
            assert not await zombie
            assert simulated.released_bytes() == released

        await run_with_tallies(simulated, succeed())
        simulated.check_released()

    in_virtual_time(wake_up())
