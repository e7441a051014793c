"""A synthesizer with a schedule that must not start leaves everything as it was: cuts cannot be taken back."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from random import Random

from streamproc.service.workers import synthesize
from streamproc.study import Schedule
from streamproc.testing import BEGINNING, in_virtual_time
from tests.simulation.deployed import STATE, WatchedHealth
from tests.simulation.journal import Journal
from tests.simulation.process import End, Machine
from tests.simulation.scene import scene_of
from tests.simulation.weather import Climate, RandomWeather
from tests.simulation.world import World

EVERY_SECOND = Schedule(BEGINNING, timedelta(seconds=1))


CALM = Climate((), 1, (), 1)
SLOW = Climate(("slow",), 1, (), 1)
"""Nearly every call takes a while, so that what is done side by side is done in every order."""


async def begun(climate: Climate = CALM) -> tuple[World, Machine]:
    scene = scene_of(Random(1))
    scene = replace(scene, study=replace(scene.study, schedule=EVERY_SECOND))
    world = World(scene, RandomWeather(Random(0), climate), Random(0), Journal(False))
    await world.begin()
    return world, world.machine("synthesizer")


async def start(world: World, machine: Machine, *, catch_up: bool) -> End:
    process = world.process("synthesizer", machine)
    deployment = world.deployment(process)
    return await process.run(synthesize(deployment, process.log, WatchedHealth(deployment), catch_up=catch_up))


def test_one_whose_disk_cannot_be_read_closes_no_period_however_overdue() -> None:
    async def run() -> None:
        world, machine = await begun(SLOW)
        machine.storage.unreadable.add(STATE / "synthesizer.state")
        await asyncio.sleep(10.0)
        end = await start(world, machine, catch_up=True)
        assert end.refusal is not None and "cannot be read" in end.refusal
        assert world.records.cuts() == []

    in_virtual_time(run())


def test_one_whose_first_cut_is_overdue_begins_no_study() -> None:
    async def run() -> None:
        world, machine = await begun()
        await asyncio.sleep(10.0)
        end = await start(world, machine, catch_up=False)
        assert end.refusal is not None and end.refusal.startswith("schedule: period 1 ended")
        assert world.records.ledger(committed=False) == []

    in_virtual_time(run())


def test_one_that_was_away_when_the_first_period_of_its_study_ended_closes_it_now() -> None:
    async def run() -> None:
        world, machine = await begun()
        first = asyncio.create_task(start(world, machine, catch_up=False))
        await asyncio.sleep(0.8)
        assert world.records.ledger() != []
        machine.power_cut()
        assert (await first).killed
        await asyncio.sleep(0.7)
        second = asyncio.create_task(start(world, machine, catch_up=False))
        await asyncio.sleep(0.1)
        assert len(world.records.cuts()) == 1
        machine.power_cut()
        await second

    in_virtual_time(run())
