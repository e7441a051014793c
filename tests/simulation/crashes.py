"""Every crash of a short study, and every pair of crashes: `python -m tests.simulation.crashes`. None is left to chance.

A moment is before or after a call on the log, between two records of one append, or before, inside or after a step on a
file. At each the process dies, and at those on a file also its machine, which loses what was not synced. Then everything is
started again, and every promise must hold.

Single crashes are tried at every moment. Two moments of a process between which nothing had an effect on the log or a disk
differ only in what dies with the process, so of pairs one is tried for all that are alike in this way.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Literal

from streamproc.study import Broker, CumulativeRelease, Population, Privacy, Study, WindowRelease
from streamproc.study.release import share_the_rest
from tests.simulation.cast import keep_client, keep_gatherer, keep_steward, keep_subscriber
from tests.simulation.invariants import check_everything
from tests.simulation.journal import Journal, Violation
from tests.simulation.operator import Operator
from tests.simulation.run import listening, seeded_random
from tests.simulation.scene import SYMBOLS, Scene, Utterance
from tests.simulation.sights import Sights
from tests.simulation.weather import CHANGES, AtCall, AtStep, When
from tests.simulation.world import World
from tests.world.virtual_time import in_virtual_time

PATIENCE = 400.0
"""Virtual seconds within which a study is released, however often its processes died."""

Way = Literal["crash", "power cut"]


@dataclass(frozen=True, order=True)
class Crash:
    """At the moment with this number, counted from the start of the run or from the crash before it."""

    moment: int
    way: Way

    def __str__(self) -> str:
        return f"{self.moment}:{self.way}"


LOOKS = ("status", "names", "read")
"""Steps on files without an effect."""


@dataclass(frozen=True)
class Moment:
    """Where a crash can strike."""

    ways: tuple[Way, ...]
    different: tuple[Way, ...]
    """Those that did not strike at the moment before it of the same process with nothing in between that had an effect."""


@dataclass
class Fated:
    """Weather that strikes at the given moments only, and counts all."""

    crashes: Sequence[Crash] = ()
    moments: list[Moment] = field(default_factory=list)
    """Since the last crash."""
    struck: int = 0
    _effects: int = 0
    _met: dict[tuple[str, Way], int] = field(default_factory=dict)
    """How many effects there had been when each process could last be struck in each way."""

    def at_call(self, process: str, when: When, call: str, topic: str | None) -> AtCall | None:
        return "crash" if self._reach(process, on_file=False, effect=when != "before" and call in CHANGES) else None

    def at_step(self, process: str, when: When, step: str, file: str) -> AtStep | None:
        return self._reach(process, on_file=True, effect=when != "before" and step not in LOOKS)

    def seconds(self, low: float, high: float) -> float:
        return low

    def clear_up(self) -> None:
        """Nothing strikes but what was given."""

    def _reach(self, process: str, *, on_file: bool, effect: bool) -> Way | None:
        if process.startswith("subscriber"):
            return None
        self._effects += effect
        ways: tuple[Way, ...] = ("crash", "power cut") if on_file else ("crash",)
        self.moments.append(Moment(ways, tuple(way for way in ways if self._met.get((process, way)) != self._effects)))
        self._met |= {(process, way): self._effects for way in ways}
        if self.struck == len(self.crashes) or len(self.moments) <= self.crashes[self.struck].moment:
            return None
        crash = self.crashes[self.struck]
        self.struck += 1
        self.moments.clear()
        return crash.way

    def next_crashes(self, *, different: bool = False) -> Iterator[Crash]:
        """Every way in which one more process could die in what has happened since the last crash."""
        for number, moment in enumerate(self.moments):
            for way in moment.different if different else moment.ways:
                yield Crash(number, way)


def short_scene() -> Scene:
    """Two periods, three people, one partition, a release of each kind."""
    releases = (WindowRelease("windows", 1), CumulativeRelease("counts", (SYMBOLS[1],)))
    study = Study(
        name="study",
        alphabet=SYMBOLS[:2],
        horizon=2,
        population=Population(initial=SYMBOLS[0]),
        privacy=Privacy(rho=20.0),
        releases=share_the_rest(releases, range(len(releases))),
        broker=Broker("embedded:study", 1),
    )
    words = [
        Utterance(0.0, f"person-{number:012x}", period, SYMBOLS[(number + period) % 2])
        for period in (1, 2)
        for number in range(3)
    ]
    return Scene(study, None, [words], [(0,)], closes=2, silent=False)


def play(crashes: Sequence[Crash], *, trace: bool = False) -> tuple[Fated, Journal]:
    """The short study with these crashes."""
    weather, journal = Fated(crashes), Journal(trace)
    with listening(journal), seeded_random(0):
        in_virtual_time(_play(weather, journal), at_most=3600.0)
    if weather.struck < len(crashes):
        raise RuntimeError(f"moment {crashes[weather.struck]} was not reached: the run is not the one it was")
    return weather, journal


async def _play(weather: Fated, journal: Journal) -> None:
    world = World(short_scene(), weather, Random(0), journal)
    await world.begin()
    sights, operator = Sights(journal), Operator(world, world.machine("synthesizer"))
    # One after the other, so that nobody waits for anybody by looking again and again.
    await keep_client(world, 0, world.scene.clients[0])
    await keep_steward(world, 0)
    gatherer = keep_gatherer(world, 0, (), world.machine("gatherer"))
    roles = [
        asyncio.create_task(each) for each in (operator.keep(), gatherer, keep_subscriber(world, 0, sights, begins=0.0))
    ]
    _, late = await asyncio.wait(roles, timeout=PATIENCE)
    for task in late:
        task.cancel()
    await asyncio.gather(*roles, return_exceptions=True)
    if late or world.records.released() < world.study.horizon:
        journal.violated(9, f"{world.records.released()} of 2 periods are released, {len(late)} roles go on")
    # The disk keeps what it was told to sync, so nothing is ever lost that a steward would have to pay for.
    for kind in ("restore", "restore that accepts the cost"):
        if journal.faults[kind]:
            journal.violated(9, f"after crashes alone the synthesizer needed a {kind}")
    check_everything(world, sights, nobody=operator.nobody)


@dataclass(frozen=True)
class Tried:
    """What came of one first crash, alone and before each second one."""

    pairs: int
    alike: int
    """How many pairs there are, those that are alike counted each."""
    broken: Sequence[tuple[tuple[Crash, ...], Sequence[Violation]]]


def try_alone(first: Crash) -> Tried:
    """Nothing else happens."""
    return Tried(0, 0, _broken([(first,)]))


def try_with_every_second(first: Crash) -> Tried:
    """Every crash that can follow it, of those that differ."""
    weather, _ = play((first,))
    seconds = list(weather.next_crashes(different=True))
    return Tried(len(seconds), len(list(weather.next_crashes())), _broken((first, second) for second in seconds))


def _broken(tries: Iterable[tuple[Crash, ...]]) -> list[tuple[tuple[Crash, ...], Sequence[Violation]]]:
    return [(crashes, found) for crashes in tries if (found := play(crashes)[1].violations)]


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: 1 if a promise was broken."""
    parser = argparse.ArgumentParser(prog="crashes", description="Crash at every moment of a short study, and at all pairs.")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="how many runs at a time")
    parser.add_argument("--at", nargs="+", metavar="MOMENT:WAY", help="these crashes, one after the other, with a trace")
    chosen = parser.parse_args(arguments)
    if chosen.at:
        return _show_one([Crash(int(number), way) for number, _, way in (text.partition(":") for text in chosen.at)])
    calm = play(())[0]
    singles, firsts = list(calm.next_crashes()), list(calm.next_crashes(different=True))
    print(f"{len(calm.moments)} moments, {len(singles)} crashes, of which {len(firsts)} differ", flush=True)
    with multiprocessing.get_context("spawn").Pool(chosen.processes) as pool:
        alone = _report(pool.imap(try_alone, singles, chunksize=8), len(singles))
        both = _report(pool.imap(try_with_every_second, firsts), len(firsts))
    broken = alone.broken + both.broken
    print(
        f"{len(singles)} crashes, {both.pairs} pairs that differ (each of {both.alike} possible ones is like one of them), "
        f"{broken} violations"
    )
    return 1 if broken else 0


@dataclass
class _Total:
    pairs: int = 0
    alike: int = 0
    broken: int = 0


def _report(results: Iterable[Tried], of: int) -> _Total:
    total = _Total()
    for number, tried in enumerate(results, start=1):
        total.pairs += tried.pairs
        total.alike += tried.alike
        for crashes, violations in tried.broken:
            total.broken += len(violations)
            again = " ".join(f"'{crash}'" for crash in crashes)
            print(*violations, f'again: make crashes ARGS="--at {again}"', sep="\n", flush=True)
        if number % 50 == 0 or number == of:
            print(f"{number} of {of} first crashes, {total.pairs} pairs", flush=True)
    return total


def _show_one(crashes: Sequence[Crash]) -> int:
    journal = play(crashes, trace=True)[1]
    print(*journal.trace(), sep="\n")
    print(f"{len(crashes)} crashes, {len(journal.violations)} violations")
    return 1 if journal.violations else 0


if __name__ == "__main__":
    sys.exit(main())
