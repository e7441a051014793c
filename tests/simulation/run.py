"""One run of the whole system: `run_seed(seed)`, or `run(workload, fault_plan, ...)` with faults of the caller's choice."""

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
from tests.simulation.checker import check_invariants
from tests.simulation.cluster import Cluster
from tests.simulation.fault_plan import FaultPlan, RandomFaultPlan, draw_fault_rates
from tests.simulation.history import History, ObservedColumns, Violation
from tests.simulation.nemesis import Nemesis, ScheduledFault, draw_schedule
from tests.simulation.operator import Operator
from tests.simulation.participants import run_client, run_gatherer, run_steward, run_subscriber
from tests.simulation.workload import Workload, draw_workload

LIVENESS_TIMEOUT_S = 400.0
"""Virtual seconds after the last fault within which every closed period must be released."""

SUBSCRIBERS = 2
"""Number of subscribers. The first starts with the run, the others later."""


@dataclass(frozen=True)
class Outcome:
    """The result of a run."""

    faults: Counter[str]
    """Number of injected faults of each kind."""
    violations: Sequence[Violation]
    trace: Sequence[str]
    """A line for every call and fault, if tracing is on."""


def run_seed(seed: int, *, trace: bool = False) -> Outcome:
    """Run the workload and the faults that a seed determines; two runs of one seed are the same."""
    random = Random(seed)
    workload = draw_workload(random)
    fault_plan = RandomFaultPlan(Random(random.getrandbits(64)), draw_fault_rates(random))
    schedule = draw_schedule(random, workload.length)
    return run(workload, fault_plan, schedule, random=random, trace=trace)


def run(
    workload: Workload,
    fault_plan: FaultPlan,
    schedule: Sequence[ScheduledFault] = (),
    *,
    random: Random | None = None,
    trace: bool = False,
) -> Outcome:
    """Run a workload with the faults of a plan and a schedule. `random` decides everything else."""
    history = History(trace)
    chances = random or Random(0)
    with recorded_logs(history), redirect_stderr(_StderrRecorder(history)), seeded_random(chances.getrandbits(32)):
        try:
            in_virtual_time(_run_cluster(workload, fault_plan, schedule, chances, history), at_most=3600.0)
        except Exception as error:
            history.violations.append(Violation(9, f"the run came to no end: {error!r}"))
            failure = traceback.format_exc().splitlines() if trace else []
            return Outcome(history.faults, history.violations, [*history.trace(), *failure])
    return Outcome(history.faults, history.violations, list(history.trace()))


async def _run_cluster(
    workload: Workload, fault_plan: FaultPlan, schedule: Sequence[ScheduledFault], random: Random, history: History
) -> None:
    cluster = Cluster(workload, fault_plan, random, history)
    await cluster.begin()
    observed = ObservedColumns(history)
    operator = Operator(cluster, cluster.machine("synthesizer"))
    gatherers = [cluster.machine(f"gatherer-{number}") for number in range(len(workload.gatherers))]
    nemesis = Nemesis(cluster, operator, gatherers)
    stewards = 0 if workload.study.schedule else random.choice((1, 1, 2))
    saying = [run_client(cluster, number, words) for number, words in enumerate(workload.clients)]
    closing = [run_steward(cluster, number) for number in range(stewards)]
    gatherer_runs = [
        run_gatherer(cluster, number, pinned, gatherers[number]) for number, pinned in enumerate(workload.gatherers)
    ]
    begins = [workload.length * number / SUBSCRIBERS for number in range(SUBSCRIBERS)]
    watching = [run_subscriber(cluster, number, observed, begins=at) for number, at in enumerate(begins)]
    workload_tasks = [asyncio.create_task(each) for each in (*saying, *closing, nemesis.run(schedule))]
    tasks = [asyncio.create_task(each) for each in (operator.keep(), *gatherer_runs, *watching)]
    try:
        await asyncio.sleep(workload.length)
        cluster.stop_faults()
        for second, task in nemesis.seconds:
            await _stop([task])
            operator.spare.append(second.machine.storage.image())
        await _until_released(cluster, operator, observed, workload_tasks)
    finally:
        await _stop([*workload_tasks, *tasks, *(task for _, task in nemesis.seconds)])
    history.faults["transaction timed out"] += cluster.broker.timed_out
    history.faults["rebalance"] += cluster.broker.given_up
    check_invariants(cluster, observed, no_people=operator.no_people)


async def _until_released(
    cluster: Cluster, operator: Operator, observed: ObservedColumns, workload_tasks: Sequence[asyncio.Task[None]]
) -> None:
    """Check invariant 9: after the last fault all reports arrive, and every closed period is released."""
    deadline = cluster.now + LIVENESS_TIMEOUT_S
    while cluster.now < deadline and not operator.no_people:
        if all(task.done() for task in workload_tasks):
            closed = len(cluster.records.cuts())
            enough = cluster.workload.closes if cluster.study.schedule is None else cluster.study.last_period
            if closed >= enough and cluster.records.released() == closed and _all_seen(cluster, observed, closed):
                return
        await asyncio.sleep(0.5)
    if not operator.no_people:
        closed, released = len(cluster.records.cuts()), cluster.records.released()
        cluster.history.violated(
            9, f"{closed} periods are closed, {released} released, {len(observed.columns)} columns seen"
        )


def _all_seen(cluster: Cluster, observed: ObservedColumns, period: int) -> bool:
    expected = sum(period for release in cluster.study.releases if period >= release.first_column)
    return all(len(observed.given.get(f"subscriber-{number}", ())) == expected for number in range(SUBSCRIBERS))


async def _stop(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    for result in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(result, Exception):
            raise result from None


class _StderrRecorder(io.StringIO):
    """Records what commands print to stderr."""

    def __init__(self, history: History) -> None:
        super().__init__()
        self._history = history

    def write(self, text: str) -> int:
        written = super().write(text)
        self._history.said.append(text)
        return written


class _LogRecorder(logging.Handler):
    def __init__(self, history: History) -> None:
        super().__init__()
        self._history = history

    def emit(self, record: logging.LogRecord) -> None:
        self._history.said.append(f"{record.getMessage()} {getattr(record, 'fields', {})}")


@contextmanager
def recorded_logs(history: History) -> Iterator[None]:
    """Record every log line in the history, and pass none to other handlers."""
    log, recorder = logging.getLogger("streamproc"), _LogRecorder(history)
    before = log.handlers[:], log.level, log.propagate
    log.handlers[:], log.propagate = [recorder], False
    log.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        log.handlers[:], log.propagate = before[0], before[2]
        log.setLevel(before[1])


@contextmanager
def seeded_random(seed: int) -> Iterator[None]:
    """Seed the generator of the `random` module, which the synthesizer uses for jitter."""
    before = module_random.getstate()
    module_random.seed(seed)
    try:
        yield
    finally:
        module_random.setstate(before)
