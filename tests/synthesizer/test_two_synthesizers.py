"""Two synthesizers at once, with disks of their own or copies of one: however they meet, one draw of a period leaves."""

from __future__ import annotations

import asyncio

import pytest

from streamproc.errors import Refused
from streamproc.testing import in_virtual_time
from tests.stream_model.fault_points import SlowNetwork
from tests.stream_model.memory_folder import MemoryDisk
from tests.stream_model.simulated_study import FreshEntropy, StudyWorld
from tests.synthesizer.runs import begun, doomed, fed


async def ends_well(world: StudyWorld, disk: MemoryDisk, first: int, network: SlowNetwork | None = None) -> bool:
    """Whether a synthesizer with this disk and draws of its own gets to the end."""
    log = world.connection(f"synthesizer {first}", network)
    try:
        await world.synthesizer(disk=disk, entropy=FreshEntropy(first), log=log).run()
    except Refused:
        return False
    return True


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("shared_past", [False, True], ids=["two new disks", "a disk and its copy"])
def test_only_one_draw_of_a_period_ever_leaves(seed: int, shared_past: bool) -> None:
    async def together() -> None:
        world = await begun()

        async def compete() -> None:
            if shared_past:
                await doomed(world, lambda number, moment: str(moment) == "after disk.write synthesizer.settled")
            one, other = world.disk, world.disk.copy()
            await asyncio.gather(
                ends_well(world, one, 1000, SlowNetwork(seed)), ends_well(world, other, 2000, SlowNetwork(seed + 100))
            )
            assert [place for place, versions in world.visible_draws().items() if len(versions) > 1] == []
            # Whoever is left alone with the disk whose draws were announced finishes the study.
            assert await ends_well(world, one, 3000) or await ends_well(world, other, 4000)

        await fed(world, compete())
        world.check_released()

    in_virtual_time(together())


def test_a_zombie_that_wakes_up_after_its_successor_published_is_refused() -> None:
    async def wake_up() -> None:
        world = await begun()

        async def succeed() -> None:
            asleep = asyncio.Event()

            class Paused(SlowNetwork):
                async def before(self, connection: str, call: str, topic: str | None) -> None:
                    if call == "send" and topic == world.topics.synthetic("c"):
                        asleep.set()
                        await asyncio.sleep(3600)

                async def after(self, connection: str, call: str, topic: str | None) -> None:
                    pass

            zombie = asyncio.create_task(ends_well(world, world.disk, 1000, Paused(0)))
            await asleep.wait()
            successor = world.disk.copy()
            assert await ends_well(world, successor, 2000)
            released = world.released_bytes()
            assert not await zombie
            assert world.released_bytes() == released

        await fed(world, succeed())
        world.check_released()

    in_virtual_time(wake_up())
