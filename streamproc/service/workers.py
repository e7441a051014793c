"""The long-running roles of a process: one gatherer for each assigned partition, and the synthesizer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial

from streamproc.client.public_reader import PublicReader
from streamproc.errors import LogError, NotAllowed, Refused, TopicLost, TopicsNotSetUp
from streamproc.gatherer.worker import Gatherer, GathererPorts
from streamproc.log.port import GroupMembership, Log
from streamproc.log.retry import retry_while_unavailable
from streamproc.log.topic_setup import check_topics, set_up_topics
from streamproc.protocol.topics import Role
from streamproc.service.deployment import Deployment
from streamproc.service.monitor import GATHERERS, LEDGER, SCHEDULE, SYNTHESIZER, ProcessMonitor, partition_part
from streamproc.storage.state_folder import LocalStateFolder
from streamproc.synthesizer.scheduler import Scheduler
from streamproc.synthesizer.worker import Synthesizer, SynthesizerPorts


async def synthesize(
    deployment: Deployment,
    log: Log,
    monitor: ProcessMonitor,
    *,
    catch_up: bool,
    create: bool = False,
    started: asyncio.Event | None = None,
    register: Callable[[Log], Awaitable[None]] | None = None,
) -> None:
    """Run the synthesizer, and the schedule if the study has one; returns when the last period is released.

    If `create` is True, missing topics are created; otherwise they are an error. `started` is set once the start has
    succeeded. `register` is called before anything is drawn, and may raise Refused.
    """
    study, clock = deployment.study, deployment.clock
    started = started or asyncio.Event()
    if await retry_while_unavailable(lambda: _is_over(deployment, log, draws=True), monitor, SYNTHESIZER):
        started.set()
        return await _follow_ledger(deployment, log, monitor)
    try:
        await retry_while_unavailable(lambda: _check_topics(deployment, log, Role.SYNTHESIZER), monitor, SYNTHESIZER)
    except (NotAllowed, TopicsNotSetUp):
        if not create:
            raise
    with deployment.locked_state_folder() as state_folder:
        if create:
            await retry_while_unavailable(lambda: set_up_topics(log, study, Role.SYNTHESIZER), monitor, SYNTHESIZER)
        fingerprint = await retry_while_unavailable(lambda: deployment.fingerprint(log), monitor, SYNTHESIZER)
        synthesizer = Synthesizer(
            study, fingerprint, SynthesizerPorts(log, state_folder, deployment.entropy(), clock), monitor
        )
        synthesizer.started = started
        scheduler = None
        if study.schedule is not None:
            in_time = partial(monitor.mark_healthy, SCHEDULE)
            scheduler = Scheduler(study, study.schedule, log, clock, catch_up=catch_up, in_time=in_time)
            await retry_while_unavailable(scheduler.check, monitor, SCHEDULE)
        if register is not None:
            # An entry cannot be removed from the registry, so a start that will be refused must not add one.
            await _start_step(synthesizer.check, monitor)
            await _start_step(lambda: register(log), monitor)
        async with asyncio.TaskGroup() as group:
            # This task ends when it has shown the last period; it is not cancelled, so that the metrics show that period.
            group.create_task(_follow_ledger(deployment, log, monitor))
            closing = None
            if scheduler is not None:
                closing = group.create_task(_run_schedule(scheduler, synthesizer, monitor))
            try:
                await synthesizer.run()
            except Refused:
                monitor.refused()
                raise
            if closing is not None:
                closing.cancel()


async def _start_step(step: Callable[[], Awaitable[None]], monitor: ProcessMonitor) -> None:
    """Do one step of the synthesizer's start. If the step raises Refused, the monitor shows that."""
    try:
        await retry_while_unavailable(step, monitor, SYNTHESIZER)
    except Refused:
        monitor.refused()
        raise


async def _check_topics(deployment: Deployment, log: Log, role: Role) -> None:
    """Check the topics of a role before it changes anything, including its state folder.

    Raises TopicLost (exit 3) if topics are missing though the study has begun, as its ledger or its state folder shows: then
    records are lost. Before that, missing topics are TopicsNotSetUp (exit 2).
    """
    try:
        await check_topics(log, deployment.study, role)
    except TopicsNotSetUp as problem:
        if await deployment.first_ledger_record(log) is not None or deployment.state_folder().holds_state():
            raise TopicLost(
                ", ".join(problem.topics),
                "is gone though the study has begun; restore it with its records, or use the broker on which the study "
                "began",
            ) from None
        raise


async def _is_over(deployment: Deployment, log: Log, *, draws: bool) -> bool:
    """Whether the last period is released: then no topic has to be set up, and no state folder is needed.

    Raises StudyChanged for another study of the same name, and TopicLost if the control topic of an unfinished study is
    gone. `draws` is True for a role that draws noise, which must be seeded if and only if the study was begun with a seed.
    """
    public = PublicReader(log, deployment.study)
    try:
        await public.catch_up_ledger()
    finally:
        await public.close()
    if public.ledger is not None and not public.is_over:
        await deployment.check_control(log)
    await deployment.check_ledger(log, public.ledger, insecure=deployment.seed is not None if draws else None)
    return public.is_over


async def _run_schedule(scheduler: Scheduler, synthesizer: Synthesizer, monitor: ProcessMonitor) -> None:
    """Close periods by the schedule once the synthesizer has started, because a refused start must not append a cut."""
    await synthesizer.started.wait()
    await retry_while_unavailable(scheduler.run, monitor, SCHEDULE)


async def gather(deployment: Deployment, log: Log, monitor: ProcessMonitor, pinned: Sequence[int] = ()) -> None:
    """Run gatherers for the pinned partitions, or for those the group assigns; returns when the last period is released.

    No gatherer writes to the state folder after that, so a purge finds all of its files.
    """
    monitor.begin_gathering()
    if await retry_while_unavailable(lambda: _is_over(deployment, log, draws=False), monitor, GATHERERS):
        monitor.end_gathering()
        return await _follow_ledger(deployment, log, monitor)
    await retry_while_unavailable(lambda: _check_topics(deployment, log, Role.GATHERER), monitor, GATHERERS)
    with deployment.shared_state_folder() as state_folder:
        try:
            await _gather_in(state_folder, deployment, log, monitor, pinned)
        finally:
            monitor.end_gathering()


async def _gather_in(
    state_folder: LocalStateFolder, deployment: Deployment, log: Log, monitor: ProcessMonitor, pinned: Sequence[int]
) -> None:
    topics = deployment.topics
    async with asyncio.TaskGroup() as group:
        if pinned:
            workers: asyncio.Task[None] = group.create_task(_gather_pinned(deployment, log, monitor, state_folder, pinned))
        else:
            membership = await retry_while_unavailable(
                lambda: log.join_group(topics.group, topics.reports), monitor, GATHERERS
            )
            workers = group.create_task(_gather_assigned(deployment, log, monitor, state_folder, membership))
        await _follow_ledger(deployment, log, monitor)
        workers.cancel()


async def _gather_pinned(
    deployment: Deployment, log: Log, monitor: ProcessMonitor, state_folder: LocalStateFolder, pinned: Sequence[int]
) -> None:
    try:
        async with asyncio.TaskGroup() as group:
            for partition in pinned:
                monitor.assigned(partition)
                group.create_task(_run_gatherer(deployment, log, monitor, state_folder, partition))
            monitor.know_assignment()
    finally:
        for partition in pinned:
            monitor.given_up(partition)


async def _gather_assigned(
    deployment: Deployment, log: Log, monitor: ProcessMonitor, state_folder: LocalStateFolder, membership: GroupMembership
) -> None:
    """Run one gatherer for each assigned partition. A gatherer is cancelled when its partition is assigned elsewhere.

    It may be cancelled at any point, because the next gatherer of the partition resumes from its last checkpoint.
    """
    working: dict[int, asyncio.Task[None]] = {}
    try:
        async with asyncio.TaskGroup() as group:
            while True:
                assigned = await retry_while_unavailable(lambda: membership.assigned(timeout=0.5), monitor, GATHERERS)
                for partition in set(working) - assigned:
                    working[partition].cancel()
                    await asyncio.wait([working[partition]])
                    del working[partition]
                    monitor.given_up(partition)
                for partition in sorted(assigned - set(working)):
                    monitor.assigned(partition)
                    working[partition] = group.create_task(_run_gatherer(deployment, log, monitor, state_folder, partition))
                if membership.joined:
                    monitor.know_assignment()
    finally:
        for partition in sorted(working):
            monitor.given_up(partition)
        # If leaving fails, the group notices the missing member after its session timeout. The error that led here matters.
        with suppress(LogError):
            await membership.close()


async def _run_gatherer(
    deployment: Deployment, log: Log, monitor: ProcessMonitor, state_folder: LocalStateFolder, partition: int
) -> None:
    ports = GathererPorts(log, state_folder, deployment.clock)

    def run() -> Awaitable[None]:
        return Gatherer(deployment.study, partition, deployment.roster, ports, monitor).run()

    await retry_while_unavailable(run, monitor, partition_part(partition))


async def _follow_ledger(deployment: Deployment, log: Log, monitor: ProcessMonitor) -> None:
    """Show the state of the ledger on the monitor; returns when the last period is released."""

    async def follow() -> None:
        public = PublicReader(log, deployment.study)
        try:
            # The whole ledger is read before anything is shown, so that metrics do not go back to old periods.
            await public.catch_up_ledger()
            while True:
                monitor.mark_ledger_read()
                monitor.show_ledger(public.ledger)
                if public.is_over:
                    return
                await public.poll_ledger(timeout=0.5)
        finally:
            await public.close()

    await retry_while_unavailable(follow, monitor, LEDGER)
