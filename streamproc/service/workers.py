"""The long-running roles: gatherers that come and go with their partitions, and the one synthesizer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial

from streamproc.client.public_reader import PublicReader
from streamproc.errors import LogError, NotAllowed, Refused, TopicsNotSetUp
from streamproc.gatherer.worker import Gatherer, GathererPorts
from streamproc.log.port import GroupMembership, Log
from streamproc.log.topic_setup import check_topics, set_up_topics
from streamproc.protocol.topics import Role
from streamproc.service.completion import has_begun, is_over
from streamproc.service.deployment import Deployment
from streamproc.service.monitor import (
    GATHERERS,
    LEDGER,
    SCHEDULE,
    SYNTHESIZER,
    ProcessMonitor,
    partition_part,
    retry_while_unavailable,
)
from streamproc.storage.state_folder import LocalStateFolder
from streamproc.synthesizer.scheduler import Scheduler
from streamproc.synthesizer.worker import Synthesizer, SynthesizerPorts


async def synthesize(
    deployment: Deployment,
    log: Log,
    health: ProcessMonitor,
    *,
    catch_up: bool,
    create: bool = False,
    started: asyncio.Event | None = None,
    register: Callable[[Log], Awaitable[None]] | None = None,
) -> None:
    """Run the synthesizer, and the schedule if the study has one; returns when period `T` is released.

    `create` lets it create the study's topics; otherwise missing ones are an error. `started` is set once the start was not
    refused. `register` is called before anything is drawn, and may refuse.
    """
    study, clock = deployment.study, deployment.clock
    started = started or asyncio.Event()
    if await retry_while_unavailable(lambda: is_over(deployment, log, draws=True), health, SYNTHESIZER):
        started.set()
        return await _follow_ledger(deployment, log, health)
    try:
        await retry_while_unavailable(lambda: _check_topics(deployment, log, Role.SYNTHESIZER), health, SYNTHESIZER)
    except (NotAllowed, TopicsNotSetUp):
        if not create:
            raise
    with deployment.locked_state_folder() as disk:
        if create:
            await retry_while_unavailable(lambda: set_up_topics(log, study, Role.SYNTHESIZER), health, SYNTHESIZER)
        mark = await retry_while_unavailable(lambda: deployment.fingerprint(log), health, SYNTHESIZER)
        synthesizer = Synthesizer(study, mark, SynthesizerPorts(log, disk, deployment.entropy(), clock), health)
        synthesizer.started = started
        scheduler = None
        if study.schedule is not None:
            in_time = partial(health.mark_healthy, SCHEDULE)
            scheduler = Scheduler(study, study.schedule, log, clock, catch_up=catch_up, in_time=in_time)
            await retry_while_unavailable(scheduler.check, health, SCHEDULE)
        if register is not None:
            # An entry cannot be taken out of the registry, so a start that will be refused must not make one.
            await _or_refused(synthesizer.check, health)
            await _or_refused(lambda: register(log), health)
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


async def _or_refused(step: Callable[[], Awaitable[None]], health: ProcessMonitor) -> None:
    """Take a step of the synthesizer's start, and show that the role refused if the step does."""
    try:
        await retry_while_unavailable(step, health, SYNTHESIZER)
    except Refused:
        health.refused()
        raise


async def _check_topics(deployment: Deployment, log: Log, role: Role) -> None:
    """Check the topics of a role before it changes anything, its state folder included.

    Raises Refused (exit 3) if topics are missing though the study has begun, as its ledger or its state folder shows: then
    records are lost. Before that, missing topics are NotSetUp (exit 2).
    """
    try:
        await check_topics(log, deployment.study, role)
    except TopicsNotSetUp as problem:
        if await has_begun(deployment, log) or deployment.state_folder().holds_state():
            raise Refused(
                f"topic {', '.join(problem.topics)}: is gone though the study has begun; restore it with its records, or "
                "use the broker on which the study began"
            ) from None
        raise


async def _close_in_time(scheduler: Scheduler, synthesizer: Synthesizer, health: ProcessMonitor) -> None:
    """Not before the synthesizer has started: a refused start changes nothing, and cuts cannot be taken back."""
    await synthesizer.started.wait()
    await retry_while_unavailable(scheduler.run, health, SCHEDULE)


async def gather(deployment: Deployment, log: Log, health: ProcessMonitor, pinned: Sequence[int] = ()) -> None:
    """Run gatherers for the pinned partitions, or for those the group assigns; returns when period `T` is released.

    By then their last checkpoints are written or given up: whoever purges the study finds all that was kept of it here.
    """
    health.begin_gathering()
    if await retry_while_unavailable(lambda: is_over(deployment, log, draws=False), health, GATHERERS):
        health.end_gathering()
        return await _follow_ledger(deployment, log, health)
    await retry_while_unavailable(lambda: _check_topics(deployment, log, Role.GATHERER), health, GATHERERS)
    with deployment.shared_state_folder() as disk:
        try:
            await _gather_in(disk, deployment, log, health, pinned)
        finally:
            health.end_gathering()


async def _gather_in(
    disk: LocalStateFolder, deployment: Deployment, log: Log, health: ProcessMonitor, pinned: Sequence[int]
) -> None:
    topics = deployment.topics
    async with asyncio.TaskGroup() as group:
        if pinned:
            crew: asyncio.Task[None] = group.create_task(_pinned_crew(deployment, log, health, disk, pinned))
        else:
            membership = await retry_while_unavailable(
                lambda: log.join_group(topics.group, topics.reports), health, GATHERERS
            )
            crew = group.create_task(_group_crew(deployment, log, health, disk, membership))
        await _follow_ledger(deployment, log, health)
        crew.cancel()


async def _pinned_crew(
    deployment: Deployment, log: Log, health: ProcessMonitor, disk: LocalStateFolder, pinned: Sequence[int]
) -> None:
    try:
        async with asyncio.TaskGroup() as group:
            for partition in pinned:
                health.assigned(partition)
                group.create_task(_gatherer(deployment, log, health, disk, partition))
            health.know_assignment()
    finally:
        for partition in pinned:
            health.given_up(partition)


async def _group_crew(
    deployment: Deployment, log: Log, health: ProcessMonitor, disk: LocalStateFolder, membership: GroupMembership
) -> None:
    """One gatherer for each assigned partition; one whose partition goes elsewhere is dropped in mid-work, harmlessly."""
    working: dict[int, asyncio.Task[None]] = {}
    try:
        async with asyncio.TaskGroup() as group:
            while True:
                assigned = await retry_while_unavailable(lambda: membership.assigned(timeout=0.5), health, GATHERERS)
                for partition in set(working) - assigned:
                    working[partition].cancel()
                    await asyncio.wait([working[partition]])
                    del working[partition]
                    health.given_up(partition)
                for partition in sorted(assigned - set(working)):
                    health.assigned(partition)
                    working[partition] = group.create_task(_gatherer(deployment, log, health, disk, partition))
                if membership.joined:
                    health.know_assignment()
    finally:
        for partition in sorted(working):
            health.given_up(partition)
        with suppress(LogError):  # who cannot say that it leaves is soon missed by the group; why it leaves matters more
            await membership.close()


async def _gatherer(
    deployment: Deployment, log: Log, health: ProcessMonitor, disk: LocalStateFolder, partition: int
) -> None:
    ports = GathererPorts(log, disk, deployment.clock)

    def run() -> Awaitable[None]:
        return Gatherer(deployment.study, partition, deployment.roster, ports, health).run()

    await retry_while_unavailable(run, health, partition_part(partition))


async def _follow_ledger(deployment: Deployment, log: Log, health: ProcessMonitor) -> None:
    """Show what the ledger says; returns when period `T` is released."""

    async def follow() -> None:
        public = PublicReader(log, deployment.study)
        try:
            # What a long ledger said at its beginning was true once: nothing shown goes back to it.
            await public.catch_up_ledger()
            while True:
                health.mark_ledger_read()
                health.show_ledger(public.ledger)
                if public.period >= deployment.study.horizon:
                    return
                await public.poll_ledger(timeout=0.5)
        finally:
            await public.close()

    await retry_while_unavailable(follow, health, LEDGER)
