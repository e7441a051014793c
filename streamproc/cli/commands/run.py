"""`run`, `gather` and `synthesize`: run the roles, in one process or in separate ones."""

from __future__ import annotations

import asyncio
import functools

from streamproc.cli.options import RoleOptions
from streamproc.cli.role_server import STUDY_OVER, serve_role
from streamproc.errors import InvalidInput
from streamproc.log.port import Log
from streamproc.service.deployment import Deployment
from streamproc.service.logging_setup import event
from streamproc.service.monitor import ProcessMonitor
from streamproc.service.registration import register_stream
from streamproc.service.workers import gather, synthesize


def run(deployment: Deployment, options: RoleOptions, *, again: bool, catch_up: bool, until_done: bool) -> None:
    """Run all roles in this process. With `until_done` it exits after the last period, else it keeps running."""
    register = functools.partial(register_stream, deployment, again=again)

    async def work(log: Log, monitor: ProcessMonitor) -> None:
        started = asyncio.Event()
        monitor.begin_gathering()  # not ready until partitions are gathered, although the ledger is read earlier
        async with asyncio.TaskGroup() as group:
            group.create_task(
                synthesize(deployment, log, monitor, catch_up=catch_up, create=True, started=started, register=register)
            )
            await started.wait()  # if the synthesizer refuses to start, no gatherer may send tallies
            group.create_task(gather(deployment, log, monitor))
        if not until_done:
            event(STUDY_OVER)
            await asyncio.Event().wait()

    serve_role(deployment, options, work)


def gather_command(deployment: Deployment, options: RoleOptions, *, partitions: tuple[int, ...]) -> None:
    """Run gatherers for the partitions named, or for those that the group assigns if none is named."""
    count = deployment.study.broker.partitions
    for partition in partitions:
        if partition >= count:
            raise InvalidInput(f"--partition {partition}: the study has partitions 0..{count - 1}")
    serve_role(deployment, options, lambda log, monitor: gather(deployment, log, monitor, sorted(set(partitions))))


def synthesize_command(deployment: Deployment, options: RoleOptions, *, again: bool, catch_up: bool) -> None:
    """Run the synthesizer."""
    register = functools.partial(register_stream, deployment, again=again)
    serve_role(
        deployment, options, lambda log, monitor: synthesize(deployment, log, monitor, catch_up=catch_up, register=register)
    )
