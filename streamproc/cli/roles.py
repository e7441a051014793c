"""`run`, `gather` and `synthesize`: the roles, together or apart."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from streamproc.cli.deployed import first_error, on_deployment, run_until_told
from streamproc.cli.options import seed_option
from streamproc.errors import InvalidInput, Refused, StreamprocError
from streamproc.ports.log import Log
from streamproc.service.deployment import Deployment
from streamproc.service.health import Health, patiently
from streamproc.service.logs import event, set_up_logs
from streamproc.service.roles import gather, synthesize

if TYPE_CHECKING:
    from streamproc.service.listeners import Listener
    from streamproc.service.status_page import StatusPage
    from streamproc.service.status_page.follower import Shown

KNOCK = 3.0
"""Seconds for a broker to answer before a log line says that it is away."""

OVER = "the last period is released; the study is over"


def _role(command: Callable[..., None]) -> Callable[..., None]:
    """The options of every long-running role."""
    for option in (
        click.option(
            "--public", metavar="HOST:PORT", help="Serve the status page and public /metrics, /livez and /readyz there."
        ),
        click.option(
            "--operator",
            metavar="HOST:PORT",
            help="Serve the operator's /metrics, /livez and /readyz there; beyond this machine only with a token.",
        ),
        click.option("--stay", is_flag=True, help="Once the study is over, or the role refuses to go on, wait to be told."),
        click.option("--log-json", is_flag=True, help="Log lines as JSON."),
        click.option("--debug", is_flag=True, help="More log lines."),
    ):
        command = option(command)
    return on_deployment(command)


_catch_up = click.option("--catch-up", is_flag=True, help="Close all periods the schedule missed.")


@click.command()
@_role
@seed_option
@_catch_up
@click.option("--until-done", is_flag=True, help="End when period T is released.")
def run(deployment: Deployment, *, catch_up: bool, until_done: bool, **listeners: str | bool | None) -> None:
    """All roles of a study in one process."""

    async def work(log: Log, health: Health) -> None:
        started = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(synthesize(deployment, log, health, catch_up=catch_up, started=started))
            await started.wait()  # a refused start changes nothing: no gatherer sends anything either
            group.create_task(gather(deployment, log, health))
        if not until_done:
            event(OVER)
            await asyncio.Event().wait()

    _serve(deployment, work, **listeners)  # type: ignore[arg-type]


@click.command("gather")
@_role
@click.option("--partition", "partitions", type=click.IntRange(min=0), multiple=True, help="Only these; may be repeated.")
def gather_command(deployment: Deployment, *, partitions: tuple[int, ...], **listeners: str | bool | None) -> None:
    """Gather reports: of the partitions the group assigns, or of those named."""
    count = deployment.study.broker.partitions
    for partition in partitions:
        if partition >= count:
            raise InvalidInput(f"--partition {partition}: the study has partitions 0..{count - 1}")
    _serve(deployment, lambda log, health: gather(deployment, log, health, sorted(set(partitions))), **listeners)  # type: ignore[arg-type]


@click.command("synthesize")
@_role
@seed_option
@_catch_up
def synthesize_command(deployment: Deployment, *, catch_up: bool, **listeners: str | bool | None) -> None:
    """Synthesize and publish; one process per study."""
    _serve(deployment, lambda log, health: synthesize(deployment, log, health, catch_up=catch_up), **listeners)  # type: ignore[arg-type]


def _serve(
    deployment: Deployment,
    work: Callable[[Log, Health], Awaitable[None]],
    *,
    public: str | None,
    operator: str | None,
    stay: bool,
    log_json: bool,
    debug: bool,
) -> None:
    set_up_logs(as_json=log_json, level="DEBUG" if debug else "INFO")
    health = Health(deployment)
    listeners, page = _listeners(health, public, operator), _page(deployment, public, health)
    if page is not None:
        page.attach(listeners[0].app)

    async def serve() -> None:
        async with AsyncExitStack() as stack:
            for listener in listeners:
                address = await listener.start()
                stack.push_async_callback(listener.stop)
                event("listening", address=f"{address.host}:{address.port}")
            await patiently(lambda: _knock(deployment), health)
            log = await patiently(lambda: stack.enter_async_context(deployment.connect()), health)
            event("connected", study=deployment.study.name, broker=deployment.broker.url)
            if page is not None:
                await stack.enter_async_context(page.following(log))
            await (_stay(work(log, health), health) if stay else work(log, health))
            event(OVER)

    try:
        run_until_told(serve())
    except StreamprocError as error:
        if not log_json:
            raise
        # Who reads lines of JSON reads the last one too.
        event(str(error), logging.ERROR, exit_code=error.exit_code)
        raise SystemExit(error.exit_code) from None


async def _stay(work: Awaitable[None], health: Health) -> None:
    """Do the work, then keep the listeners up: a supervisor that starts what ended again would only hide how it ended.

    A role that refused lets go of its state folder, so that it can be restored in place. Told to stop, it ends with exit 3.
    """
    try:
        await work
        event(OVER)
    except* Refused as refusals:
        health.refused()
        refusal = first_error(refusals)
        event(f"{refusal}; waiting to be told to stop", logging.ERROR)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise refusal from None
    await asyncio.Event().wait()


def _listeners(health: Health, public: str | None, operator: str | None) -> list[Listener]:
    if public is None and operator is None:
        return []
    # Slow to import, and most processes do not listen.
    from streamproc.service.listeners import Address, Listener, operator_listener
    from streamproc.service.operator_token import read_token

    listeners = []
    if public is not None:
        listeners.append(Listener(Address.parse(public), health.public.registry, lambda: health.publicly_ready))
    if operator is not None:
        address, registry = Address.parse(operator), health.operator.registry
        listeners.append(operator_listener(address, registry, lambda: health.ready, read_token(os.environ)))
    return listeners


def _page(deployment: Deployment, public: str | None, health: Health) -> StatusPage | None:
    """What the first listener shows, if it is the public one."""
    if public is None:
        return None
    from streamproc.service.status_page import StatusPage

    def show_counts(shown: Shown) -> None:
        """Also those of a study that was over before this process started, and whose synthesizer may be elsewhere."""
        for history in shown.histories.values():
            if history.counts:
                health.public.show_counts(history.contract, history.counts[-1])

    return StatusPage(replace(deployment.study, broker=deployment.broker), show_counts)


async def _knock(deployment: Deployment) -> None:
    """That nobody is there is said within seconds, however patient the connection is later on."""
    async with replace(deployment, timeout=min(KNOCK, deployment.timeout)).connect():
        pass
