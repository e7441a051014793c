"""Runs a long-running role: sets up logging and listeners, connects to the broker, does the work, and exits or stays."""

from __future__ import annotations

import asyncio
import functools
import logging
import os
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from streamproc.cli.event_loop import first_error, run_until_stopped
from streamproc.cli.formatting import INSECURE
from streamproc.cli.options import RoleOptions
from streamproc.errors import Refused, StreamprocError
from streamproc.log.port import Log
from streamproc.log.retry import retry_while_unavailable
from streamproc.service.deployment import Deployment
from streamproc.service.logging_setup import event, set_up_logs
from streamproc.service.monitor import CONNECTION, ProcessMonitor

if TYPE_CHECKING:
    from streamproc.service.http_server import Listener
    from streamproc.status_page import StatusPage
    from streamproc.status_page.follower import PageSnapshot

PROBE_TIMEOUT_S = 3.0
"""Seconds in which a broker must answer at the start before a log line says that it is away."""

STUDY_OVER = "the last period is released; the study is over"


def serve_role(deployment: Deployment, options: RoleOptions, work: Callable[[Log, ProcessMonitor], Awaitable[None]]) -> None:
    """Run the work of a role once its broker answers, with its listeners up, until it ends or a signal stops it."""
    set_up_logs(deployment.study.name, as_json=options.log_json, level="DEBUG" if options.debug else "INFO")
    if deployment.seed is not None:
        event(INSECURE, logging.WARNING)
    monitor = ProcessMonitor(deployment)
    listeners, page = _listeners(monitor, options), _status_page(deployment, monitor) if options.public is not None else None
    if page is not None:
        page.attach(listeners[0].app)

    async def work_and_listen() -> None:
        async with AsyncExitStack() as stack:
            log = await listen_and_connect(stack, listeners, deployment, monitor)
            if page is not None:
                await stack.enter_async_context(page.following(log))
            await (_stay(work(log, monitor), monitor) if options.stay else work(log, monitor))
            event(STUDY_OVER)

    run_and_log(work_and_listen(), as_json=options.log_json)


async def listen_and_connect(
    stack: AsyncExitStack, listeners: Sequence[Listener], deployment: Deployment, monitor: ProcessMonitor
) -> Log:
    """Start the listeners, then wait for the broker. Returns the log; leaving the stack closes it and the listeners."""
    deployment = replace(deployment, on_slow_connection=_log_connecting_once(deployment.broker.url))
    for listener in listeners:
        address = await listener.start()
        stack.push_async_callback(listener.stop)
        event("listening", address=f"{address.host}:{address.port}")
    await retry_while_unavailable(lambda: _probe(deployment), monitor, CONNECTION)
    log = await retry_while_unavailable(lambda: stack.enter_async_context(deployment.connect()), monitor, CONNECTION)
    event("connected", broker=deployment.broker.url)
    return log


def run_and_log(work: Coroutine[Any, Any, None], *, as_json: bool) -> None:
    """Run until the work ends or a signal stops it; with `as_json` an error is the last line of the log."""
    try:
        if run_until_stopped(work):
            event("stopped by a signal")
    except StreamprocError as error:
        if not as_json:
            raise
        # A program that parses the JSON log finds the error there, so it is not printed as text too.
        event(str(error), logging.ERROR, exit_code=error.exit_code)
        raise SystemExit(error.exit_code) from None


async def _stay(work: Awaitable[None], monitor: ProcessMonitor) -> None:
    """Run `work`, then keep the listeners up until a signal: a supervisor that restarts the process would hide how it ended.

    A role that refused has released the lock of its state folder, so that `restore` can run. After a signal it exits with 3.
    """
    try:
        await work
        event(STUDY_OVER)
    except* Refused as refusals:
        monitor.refused()
        refusal = first_error(refusals)
        event(f"{refusal}; waiting for a signal to stop", logging.ERROR)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise refusal from None
    await asyncio.Event().wait()


def _listeners(monitor: ProcessMonitor, options: RoleOptions) -> list[Listener]:
    """Return the listeners that the options name, the public one first."""
    if options.public is None and options.operator is None:
        return []
    # Imported here because it is slow to import and most processes have no listener.
    from streamproc.service.http_server import Address, operator_listener, read_token

    listeners = []
    if options.public is not None:
        listeners.append(public_listener(monitor, options.public))
    if options.operator is not None:
        address, registry = Address.parse(options.operator), monitor.operator.registry
        listeners.append(operator_listener(address, registry, lambda: monitor.ready, read_token(os.environ)))
    return listeners


def public_listener(monitor: ProcessMonitor, address: str) -> Listener:
    """Return a listener that serves the public metrics and the readiness of `monitor`."""
    from streamproc.service.http_server import Address, Listener

    metrics = monitor.public
    return Listener(
        Address.parse(address), metrics.registry, lambda: monitor.publicly_ready, version=lambda: metrics.version
    )


def _status_page(deployment: Deployment, monitor: ProcessMonitor) -> StatusPage:
    """Return the status page that the public listener serves."""
    from streamproc.status_page import StatusPage

    return StatusPage(
        replace(deployment.study, broker=deployment.broker), lambda snapshot: update_public_metrics(monitor, snapshot)
    )


def update_public_metrics(monitor: ProcessMonitor, snapshot: PageSnapshot) -> None:
    """Set the public metrics from a snapshot, which includes what was released before this process started."""
    if snapshot.following and snapshot.problem is None:
        monitor.show_ledger(snapshot.ledger)
    for history in snapshot.histories.values():
        if history.counts:
            monitor.public.show_counts(history.contract, history.period, history.counts[-1])


def _log_connecting_once(url: str) -> Callable[[], None]:
    """Return a function that logs "connecting" on its first call only: later attempts are logged when they fail."""

    @functools.cache
    def log_connecting() -> None:
        event("connecting", broker=url)

    return log_connecting


async def _probe(deployment: Deployment) -> None:
    """Connect with a short timeout, so that an absent broker is reported within seconds."""
    async with replace(deployment, timeout=min(PROBE_TIMEOUT_S, deployment.timeout)).connect():
        pass
