"""Retry of a role's work while the broker is unavailable, shown by the process's monitor."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from streamproc.errors import LogUnavailable, NotAllowed, OutcomeUnknown
from streamproc.log.backoff import Backoff
from streamproc.service.monitor import CONNECTION, ProcessMonitor

Result = TypeVar("Result")

MIN_RETRY_PAUSE_S, MAX_RETRY_PAUSE_S = 0.5, 30.0
"""Seconds between two attempts: doubled from the first value up to the second."""


async def retry_while_unavailable(
    work: Callable[[], Awaitable[Result]], monitor: ProcessMonitor, part: str = CONNECTION
) -> Result:
    """Do the work and return its result; retry it, with back-off, as long as the broker is unavailable.

    `monitor` shows `part` as degraded until the work is done. Work that runs for long marks its part as healthy itself.
    NotAllowed is raised at once, because a retry does not help.
    """
    backoff, time = Backoff(MIN_RETRY_PAUSE_S, MAX_RETRY_PAUSE_S), asyncio.get_running_loop().time
    try:
        while True:
            began = time()
            try:
                result = await work()
                monitor.mark_healthy(part)
                return result
            except NotAllowed:
                raise
            except (LogUnavailable, OutcomeUnknown) as problem:
                if time() - began > MAX_RETRY_PAUSE_S:
                    backoff.reset()  # the work ran for a while, so this is a new outage
                pause = backoff.next_pause()
                monitor.mark_degraded(f"the broker is away, trying again in {pause:g} s: {problem}", part)
                await asyncio.sleep(pause)
    finally:
        monitor.forget_part(part)
