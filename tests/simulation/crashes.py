"""Exhaustive crashes of a short study, single and in pairs: `python -m tests.simulation.crashes`.

A crash point is before or after a call of the log, between two records of one append, or before, inside or after a step
on a file. At each point the process is killed; at points on a file, in another run, its machine also loses what was not
synced. Then everything is restarted, and every invariant must hold.

Single crashes are tried at every point. Of pairs that are alike, as `crash_plan` defines it, one is tried; that alike
crashes have the same effects is verified, call for call, for all first crashes. `--every` runs all pairs, and compares what
follows the second crash too.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import cast, get_args

from streamproc.study import Broker, CumulativeRelease, Population, Privacy, Study, WindowRelease
from streamproc.testing import in_virtual_time
from tests.simulation.checker import check_invariants
from tests.simulation.cluster import Cluster
from tests.simulation.crash_plan import Crash, CrashPlan, Way
from tests.simulation.history import History, ObservedColumns, Violation
from tests.simulation.operator import Operator
from tests.simulation.participants import run_client, run_gatherer, run_steward, run_subscriber
from tests.simulation.run import recorded_logs, seeded_random
from tests.simulation.workload import SYMBOLS, SentReport, Workload

LIVENESS_TIMEOUT_S = 400.0
"""Virtual seconds within which the study must be released, however often its processes crash."""


def short_workload() -> Workload:
    """Two periods, three people, one partition, a window release and a cumulative one."""
    releases = (WindowRelease("windows", 1), CumulativeRelease("counts", (SYMBOLS[1],)))
    study = Study(
        name="study",
        alphabet=SYMBOLS[:2],
        horizon=2,
        population=Population(initial=SYMBOLS[0]),
        privacy=Privacy(rho=20.0),
        releases=releases,
        broker=Broker("embedded:study", 1),
    )
    words = [
        SentReport(0.0, f"person-{number:012x}", period, SYMBOLS[(number + period) % 2])
        for period in (1, 2)
        for number in range(3)
    ]
    return Workload(study, None, [words], [(0,)], closes=2, silent=False)


def run_with_crashes(crashes: Sequence[Crash], *, trace: bool = False) -> tuple[CrashPlan, History]:
    """Run the short study with these crashes. Raises RuntimeError if the run does not reach one of them."""
    fault_plan, history = CrashPlan(crashes), History(trace)
    with recorded_logs(history), seeded_random(0):
        in_virtual_time(_run_cluster(fault_plan, history), at_most=3600.0)
    if fault_plan.injected < len(crashes):
        raise RuntimeError(
            f"crash point {crashes[fault_plan.injected]} was not reached: this run differs from the one that listed it"
        )
    return fault_plan, history


async def _run_cluster(fault_plan: CrashPlan, history: History) -> None:
    cluster = Cluster(short_workload(), fault_plan, Random(0), history)
    await cluster.begin()
    observed, operator = ObservedColumns(history), Operator(cluster, cluster.machine("synthesizer"))
    # One after the other, because polling would add many equivalent crash points.
    await run_client(cluster, 0, cluster.workload.clients[0])
    await run_steward(cluster, 0)
    gatherer = run_gatherer(cluster, 0, (), cluster.machine("gatherer"))
    roles = [
        asyncio.create_task(each) for each in (operator.keep(), gatherer, run_subscriber(cluster, 0, observed, begins=0.0))
    ]
    _, late = await asyncio.wait(roles, timeout=LIVENESS_TIMEOUT_S)
    for task in late:
        task.cancel()
    await asyncio.gather(*roles, return_exceptions=True)
    if late or cluster.records.released() < cluster.study.last_period:
        history.violated(9, f"{cluster.records.released()} of 2 periods are released, {len(late)} roles go on")
    # The disk keeps what was synced, so no draw is ever lost and no restore is needed.
    for kind in ("restore", "restore that accepts the cost"):
        if history.faults[kind]:
            history.violated(9, f"after crashes alone the synthesizer needed a {kind}")
    check_invariants(cluster, observed, no_people=operator.no_people)


@dataclass(frozen=True)
class TriedCrashes:
    """The results for first crashes that are alike: each alone, and followed by second crashes."""

    crashes: int
    pairs: int
    possible: int
    """Number of possible pairs, including those that are alike."""
    broken: Sequence[tuple[tuple[Crash, ...], Sequence[Violation]]]


def try_alike(firsts: Sequence[Crash], *, every: bool) -> TriedCrashes:
    """Try each crash alone, and the first one with each different second crash; with `every`, each with every second."""
    runs = _run_alike((), firsts)
    pairs: list[tuple[tuple[Crash, ...], Sequence[Violation]]] = []
    for first, (fault_plan, _) in zip(firsts, runs, strict=True) if every else [(firsts[0], runs[0])]:
        for seconds in fault_plan.next_crashes():
            tried = seconds if every else seconds[:1]
            found = _run_alike((first,), tried)
            pairs += [((first, second), history.violations) for second, (_, history) in zip(tried, found, strict=True)]
    alone = [((first,), history.violations) for first, (_, history) in zip(firsts, runs, strict=True)]
    possible = sum(len(seconds) for fault_plan, _ in runs for seconds in fault_plan.next_crashes())
    return TriedCrashes(len(firsts), len(pairs), possible, [(crashes, found) for crashes, found in alone + pairs if found])


def _run_alike(before: tuple[Crash, ...], crashes: Sequence[Crash]) -> list[tuple[CrashPlan, History]]:
    """Run each crash after the crashes `before`, and check that all runs continue in the same way."""
    runs = [run_with_crashes((*before, crash)) for crash in crashes]
    for crash, (fault_plan, _) in zip(crashes, runs, strict=True):
        if fault_plan.course != runs[0][0].course:
            raise RuntimeError(f"{crash} is not like {crashes[0]} after {[*map(str, before)]}: what follows differs")
    return runs


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the exit code: 1 if an invariant was violated."""
    parser = argparse.ArgumentParser(prog="crashes", description="Crash at every point of a short study, and at all pairs.")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="how many runs at a time")
    parser.add_argument("--every", action="store_true", help="run every pair, not one for all that are alike: takes hours")
    parser.add_argument("--part", type=_part, metavar="K/N", default=(1, 1), help="the K-th of N parts of the first crashes")
    parser.add_argument(
        "--at", nargs="+", type=_crash, metavar="MOMENT:WAY", help="these crashes, one after the other, with a trace"
    )
    chosen = parser.parse_args(arguments)
    if chosen.at:
        return _show_one(chosen.at)
    undisturbed = run_with_crashes(())[0]
    firsts = undisturbed.next_crashes()
    print(f"{len(undisturbed.points)} moments, {sum(map(len, firsts))} crashes, of which {len(firsts)} differ", flush=True)
    firsts = firsts[chosen.part[0] - 1 :: chosen.part[1]]
    with multiprocessing.get_context("spawn").Pool(chosen.processes) as pool:
        total = _report(pool.imap(partial(try_alike, every=chosen.every), firsts), len(firsts))
    alike = "" if chosen.every else f" that differ (each of {total.possible} possible ones is like one of them)"
    print(f"{total.crashes} crashes, {total.pairs} pairs{alike}, {total.broken} violations")
    return 1 if total.broken else 0


def _crash(text: str) -> Crash:
    number, _, way = text.partition(":")
    if not number.isdecimal() or way not in get_args(Way):
        raise argparse.ArgumentTypeError(f"expected a number, ':' and one of {', '.join(get_args(Way))}")
    return Crash(int(number), cast(Way, way))


def _part(text: str) -> tuple[int, int]:
    number, _, parts = text.partition("/")
    if not (number.isdecimal() and parts.isdecimal() and 1 <= int(number) <= int(parts)):
        raise argparse.ArgumentTypeError("expected K/N, K from 1 to N")
    return int(number), int(parts)


@dataclass
class _Total:
    crashes: int = 0
    pairs: int = 0
    possible: int = 0
    broken: int = 0


def _report(results: Iterable[TriedCrashes], of: int) -> _Total:
    total = _Total()
    for number, tried in enumerate(results, start=1):
        total.crashes += tried.crashes
        total.pairs += tried.pairs
        total.possible += tried.possible
        for crashes, violations in tried.broken:
            total.broken += len(violations)
            again = " ".join(f"'{crash}'" for crash in crashes)
            print(*violations, f'again: make crashes ARGS="--at {again}"', sep="\n", flush=True)
        if number % 50 == 0 or number == of:
            print(f"{number} of {of} first crashes that differ, {total.pairs} pairs", flush=True)
    return total


def _show_one(crashes: Sequence[Crash]) -> int:
    history = run_with_crashes(crashes, trace=True)[1]
    print(*history.trace(), sep="\n")
    print(f"{len(crashes)} crashes, {len(history.violations)} violations")
    return 1 if history.violations else 0


if __name__ == "__main__":
    sys.exit(main())
