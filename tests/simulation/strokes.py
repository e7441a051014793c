"""What strikes by the hour: kills, power cuts, clocks that jump, brokers that are away, disks that are swapped."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from random import Random
from typing import Literal, TypeAlias

from tests.simulation.deployed import STATE
from tests.simulation.operator import Operator
from tests.simulation.process import EMPTY, Machine
from tests.simulation.world import World

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
"""Those after which a state folder may not be what its role wrote last."""


@dataclass(frozen=True)
class Stroke:
    """One of them, at a time."""

    at: float
    kind: Kind
    on_gatherer: bool
    """Whether it strikes a gatherer rather than the synthesizer, where both can be struck."""
    seconds: float


def strokes_of(random: Random, length: float) -> list[Stroke]:
    """A few, of a few kinds; a disk that is rolled back was copied before."""
    kinds = random.sample(KINDS, random.randint(1, 4))
    chosen = [random.choice(kinds) for _ in range(random.choice((0, 1, 2, 3, 5)))]
    strokes = [Stroke(random.uniform(0.2, length), kind, random.random() < 0.4, random.uniform(0.3, 5.0)) for kind in chosen]
    rolled = [stroke for stroke in strokes if stroke.kind == "disk rolled back"]
    strokes += [replace(stroke, at=stroke.at * random.random(), kind="disk copied") for stroke in rolled]
    return sorted(strokes, key=lambda stroke: stroke.at)


class Fate:
    """Carries the strokes out."""

    def __init__(self, world: World, operator: Operator, crews: Sequence[Machine]) -> None:
        self._world = world
        self._operator = operator
        self._crews = crews
        self._copies = {machine: machine.storage.image() for machine in (operator.machine, *crews)}
        self.seconds: list[tuple[Operator, asyncio.Task[None]]] = []
        """Further synthesizers, each with its operator."""

    async def run(self, strokes: Sequence[Stroke]) -> None:
        """All of them, each in time."""
        for stroke in strokes:
            await asyncio.sleep(max(stroke.at - self._world.now, 0.0))
            machine = self._world.random.choice(self._crews) if stroke.on_gatherer else self._operator.machine
            self._strike(stroke, machine)

    def _strike(self, stroke: Stroke, machine: Machine) -> None:
        world, storage = self._world, machine.storage
        world.journal.fault(stroke.kind, machine.name)
        machine.spoilt |= stroke.kind in SPOILING
        match stroke.kind:
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
                asyncio.get_running_loop().call_later(stroke.seconds, self._cut_after_lies, machine)
            case "pause":
                for process in machine.processes:
                    process.pause(stroke.seconds)
            case "broker away":
                world.network.away_until = world.now + stroke.seconds
            case "clock jumps forward":
                machine.clock.jump(timedelta(seconds=stroke.seconds))
                world.furthest_ahead = max(world.furthest_ahead, machine.clock.ahead)
            case "clock jumps back":
                machine.clock.jump(-timedelta(seconds=stroke.seconds))
            case "second synthesizer" | "cloned disk":
                self._second(stroke.kind == "cloned disk")
            case "disk lost":
                self._kill(machine)
                storage.put_back(EMPTY)
            case "bit flip":
                self._kill(machine)
                names = [name for name in storage.files(STATE) if name.endswith((".state", ".settled"))]
                if names:
                    storage.flip_bit(STATE / world.random.choice(names))

    def _second(self, cloned: bool) -> None:
        world, image = self._world, self._operator.machine.storage.image()
        name = f"synthesizer-{len(self.seconds) + 2}"
        second = Operator(world, world.machine(name, image if cloned else None))
        second.machine.spoilt = self._operator.machine.spoilt = True
        self.seconds.append((second, asyncio.create_task(second.keep())))

    def _cut_after_lies(self, machine: Machine) -> None:
        self._world.journal.fault("power cut after ignored syncs", machine.name)
        machine.power_cut()
        machine.storage.ignores_sync = False

    def _kill(self, machine: Machine) -> None:
        for process in tuple(machine.processes):
            process.kill()


__all__ = ["KINDS", "Fate", "Stroke", "strokes_of"]
