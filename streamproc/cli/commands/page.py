"""`page`: the status page in a process of its own, which needs no more than an analyst's rights."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial

from streamproc.cli.role_server import STUDY_OVER, listen_and_connect, public_listener, run_and_log, show_metrics
from streamproc.errors import LogError, NotAllowed
from streamproc.service.deployment import Deployment
from streamproc.service.logging_setup import event, set_up_logs
from streamproc.service.monitor import LEDGER, ProcessMonitor
from streamproc.status_page import StatusPage
from streamproc.status_page.follower import PageSnapshot


def page(deployment: Deployment, *, public: str, log_json: bool, debug: bool) -> None:
    """Serve the status page until told to stop."""
    set_up_logs(deployment.study.name, as_json=log_json, level="DEBUG" if debug else "INFO")
    health = ProcessMonitor(deployment)
    listener = public_listener(health, public)

    def report(problem: LogError) -> None:
        if isinstance(problem, NotAllowed):
            raise problem
        health.mark_degraded(f"the broker is away, trying again: {problem}", LEDGER)

    status_page = StatusPage(replace(deployment.study, broker=deployment.broker), partial(show_health, health), away=report)
    status_page.attach(listener.app)

    async def listen() -> None:
        async with AsyncExitStack() as stack:
            log = await listen_and_connect(stack, [listener], deployment, health)
            await status_page.follow(log)
            event(STUDY_OVER)
            await asyncio.Event().wait()

    run_and_log(listen(), as_json=log_json)


def show_health(health: ProcessMonitor, shown: PageSnapshot) -> None:
    """Show the metrics of what the page shows. It is ready as long as it reads the topics and finds no problem in them."""
    if shown.following and shown.problem is None:
        health.mark_ledger_read()
    else:
        health.mark_ledger_unread()
    show_metrics(health, shown)
