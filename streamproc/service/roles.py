"""The long-running roles: gatherers that come and go with their partitions, and the one synthesizer."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TypeVar

from streamproc.actor.schedule import Scheduler
from streamproc.actor.synthesizer import Ports as SynthesizerPorts
from streamproc.actor.synthesizer import Synthesizer
from streamproc.errors import Refused
from streamproc.gather.gatherer import Gatherer
from streamproc.gather.gatherer import Ports as GathererPorts
from streamproc.ports.disk import FolderDisk
from streamproc.ports.log import Log, LogError, LogUnavailable, Membership, NotAllowed, OutcomeUnknown
from streamproc.ports.topic_setup import set_up_topics
from streamproc.privacy.quantities import IntArray, Period, Rho
from streamproc.privacy.zcdp import epsilon_of_rho
from streamproc.service.deployment import Deployment
from streamproc.service.logs import event
from streamproc.service.metrics import OperatorMetrics, PublicMetrics, Spending
from streamproc.service.over import is_over
from streamproc.service.public import PublicStudy
from streamproc.synth.contract import Contract, WindowContract, release_budgets
from streamproc.synth.cumulative import CumulativeState
from streamproc.synth.step import Step
from streamproc.synth.synthesis import State, Synthesis
from streamproc.wire.chain import VerifiedLedger
from streamproc.wire.rejects import Reject
from streamproc.wire.topics import Role

Result = TypeVar("Result")

LONGEST_PAUSE = 30.0
"""Seconds between two tries to reach a broker that is away."""

# The parts of a process that can be in trouble while others are not; besides, each gathered partition is one.
CONNECTION, LEDGER, SYNTHESIZER, SCHEDULE, GATHERERS = "connection", "ledger", "synthesizer", "schedule", "gatherers"


class Health:
    """What the listeners show of a process, and where the roles report to. Implements the roles' observers."""

    def __init__(self, deployment: Deployment) -> None:
        self.public = PublicMetrics()
        self.operator = OperatorMetrics()
        self._ledger_read = False
        self._refused = False
        self._waiting: set[str] = set()
        """The parts that are in trouble."""
        self._study = deployment.study
        self.operator.show_study(self._study.horizon, lambda: self.ready)
        self._since = time.monotonic()
        """When the synthesizer last looked for tallies, or released a period."""
        self.recorded(None)

    @property
    def ready(self) -> bool:
        """Whether the process does its work; False while any part of it waits for the broker."""
        return self._ledger_read and not self._waiting and not self._refused

    def well(self, part: str) -> None:
        """That part is not in trouble, or not any more: it has done what it could not do."""
        self._waiting.discard(part)

    def refused(self) -> None:
        """A role has refused to go on."""
        self._refused = True
        self.operator.refused.set(1)

    def followed(self) -> None:
        """The ledger is read to its end."""
        self._ledger_read = True
        self.well(LEDGER)

    def recorded(self, ledger: VerifiedLedger | None) -> None:
        """This is the public ledger now; None before the study began."""
        last = ledger.periods[-1] if ledger is not None and ledger.periods else None
        clamped = Counter[str]()
        for record in ledger.periods if ledger is not None else ():
            clamped.update({name: release.clamped for name, release in record.releases.items()})
        spending = {
            name: Spending(rho, last.releases[name].rho_spent if last else Rho(0.0), clamped[name])
            for name, rho in release_budgets(self._study).items()
        }
        epsilon = epsilon_of_rho(last.rho_spent if last else Rho(0.0), self._study.privacy.delta)
        released = last.period if last else 0
        self.public.show_spending(released, epsilon, spending)
        # Before it is known what is released, nothing is overdue.
        waits = ledger is not None and released < self._study.horizon
        schedule = self._study.schedule
        self.operator.show_due(schedule.cut_of(released + 1) if schedule is not None and waits else None)

    # the synthesizer's observer

    def watermark(self, period: Period) -> None:
        """Every partition has tallied this period."""
        self.well(SYNTHESIZER)
        self.operator.watermark.set(period)
        self._since = time.monotonic()

    def persisted(self, period: Period, size: int) -> None:
        """A draw is durable."""
        self.operator.state_bytes.labels("synthesizer").set(size)

    def released(self, period: Period, synthesis: Synthesis, steps: Mapping[str, Step] | None) -> None:
        """A period is published, or was found to be when the process started."""
        self.well(SYNTHESIZER)
        for name, contract in synthesis.contracts.items():
            counts = _released_counts(contract, synthesis.states[name])
            if counts is not None:
                self.public.show_counts(contract, counts)
        if steps is None:
            event("going on after what is released", period=period)
            return
        before, self._since = self._since, time.monotonic()
        self.operator.release_seconds.observe(self._since - before)
        epsilon = epsilon_of_rho(synthesis.spent, self._study.privacy.delta)
        event("period released", period=period, rho_spent=synthesis.spent, epsilon_spent=epsilon)

    def fenced(self, period: Period) -> None:
        """Another synthesizer took over, or a transaction timed out."""
        self.operator.fenced.inc()
        event("fenced", logging.WARNING, period=period)

    def trouble(self, problem: str, part: str = SYNTHESIZER) -> None:
        """Something that will be tried again; it is over when that part says so, whatever others can do meanwhile."""
        self._waiting.add(part)
        self.operator.troubles.inc()
        event(problem, logging.WARNING)

    # the gatherers' observer

    def read(self, partition: int, records: int, lag: int) -> None:
        """Records were taken in."""
        self.operator.reports.labels(partition).inc(records)
        self.operator.lag.labels(partition).set(lag)

    def rejected(self, partition: int, rejects: Sequence[Reject]) -> None:
        """Reports were rejected."""
        for reject in rejects:
            self.operator.rejects.labels(partition, reject.reason.value).inc()

    def tallied(self, partition: int, period: Period, people: int) -> None:
        """A period of one partition was sent."""
        self.well(_gathering(partition))
        self.operator.people.labels(partition).set(people)
        self.operator.settled.labels(partition).set(period)
        event("tallied", partition=partition, period=period)

    def checkpointed(self, partition: int, size: int) -> None:
        """A gatherer's state is durable."""
        self.operator.state_bytes.labels(f"gather-{partition}").set(size)

    def up_to_date(self, partition: int) -> None:
        """Every period of it that is closed was sent."""
        self.well(_gathering(partition))


def _gathering(partition: int) -> str:
    """The part that gathers a partition."""
    return f"partition {partition}"


def _released_counts(contract: Contract, state: State) -> IntArray | None:
    """What the last column of a release shows; None before its first."""
    if isinstance(state, CumulativeState):
        return state.sums[1 : state.period + 1] if state.period else None
    assert isinstance(contract, WindowContract)
    return state.counts if state.period >= contract.mechanism.k else None


async def synthesize(
    deployment: Deployment, log: Log, health: Health, *, catch_up: bool, started: asyncio.Event | None = None
) -> None:
    """Run the synthesizer, and the schedule if the study has one; returns when period `T` is released.

    `started` is set once the start was not refused.
    """
    study, clock = deployment.study, deployment.clock
    started = started or asyncio.Event()
    if await patiently(lambda: is_over(deployment, log, draws=True), health, SYNTHESIZER):
        started.set()
        return await _follow_ledger(deployment, log, health)
    with deployment.locked_disk() as disk:
        await patiently(lambda: set_up_topics(log, study, Role.SYNTHESIZER), health, SYNTHESIZER)
        mark = await patiently(lambda: deployment.fingerprint(log), health, SYNTHESIZER)
        synthesizer = Synthesizer(study, mark, SynthesizerPorts(log, disk, deployment.entropy(), clock), health)
        synthesizer.started = started
        scheduler = None
        if study.schedule is not None:
            in_time = partial(health.well, SCHEDULE)
            scheduler = Scheduler(study, study.schedule, log, clock, catch_up=catch_up, in_time=in_time)
            await patiently(scheduler.check, health, SCHEDULE)
        async with asyncio.TaskGroup() as group:
            # Ends by itself, when it has shown the last period: the listeners may outlive this.
            group.create_task(_follow_ledger(deployment, log, health))
            closing = None
            if scheduler is not None:
                closing = group.create_task(_close_in_time(scheduler, synthesizer, health))
            try:
                await synthesizer.run()
            except Refused:
                health.refused()
                raise
            if closing is not None:
                closing.cancel()


async def _close_in_time(scheduler: Scheduler, synthesizer: Synthesizer, health: Health) -> None:
    """Not before the synthesizer has started: a refused start changes nothing, and cuts cannot be taken back."""
    await synthesizer.started.wait()
    await patiently(scheduler.run, health, SCHEDULE)


async def gather(deployment: Deployment, log: Log, health: Health, pinned: Sequence[int] = ()) -> None:
    """Run gatherers for the pinned partitions, or for those the group assigns; returns when period `T` is released.

    By then their last checkpoints are written or given up: whoever purges the study finds all that was kept of it here.
    """
    study = deployment.study
    if await patiently(lambda: is_over(deployment, log, draws=False), health, GATHERERS):
        return await _follow_ledger(deployment, log, health)
    with deployment.gathering_disk() as disk:
        await patiently(lambda: set_up_topics(log, study, Role.GATHERER), health, GATHERERS)
        try:
            await _gather_in(disk, deployment, log, health, pinned)
        finally:
            # The listeners may stay, and what is true of no partition any more would be shown for ever.
            for partition in range(study.broker.partitions):
                health.operator.forget(partition)


async def _gather_in(disk: FolderDisk, deployment: Deployment, log: Log, health: Health, pinned: Sequence[int]) -> None:
    topics = deployment.topics
    async with asyncio.TaskGroup() as group:
        if pinned:
            crew: asyncio.Task[None] = group.create_task(_pinned_crew(deployment, log, health, disk, pinned))
        else:
            membership = await patiently(lambda: log.membership(topics.group, topics.reports), health, GATHERERS)
            crew = group.create_task(_group_crew(deployment, log, health, disk, membership))
        await _follow_ledger(deployment, log, health)
        crew.cancel()


async def _pinned_crew(deployment: Deployment, log: Log, health: Health, disk: FolderDisk, pinned: Sequence[int]) -> None:
    async with asyncio.TaskGroup() as group:
        for partition in pinned:
            group.create_task(_gatherer(deployment, log, health, disk, partition))


async def _group_crew(deployment: Deployment, log: Log, health: Health, disk: FolderDisk, membership: Membership) -> None:
    """One gatherer for each assigned partition; one whose partition goes elsewhere is dropped in mid-work, harmlessly."""
    working: dict[int, asyncio.Task[None]] = {}
    try:
        async with asyncio.TaskGroup() as group:
            while True:
                assigned = await patiently(lambda: membership.assigned(timeout=0.5), health, GATHERERS)
                for partition in set(working) - assigned:
                    task = working.pop(partition)
                    task.cancel()
                    await asyncio.wait([task])
                    health.operator.forget(partition)
                for partition in sorted(assigned - set(working)):
                    working[partition] = group.create_task(_gatherer(deployment, log, health, disk, partition))
    finally:
        with suppress(LogError):  # who cannot say that it leaves is soon missed by the group; why it leaves matters more
            await membership.close()


async def _gatherer(deployment: Deployment, log: Log, health: Health, disk: FolderDisk, partition: int) -> None:
    ports = GathererPorts(log, disk, deployment.clock)
    health.operator.begin(partition)

    def run() -> Awaitable[None]:
        return Gatherer(deployment.study, partition, deployment.roster, ports, health).run()

    await patiently(run, health, _gathering(partition))


async def _follow_ledger(deployment: Deployment, log: Log, health: Health) -> None:
    """Show what the ledger says; returns when period `T` is released."""

    async def follow() -> None:
        public, shown = PublicStudy(log, deployment.study), None
        try:
            # What a long ledger said at its beginning was true once: nothing shown goes back to it.
            await public.catch_up_ledger()
            while True:
                health.followed()
                if public.ledger is not shown:
                    shown = public.ledger
                    health.recorded(shown)
                if public.period >= deployment.study.horizon:
                    return
                await public.poll_ledger(timeout=0.5)
        finally:
            await public.close()

    await patiently(follow, health, LEDGER)


async def patiently(work: Callable[[], Awaitable[Result]], health: Health, part: str = CONNECTION) -> Result:
    """Do it, waiting for a broker that is away; a denied authorisation ends it at once.

    Work that goes on for long tells `health` itself when that part of the process is well again.
    """
    pause = 0.5
    try:
        while True:
            began = asyncio.get_running_loop().time()
            try:
                return await work()
            except NotAllowed:
                raise
            except (LogUnavailable, OutcomeUnknown) as problem:
                if asyncio.get_running_loop().time() - began > LONGEST_PAUSE:
                    pause = 0.5  # it worked for a while: this is another trouble
                health.trouble(f"the broker is away, trying again in {pause:g} s: {problem}", part)
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
    finally:
        health.well(part)  # one that has ended waits for nobody
