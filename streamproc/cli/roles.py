"""`run`, `gather` and `synthesize`: the roles, together or apart."""

from __future__ import annotations

import asyncio
import functools

import click

from streamproc.cli.options import again_option, seed_option
from streamproc.cli.serving import OVER, Serving, role, serve
from streamproc.errors import InvalidInput
from streamproc.ports.log import Log
from streamproc.service.deployment import Deployment
from streamproc.service.health import Health
from streamproc.service.logs import event
from streamproc.service.registering import register_stream
from streamproc.service.roles import gather, synthesize

_catch_up = click.option("--catch-up", is_flag=True, help="Close all periods the schedule missed.")


@click.command()
@role
@seed_option
@again_option
@_catch_up
@click.option("--until-done", is_flag=True, help="End when period T is released.")
def run(deployment: Deployment, serving: Serving, *, again: bool, catch_up: bool, until_done: bool) -> None:
    """All roles of a study in one process."""

    register = functools.partial(register_stream, deployment, again=again)

    async def work(log: Log, health: Health) -> None:
        started = asyncio.Event()
        health.begin_gathering()  # not ready before, although the synthesizer reads the ledger first
        async with asyncio.TaskGroup() as group:
            group.create_task(synthesize(deployment, log, health, catch_up=catch_up, started=started, register=register))
            await started.wait()  # a refused start changes nothing: no gatherer sends anything either
            group.create_task(gather(deployment, log, health))
        if not until_done:
            event(OVER)
            await asyncio.Event().wait()

    serve(deployment, serving, work)


@click.command("gather")
@role
@click.option(
    "--partition", "partitions", metavar="P", type=click.IntRange(min=0), multiple=True, help="Only these; may be repeated."
)
def gather_command(deployment: Deployment, serving: Serving, *, partitions: tuple[int, ...]) -> None:
    """Gather reports of the partitions assigned or named."""
    count = deployment.study.broker.partitions
    for partition in partitions:
        if partition >= count:
            raise InvalidInput(f"--partition {partition}: the study has partitions 0..{count - 1}")
    serve(deployment, serving, lambda log, health: gather(deployment, log, health, sorted(set(partitions))))


@click.command("synthesize")
@role
@seed_option
@again_option
@_catch_up
def synthesize_command(deployment: Deployment, serving: Serving, *, again: bool, catch_up: bool) -> None:
    """Synthesize and publish; one process per study."""
    register = functools.partial(register_stream, deployment, again=again)
    serve(deployment, serving, lambda log, health: synthesize(deployment, log, health, catch_up=catch_up, register=register))
