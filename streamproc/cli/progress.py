"""What people see while they wait: on standard error, moving if that is a terminal."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from streamproc.service.release_stages import Stage

LEAST_PAUSE = 10.0
"""Seconds between two lines about the same stage, such as the partitions that are missing one after the other."""


@contextmanager
def progress(things: str, total: int) -> Iterator[Callable[[], None]]:
    """Show a bar on a terminal, and nothing elsewhere. Call what this yields after each of `total` things."""
    console = Console(stderr=True)
    columns = (MofNCompleteColumn(), TextColumn(things), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(things, total=total)
        yield lambda: bar.advance(task)


@contextmanager
def showing_stages(period: int) -> Iterator[Callable[[Stage], None]]:
    """Show what the release of a closed period waits for: with a spinner on a terminal, elsewhere with a line per stage."""
    closed, console = f"period {period} is closed", Console(stderr=True)
    if console.is_terminal:
        with console.status(f"{closed}; waiting for its release") as status:
            yield lambda stage: status.update(f"{closed}; {stage}")
    else:
        yield _stage_lines(closed)


def _stage_lines(closed: str) -> Callable[[Stage], None]:
    """A function, to be called in the event loop, that prints each new stage on a line of its own."""
    last: Stage | None = None
    at = -math.inf

    def show(stage: Stage) -> None:
        nonlocal last, at
        now = asyncio.get_running_loop().time()
        same = last is not None and (last.awaited, last.period) == (stage.awaited, stage.period)
        if stage != last and (not same or now - at >= LEAST_PAUSE):
            last, at = stage, now
            click.echo(f"{closed}; {stage}", err=True)

    return show
