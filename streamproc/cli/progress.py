"""A progress bar for people: on standard error if that is a terminal, else nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


@contextmanager
def progress(things: str, total: int) -> Iterator[Callable[[], None]]:
    """Call what this yields after each of `total` things."""
    console = Console(stderr=True)
    columns = (MofNCompleteColumn(), TextColumn(things), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(things, total=total)
        yield lambda: bar.advance(task)
