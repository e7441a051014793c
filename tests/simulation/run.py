"""One run of the whole system. `run_seed(seed)` is the way in; `run(scene, weather, ...)` takes anybody's faults."""

from __future__ import annotations

import asyncio
import io
import logging
import random as module_random
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from random import Random

from streamproc.testing import in_virtual_time
from tests.simulation.cast import keep_client, keep_gatherer, keep_steward, keep_subscriber
from tests.simulation.invariants import check_everything
from tests.simulation.journal import Journal, Violation
from tests.simulation.operator import Operator
from tests.simulation.scene import Scene, scene_of
from tests.simulation.sights import Sights
from tests.simulation.strokes import Fate, Stroke, strokes_of
from tests.simulation.weather import RandomWeather, Weather, climate_of
from tests.simulation.world import World

PATIENCE = 400.0
"""Virtual seconds after the last fault within which every closed period must be released."""

SUBSCRIBERS = 2
"""One from the beginning, each other later."""


@dataclass(frozen=True)
class Outcome:
    """What came of a run."""

    faults: Counter[str]
    """How often each kind of fault struck."""
    violations: Sequence[Violation]
    trace: Sequence[str]
    """A line for every call and fault, if it was asked for."""


def run_seed(seed: int, *, trace: bool = False) -> Outcome:
    """The run that this seed decides, with every fault it decides; two runs of one seed are the same."""
    random = Random(seed)
    scene = scene_of(random)
    weather = RandomWeather(Random(random.getrandbits(64)), climate_of(random))
    strokes = strokes_of(random, scene.length)
    return run(scene, weather, strokes, random=random, trace=trace)


def run(
    scene: Scene, weather: Weather, strokes: Sequence[Stroke] = (), *, random: Random | None = None, trace: bool = False
) -> Outcome:
    """A run of this scene under this weather. `random` decides what the operator and the file systems leave open."""
    journal = Journal(trace)
    chances = random or Random(0)
    with listening(journal), redirect_stderr(_Pen(journal)), seeded_random(chances.getrandbits(32)):
        try:
            in_virtual_time(_play(scene, weather, strokes, chances, journal), at_most=3600.0)
        except Exception as error:
            journal.violations.append(Violation(9, f"the run came to no end: {error!r}"))
            failure = traceback.format_exc().splitlines() if trace else []
            return Outcome(journal.faults, journal.violations, [*journal.trace(), *failure])
    return Outcome(journal.faults, journal.violations, list(journal.trace()))


async def _play(scene: Scene, weather: Weather, strokes: Sequence[Stroke], random: Random, journal: Journal) -> None:
    world = World(scene, weather, random, journal)
    await world.begin()
    sights = Sights(journal)
    operator = Operator(world, world.machine("synthesizer"))
    crews = [world.machine(f"gatherer-{number}") for number in range(len(scene.crews))]
    fate = Fate(world, operator, crews)
    stewards = 0 if scene.study.schedule else random.choice((1, 1, 2))
    saying = [keep_client(world, number, words) for number, words in enumerate(scene.clients)]
    closing = [keep_steward(world, number) for number in range(stewards)]
    keeping = [keep_gatherer(world, number, pinned, crews[number]) for number, pinned in enumerate(scene.crews)]
    begins = [scene.length * number / SUBSCRIBERS for number in range(SUBSCRIBERS)]
    watching = [keep_subscriber(world, number, sights, begins=at) for number, at in enumerate(begins)]
    storm = [asyncio.create_task(each) for each in (*saying, *closing, fate.run(strokes))]
    tasks = [asyncio.create_task(each) for each in (operator.keep(), *keeping, *watching)]
    try:
        await asyncio.sleep(scene.length)
        world.calm_down()
        for second, task in fate.seconds:
            await _stop([task])
            operator.spare.append(second.machine.storage.image())
        await _until_released(world, operator, sights, storm)
    finally:
        await _stop([*storm, *tasks, *(task for _, task in fate.seconds)])
    journal.faults["transaction timed out"] += world.broker.timed_out
    journal.faults["rebalance"] += world.broker.given_up
    check_everything(world, sights, nobody=operator.nobody)


async def _until_released(world: World, operator: Operator, sights: Sights, storm: Sequence[asyncio.Task[None]]) -> None:
    """Invariant 9: faults have stopped, so everything said arrives, and every closed period is released."""
    deadline = world.now + PATIENCE
    while world.now < deadline and not operator.nobody:
        if all(task.done() for task in storm):
            closed = len(world.records.cuts())
            enough = world.scene.closes if world.study.schedule is None else world.study.horizon
            if closed >= enough and world.records.released() == closed and _all_seen(world, sights, closed):
                return
        await asyncio.sleep(0.5)
    if not operator.nobody:
        closed, released = len(world.records.cuts()), world.records.released()
        world.journal.violated(9, f"{closed} periods are closed, {released} released, {len(sights.columns)} columns seen")


def _all_seen(world: World, sights: Sights, period: int) -> bool:
    expected = sum(period for release in world.study.releases if release.kind == "cumulative" or period >= release.k)
    return all(len(sights.given.get(f"subscriber-{number}", ())) == expected for number in range(SUBSCRIBERS))


async def _stop(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    for result in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(result, Exception):
            raise result from None


class _Pen(io.StringIO):
    """What commands print for people."""

    def __init__(self, journal: Journal) -> None:
        super().__init__()
        self._journal = journal

    def write(self, text: str) -> int:
        written = super().write(text)
        self._journal.said.append(text)
        return written


class _Ear(logging.Handler):
    def __init__(self, journal: Journal) -> None:
        super().__init__()
        self._journal = journal

    def emit(self, record: logging.LogRecord) -> None:
        self._journal.said.append(f"{record.getMessage()} {getattr(record, 'fields', {})}")


@contextmanager
def listening(journal: Journal) -> Iterator[None]:
    """Hear every log line, and let nobody else."""
    log, ear = logging.getLogger("streamproc"), _Ear(journal)
    before = log.handlers[:], log.level, log.propagate
    log.handlers[:], log.propagate = [ear], False
    log.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        log.handlers[:], log.propagate = before[0], before[2]
        log.setLevel(before[1])


@contextmanager
def seeded_random(seed: int) -> Iterator[None]:
    """The synthesizer waits for a random while by the module's own generator."""
    before = module_random.getstate()
    module_random.seed(seed)
    try:
        yield
    finally:
        module_random.setstate(before)
