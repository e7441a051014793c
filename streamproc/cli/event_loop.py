"""How commands run asynchronous work: each command makes one call here, which runs an event loop until the work ends.

- `run_once` is for commands that do one thing and exit, within --timeout unless the command waits on purpose.
- `run_until_stopped` is for commands that continue until SIGTERM or Ctrl-C stops them, which is a successful end.
- `until_stdout_closes` wraps work that mostly waits, and ends it when nobody reads standard output any more.

When several tasks fail together, the process exits with one error: `first_error` selects it.
"""

from __future__ import annotations

import asyncio
import select
import signal
import sys
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from streamproc.errors import BrokerUnavailable, StreamprocError

if TYPE_CHECKING:
    from streamproc.service.deployment import Deployment

Result = TypeVar("Result")

STDOUT_POLL_S = 0.5
"""Seconds between two checks whether standard output still has a reader."""


def run_once(deployment: Deployment, work: Coroutine[Any, Any, Result], *, limit_time: bool = True) -> Result:
    """Run `work` and return its result. Raises BrokerUnavailable (exit 5) after the deployment's timeout.

    With `limit_time=False` the work may take any time: its single requests to the broker still time out.
    """

    async def bounded() -> Result:
        try:
            async with asyncio.timeout(deployment.timeout if limit_time else None):
                return await work
        except TimeoutError:
            raise BrokerUnavailable(f"{deployment.broker.url}: no answer within {deployment.timeout:g} s") from None

    return _run(bounded())


def run_until_stopped(work: Coroutine[Any, Any, None]) -> bool:
    """Run `work` until it ends or SIGTERM or Ctrl-C cancels it. Returns True if a signal did."""

    async def stoppable() -> bool:
        loop = asyncio.get_running_loop()
        task = asyncio.ensure_future(work)
        signalled = asyncio.Event()

        def stop() -> None:
            signalled.set()
            task.cancel()

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop)
        try:
            await task
        except asyncio.CancelledError:
            if not signalled.is_set():
                raise
        return signalled.is_set()

    return _run(stoppable())


def _run(work: Coroutine[Any, Any, Result]) -> Result:
    try:
        return asyncio.run(work)
    except BaseExceptionGroup as group:
        # `except*` cannot be used: before Python 3.11.4 it wraps what it raises in a group again, and Debian 12 has 3.11.2.
        expected, _ = group.split(StreamprocError)
        if expected is None:
            raise
        raise first_error(expected) from None


def first_error(error: BaseException) -> BaseException:
    """Return the error to show out of a group: a refusal (exit code 3) if there is one, else the first."""
    while isinstance(error, BaseExceptionGroup):
        error = max(error.exceptions, key=lambda one: getattr(one, "exit_code", 0) == 3)
    return error


async def until_stdout_closes(work: Coroutine[Any, Any, None]) -> None:
    """Run `work`, and exit as SIGPIPE would if the reader of standard output goes away first.

    A process notices a closed pipe only when it writes, so work that waits for hours has to poll.
    """
    task = asyncio.ensure_future(work)
    try:
        while not task.done():
            if _stdout_is_closed():
                sys.exit(128 + signal.SIGPIPE)
            await asyncio.wait([task], timeout=STDOUT_POLL_S)
        await task
    finally:
        task.cancel()
        await asyncio.wait([task])


def _stdout_is_closed() -> bool:
    try:
        descriptor = sys.stdout.fileno()
    except (OSError, ValueError):
        return False  # standard output is not a file
    poll = select.poll()
    poll.register(descriptor, 0)  # an empty mask: poll() reports errors and hang-ups in any case
    return any(event & select.POLLERR for _, event in poll.poll(0))
