"""`page`: serve the status page from a separate process that needs only an analyst's rights."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial

from streamproc.cli.role_server import STUDY_OVER, listen_and_connect, public_listener, run_and_log, update_public_metrics
from streamproc.errors import LogError, NotAllowed
from streamproc.service.deployment import Deployment
from streamproc.service.logging_setup import event, set_up_logs
from streamproc.service.monitor import LEDGER, ProcessMonitor
from streamproc.status_page import StatusPage
from streamproc.status_page.follower import PageSnapshot


def page(deployment: Deployment, *, public: str, log_json: bool, debug: bool) -> None:
    """Serve the status page until SIGTERM or Ctrl-C."""
    set_up_logs(deployment.study.name, as_json=log_json, level="DEBUG" if debug else "INFO")
    monitor = ProcessMonitor(deployment)
    listener = public_listener(monitor, public)

    def report_outage(problem: LogError) -> None:
        if isinstance(problem, NotAllowed):
            raise problem
        monitor.mark_degraded(f"the broker is away, trying again: {problem}", LEDGER)

    status_page = StatusPage(
        replace(deployment.study, broker=deployment.broker), partial(update_monitor, monitor), on_outage=report_outage
    )
    status_page.attach(listener.app)

    async def listen() -> None:
        async with AsyncExitStack() as stack:
            log = await listen_and_connect(stack, [listener], deployment, monitor)
            await status_page.follow(log)
            event(STUDY_OVER)
            await asyncio.Event().wait()

    run_and_log(listen(), as_json=log_json)


def update_monitor(monitor: ProcessMonitor, snapshot: PageSnapshot) -> None:
    """Set readiness and metrics from a snapshot. The process is ready while it follows the topics and finds no problem."""
    if snapshot.following and snapshot.problem is None:
        monitor.mark_ledger_read()
    else:
        monitor.mark_ledger_unread()
    update_public_metrics(monitor, snapshot)
