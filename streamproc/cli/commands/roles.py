"""`run`, `gather` and `synthesize`: the roles, together or apart."""

from __future__ import annotations

import asyncio
import functools

from streamproc.cli.role_options import RoleOptions
from streamproc.cli.role_server import STUDY_OVER, serve_role
from streamproc.errors import InvalidInput
from streamproc.log.port import Log
from streamproc.service.deployment import Deployment
from streamproc.service.logging_setup import event
from streamproc.service.monitor import ProcessMonitor
from streamproc.service.registration import register_stream
from streamproc.service.workers import gather, synthesize


def run(deployment: Deployment, serving: RoleOptions, *, again: bool, catch_up: bool, until_done: bool) -> None:
    """Run all roles in this process."""

    register = functools.partial(register_stream, deployment, again=again)

    async def work(log: Log, health: ProcessMonitor) -> None:
        started = asyncio.Event()
        health.begin_gathering()  # not ready before, although the synthesizer reads the ledger first
        async with asyncio.TaskGroup() as group:
            group.create_task(
                synthesize(deployment, log, health, catch_up=catch_up, create=True, started=started, register=register)
            )
            await started.wait()  # a refused start changes nothing: no gatherer sends anything either
            group.create_task(gather(deployment, log, health))
        if not until_done:
            event(STUDY_OVER)
            await asyncio.Event().wait()

    serve_role(deployment, serving, work)


def gather_command(deployment: Deployment, serving: RoleOptions, *, partitions: tuple[int, ...]) -> None:
    """Run gatherers for the partitions assigned or named."""
    count = deployment.study.broker.partitions
    for partition in partitions:
        if partition >= count:
            raise InvalidInput(f"--partition {partition}: the study has partitions 0..{count - 1}")
    serve_role(deployment, serving, lambda log, health: gather(deployment, log, health, sorted(set(partitions))))


def synthesize_command(deployment: Deployment, serving: RoleOptions, *, again: bool, catch_up: bool) -> None:
    """Run the synthesizer."""
    register = functools.partial(register_stream, deployment, again=again)
    serve_role(
        deployment, serving, lambda log, health: synthesize(deployment, log, health, catch_up=catch_up, register=register)
    )
