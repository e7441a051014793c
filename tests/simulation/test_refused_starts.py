"""A synthesizer with a schedule that must not start leaves everything as it was: cuts cannot be taken back."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from itertools import count
from random import Random

from streamproc.service.workers import synthesize
from streamproc.study import Schedule
from streamproc.testing import BEGINNING, in_virtual_time
from tests.simulation.cluster import Cluster
from tests.simulation.deployment import STATE, WatchedMonitor
from tests.simulation.fault_plan import FaultRates, RandomFaultPlan
from tests.simulation.history import History
from tests.simulation.process import End, Machine
from tests.simulation.workload import draw_workload

EVERY_SECOND = Schedule(BEGINNING, timedelta(seconds=1))


CALM = FaultRates((), 1, (), 1)
SLOW = FaultRates(("slow",), 1, (), 1)
"""Nearly every call takes a while, so that what is done side by side is done in every order."""


async def begun(rates: FaultRates = CALM) -> tuple[Cluster, Machine]:
    """A cluster of a study with a roster, so that periods can be closed without reports."""
    workload = next(drawn for seed in count() if (drawn := draw_workload(Random(seed))).roster is not None)
    workload = replace(workload, study=replace(workload.study, schedule=EVERY_SECOND))
    cluster = Cluster(workload, RandomFaultPlan(Random(0), rates), Random(0), History(False))
    await cluster.begin()
    return cluster, cluster.machine("synthesizer")


async def start(cluster: Cluster, machine: Machine, *, catch_up: bool) -> End:
    process = cluster.process("synthesizer", machine)
    deployment = cluster.deployment(process)
    return await process.run(synthesize(deployment, process.log, WatchedMonitor(deployment), catch_up=catch_up))


def test_one_whose_disk_cannot_be_read_closes_no_period_however_overdue() -> None:
    async def run() -> None:
        cluster, machine = await begun(SLOW)
        machine.storage.unreadable.add(STATE / "synthesizer.state")
        await asyncio.sleep(10.0)
        end = await start(cluster, machine, catch_up=True)
        assert end.refusal is not None and "cannot read state" in end.refusal
        assert cluster.records.cuts() == []

    in_virtual_time(run())


def test_one_whose_first_cut_is_overdue_begins_no_study() -> None:
    async def run() -> None:
        cluster, machine = await begun()
        await asyncio.sleep(10.0)
        end = await start(cluster, machine, catch_up=False)
        assert end.refusal is not None and end.refusal.startswith("schedule: period 1 ended")
        assert cluster.records.ledger(committed=False) == []

    in_virtual_time(run())


def test_one_that_was_away_when_the_first_period_of_its_study_ended_closes_it_now() -> None:
    async def run() -> None:
        cluster, machine = await begun()
        first = asyncio.create_task(start(cluster, machine, catch_up=False))
        await asyncio.sleep(0.8)
        assert cluster.records.ledger() != []
        machine.power_cut()
        assert (await first).killed
        await asyncio.sleep(0.7)
        second = asyncio.create_task(start(cluster, machine, catch_up=False))
        await asyncio.sleep(0.1)
        assert len(cluster.records.cuts()) == 1
        machine.power_cut()
        await second

    in_virtual_time(run())
