"""The nemesis: injects faults at planned times, such as kills, power cuts, clock jumps, outages and replaced disks."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from random import Random
from typing import Literal, TypeAlias

from tests.simulation.cluster import Cluster
from tests.simulation.deployment import STATE
from tests.simulation.operator import Operator
from tests.simulation.process import EMPTY, Machine

Kind: TypeAlias = Literal[
    "kill",
    "power cut",
    "ignored sync",
    "pause",
    "broker away",
    "clock jumps forward",
    "clock jumps back",
    "second synthesizer",
    "cloned disk",
    "disk copied",
    "disk rolled back",
    "disk lost",
    "bit flip",
]

KINDS: tuple[Kind, ...] = (
    "kill", "power cut", "ignored sync", "pause", "broker away", "clock jumps forward", "clock jumps back",
    "second synthesizer", "cloned disk", "disk rolled back", "disk lost", "bit flip",
)  # fmt: skip

SPOILING: tuple[Kind, ...] = ("ignored sync", "disk rolled back", "disk lost", "bit flip")
"""Faults after which a state folder may differ from what its process wrote last."""


@dataclass(frozen=True)
class ScheduledFault:
    """A fault that is injected `at` virtual seconds after the start."""

    at: float
    kind: Kind
    on_gatherer: bool
    """Whether the target is a gatherer rather than the synthesizer, for kinds that can hit both."""
    seconds: float


def draw_schedule(random: Random, length: float) -> list[ScheduledFault]:
    """Draw a few faults of a few kinds, in order of time; a disk is copied some time before it is rolled back."""
    kinds = random.sample(KINDS, random.randint(1, 4))
    chosen = [random.choice(kinds) for _ in range(random.choice((0, 1, 2, 3, 5)))]
    schedule = [
        ScheduledFault(random.uniform(0.2, length), kind, random.random() < 0.4, random.uniform(0.3, 5.0)) for kind in chosen
    ]
    rollbacks = [fault for fault in schedule if fault.kind == "disk rolled back"]
    schedule += [replace(fault, at=fault.at * random.random(), kind="disk copied") for fault in rollbacks]
    return sorted(schedule, key=lambda fault: fault.at)


class Nemesis:
    """Injects the faults of a schedule."""

    def __init__(self, cluster: Cluster, operator: Operator, gatherers: Sequence[Machine]) -> None:
        self._cluster = cluster
        self._operator = operator
        self._gatherers = gatherers
        self._copies = {machine: machine.storage.image() for machine in (operator.machine, *gatherers)}
        self.seconds: list[tuple[Operator, asyncio.Task[None]]] = []
        """The operators of additional synthesizers, and their tasks."""

    async def run(self, schedule: Sequence[ScheduledFault]) -> None:
        """Inject each fault at its time."""
        for fault in schedule:
            await asyncio.sleep(max(fault.at - self._cluster.now, 0.0))
            machine = self._cluster.random.choice(self._gatherers) if fault.on_gatherer else self._operator.machine
            self._inject(fault, machine)

    def _inject(self, fault: ScheduledFault, machine: Machine) -> None:
        cluster, storage = self._cluster, machine.storage
        cluster.history.fault(fault.kind, machine.name)
        machine.spoilt |= fault.kind in SPOILING
        match fault.kind:
            case "kill":
                self._kill(machine)
            case "disk copied":
                self._copies = {each: each.storage.image() for each in self._copies}
                self._operator.spare.append(self._copies[self._operator.machine])
            case "disk rolled back":
                self._kill(machine)
                storage.put_back(self._copies[machine])
            case "power cut":
                machine.power_cut()
            case "ignored sync":
                storage.ignores_sync = True
                asyncio.get_running_loop().call_later(fault.seconds, self._cut_power_after_ignored_syncs, machine)
            case "pause":
                for process in machine.processes:
                    process.pause(fault.seconds)
            case "broker away":
                cluster.network.away_until = cluster.now + fault.seconds
            case "clock jumps forward":
                machine.clock.jump(timedelta(seconds=fault.seconds))
                cluster.furthest_ahead = max(cluster.furthest_ahead, machine.clock.ahead)
            case "clock jumps back":
                machine.clock.jump(-timedelta(seconds=fault.seconds))
            case "second synthesizer" | "cloned disk":
                self._start_second(fault.kind == "cloned disk")
            case "disk lost":
                self._kill(machine)
                storage.put_back(EMPTY)
            case "bit flip":
                self._kill(machine)
                names = [name for name in storage.files(STATE) if name.endswith((".state", ".settled"))]
                if names:
                    storage.flip_bit(STATE / cluster.random.choice(names))

    def _start_second(self, cloned: bool) -> None:
        cluster, image = self._cluster, self._operator.machine.storage.image()
        name = f"synthesizer-{len(self.seconds) + 2}"
        second = Operator(cluster, cluster.machine(name, image if cloned else None))
        second.machine.spoilt = self._operator.machine.spoilt = True
        self.seconds.append((second, asyncio.create_task(second.keep())))

    def _cut_power_after_ignored_syncs(self, machine: Machine) -> None:
        self._cluster.history.fault("power cut after ignored syncs", machine.name)
        machine.power_cut()
        machine.storage.ignores_sync = False

    def _kill(self, machine: Machine) -> None:
        for process in tuple(machine.processes):
            process.kill()


__all__ = ["KINDS", "Nemesis", "ScheduledFault", "draw_schedule"]
