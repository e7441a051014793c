"""What every command on a deployed study shares: where it is, and how an asynchronous command runs and ends."""

from __future__ import annotations

import asyncio
import functools
import signal
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from streamproc.cli.options import Command, study_argument
from streamproc.errors import BrokerUnavailable, StreamprocError

if TYPE_CHECKING:
    from streamproc.service.deployment import Deployment

Result = TypeVar("Result")

_OPTIONS = (
    study_argument,
    click.option(
        "--broker",
        metavar="URL",
        help="Where the topics are: embedded:FOLDER (relative to the working folder) or kafka://host:port,... "
        "Default: STREAMPROC_BROKER, else the study's broker.url.",
    ),
    click.option(
        "--state",
        metavar="DIR",
        type=click.Path(path_type=Path),
        help="The folder in which run, gather, synthesize, restore and purge keep state; other commands ignore it. "
        "Default: STREAMPROC_STATE, else NAME.state beside STUDY.",
    ),
)

BROKER_TIMEOUT_HELP = "Seconds before giving up on a broker that does not answer; the work takes as long as it takes."


def timeout_option(meaning: str = "Seconds before giving up.") -> Callable[[Command], Command]:
    """`--timeout`, with what it means to this command."""
    seconds = click.FloatRange(min=0.1)
    return click.option("--timeout", metavar="SECONDS", type=seconds, default=30.0, show_default=True, help=meaning)


def on_deployment(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the arguments STUDY, --broker and --state, as one `deployment`."""

    @functools.wraps(command)
    def wrapped(
        study_path: Path,
        broker: str | None,
        state: Path | None,
        timeout: float = 30.0,
        seed: int | None = None,
        **others: Any,
    ) -> None:
        from streamproc.service.deployment import Deployment  # slow to import, and no part of a command's help

        deployment = Deployment.of(study_path, broker=broker, state=state, timeout=timeout, seed=seed)
        notice = f"connecting to {deployment.broker.url}, giving up after {timeout:g} s"
        command(replace(deployment, on_slow_connection=functools.partial(click.echo, notice, err=True)), **others)

    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return wrapped


def run_once(deployment: Deployment, work: Coroutine[Any, Any, Result], *, waits: bool = False) -> Result:
    """Run a one-shot command; unless it waits for something on purpose, it ends with exit 5 after the time allowed."""

    async def bounded() -> Result:
        try:
            async with asyncio.timeout(None if waits else deployment.timeout):
                return await work
        except TimeoutError:
            raise BrokerUnavailable(f"{deployment.broker.url}: no answer within {deployment.timeout:g} s") from None

    return _run(bounded())


def run_until_stopped(work: Coroutine[Any, Any, None]) -> bool:
    """Run a role until it is done or is told to stop (SIGTERM, Ctrl-C), which is a clean end; whether it was told."""

    async def stoppable() -> bool:
        loop = asyncio.get_running_loop()
        task = asyncio.ensure_future(work)
        told = asyncio.Event()

        def stop() -> None:
            told.set()
            task.cancel()

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop)
        try:
            await task
        except asyncio.CancelledError:
            if not told.is_set():
                raise
        return told.is_set()

    return _run(stoppable())


def _run(work: Coroutine[Any, Any, Result]) -> Result:
    try:
        return asyncio.run(work)
    except BaseExceptionGroup as group:
        # Not `except*`: what it raises is wrapped in a group again before Python 3.11.4, and Debian 12 has 3.11.2.
        ours, _ = group.split(StreamprocError)
        if ours is None:
            raise
        raise first_error(ours) from None


def first_error(error: BaseException) -> BaseException:
    """Of several that failed together, the one to show."""
    while isinstance(error, BaseExceptionGroup):
        error = max(error.exceptions, key=lambda one: getattr(one, "exit_code", 0) == 3)
    return error
