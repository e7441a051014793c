"""How every long-running role is served: its log lines and listeners, and how it waits, stays and ends."""

from __future__ import annotations

import asyncio
import functools
import logging
import os
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from streamproc.cli.deployment_options import first_error, run_until_stopped
from streamproc.cli.formatting import INSECURE
from streamproc.cli.role_options import RoleOptions
from streamproc.errors import Refused, StreamprocError
from streamproc.log.port import Log
from streamproc.service.deployment import Deployment
from streamproc.service.logging_setup import event, set_up_logs
from streamproc.service.monitor import ProcessMonitor
from streamproc.service.retry import retry_while_unavailable

if TYPE_CHECKING:
    from streamproc.service.http_server import Listener
    from streamproc.status_page import StatusPage
    from streamproc.status_page.follower import PageSnapshot

PROBE_TIMEOUT_S = 3.0
"""Seconds for a broker to answer before a log line says that it is away."""

STUDY_OVER = "the last period is released; the study is over"


def serve_role(deployment: Deployment, serving: RoleOptions, work: Callable[[Log, ProcessMonitor], Awaitable[None]]) -> None:
    """Do the work of a role once its broker answers, and show how it goes until it ends or is told to stop."""
    set_up_logs(deployment.study.name, as_json=serving.log_json, level="DEBUG" if serving.debug else "INFO")
    if deployment.seed is not None:
        event(INSECURE, logging.WARNING)
    health = ProcessMonitor(deployment)
    listeners, page = _listeners(health, serving), _page(deployment, health) if serving.public is not None else None
    if page is not None:
        page.attach(listeners[0].app)

    async def work_and_listen() -> None:
        async with AsyncExitStack() as stack:
            log = await listen_and_connect(stack, listeners, deployment, health)
            if page is not None:
                await stack.enter_async_context(page.following(log))
            await (_stay(work(log, health), health) if serving.stay else work(log, health))
            event(STUDY_OVER)

    run_and_log(work_and_listen(), as_json=serving.log_json)


async def listen_and_connect(
    stack: AsyncExitStack, listeners: Sequence[Listener], deployment: Deployment, health: ProcessMonitor
) -> Log:
    """Start the listeners, then wait for the broker. Both last until the stack is left."""
    deployment = replace(deployment, on_slow_connection=_say_connecting_once(deployment.broker.url))
    for listener in listeners:
        address = await listener.start()
        stack.push_async_callback(listener.stop)
        event("listening", address=f"{address.host}:{address.port}")
    await retry_while_unavailable(lambda: _probe(deployment), health)
    log = await retry_while_unavailable(lambda: stack.enter_async_context(deployment.connect()), health)
    event("connected", broker=deployment.broker.url)
    return log


def run_and_log(work: Coroutine[Any, Any, None], *, as_json: bool) -> None:
    """Run until the work ends or the process is told to stop; with `as_json` an error is the last line of the log."""
    try:
        if run_until_stopped(work):
            event("stopped, as told")
    except StreamprocError as error:
        if not as_json:
            raise
        # Who reads lines of JSON reads the last one too.
        event(str(error), logging.ERROR, exit_code=error.exit_code)
        raise SystemExit(error.exit_code) from None


async def _stay(work: Awaitable[None], health: ProcessMonitor) -> None:
    """Do the work, then keep the listeners up: a supervisor that starts what ended again would only hide how it ended.

    A role that refused lets go of its state folder, so that it can be restored in place. Told to stop, it ends with exit 3.
    """
    try:
        await work
        event(STUDY_OVER)
    except* Refused as refusals:
        health.refused()
        refusal = first_error(refusals)
        event(f"{refusal}; waiting to be told to stop", logging.ERROR)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise refusal from None
    await asyncio.Event().wait()


def _listeners(health: ProcessMonitor, serving: RoleOptions) -> list[Listener]:
    """The public one first."""
    if serving.public is None and serving.operator is None:
        return []
    # Slow to import, and most processes do not listen.
    from streamproc.service.http_server import Address, operator_listener, read_token

    listeners = []
    if serving.public is not None:
        listeners.append(public_listener(health, serving.public))
    if serving.operator is not None:
        address, registry = Address.parse(serving.operator), health.operator.registry
        listeners.append(operator_listener(address, registry, lambda: health.ready, read_token(os.environ)))
    return listeners


def public_listener(health: ProcessMonitor, address: str) -> Listener:
    """Shows what is public of `health`."""
    from streamproc.service.http_server import Address, Listener

    metrics = health.public
    return Listener(Address.parse(address), metrics.registry, lambda: health.publicly_ready, version=lambda: metrics.version)


def _page(deployment: Deployment, health: ProcessMonitor) -> StatusPage:
    """What the public listener shows."""
    from streamproc.status_page import StatusPage

    return StatusPage(replace(deployment.study, broker=deployment.broker), lambda shown: show_metrics(health, shown))


def show_metrics(health: ProcessMonitor, shown: PageSnapshot) -> None:
    """Show as metrics what the page shows: also what was released before this process started."""
    if shown.following and shown.problem is None:
        health.show_ledger(shown.ledger)
    for history in shown.histories.values():
        if history.counts:
            health.public.show_counts(history.contract, history.counts[-1])


def _say_connecting_once(url: str) -> Callable[[], None]:
    """A function that logs it the first time it is called: later attempts to connect are logged when they fail."""

    @functools.cache
    def say() -> None:
        event("connecting", broker=url)

    return say


async def _probe(deployment: Deployment) -> None:
    """That nobody is there is said within seconds, however patient the connection is later on."""
    async with replace(deployment, timeout=min(PROBE_TIMEOUT_S, deployment.timeout)).connect():
        pass
