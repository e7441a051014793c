"""Costs and other numbers, as people read them in every command."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click
from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from streamproc.privacy.adjacency import Adjacency
from streamproc.privacy.directed_rounding import decimal_up
from streamproc.privacy.zcdp import epsilon_of_rho
from streamproc.service.release_stages import Stage

if TYPE_CHECKING:
    from streamproc.protocol.registry_format import Composition


INSECURE = "INSECURE: the noise came from a seed. It protects nobody."
"""Said wherever a person sees what a seeded run released."""


def format_epsilon(epsilon: float) -> str:
    """Every epsilon that a person is shown: to three significant digits, as on the status page, never smaller than it is."""
    return format_rounded_up(epsilon, digits=3)


def format_rounded_up(cost: float, digits: int = 4) -> str:
    """A cost to so many significant digits, never shown smaller than it is."""
    return decimal_up(cost, digits)


def format_composition(total: Composition, delta: float) -> str:
    """What the registered releases of the same people cost together."""
    what = f"{format_count(total.releases, 'release')} of the same people"
    if total.rho is None or total.rho_replace_one is None:
        return f"{what} have a cost without a bound, since {total.seeded} came from a seed"
    rho = f"rho {format_rounded_up(total.rho)} ({total.adjacency.value})"
    epsilon = f"epsilon {format_epsilon(epsilon_of_rho(total.rho, delta))} at delta {format_delta(delta)}"
    beside = ""
    if total.adjacency is not Adjacency.REPLACE_ONE:
        beside = beside_replace_one(total.rho_replace_one, epsilon_of_rho(total.rho_replace_one, delta))
    return f"{what} cost {rho}, {epsilon}{beside}"


def format_unknown(streams: int) -> str:
    """How many registered streams have people whom the registry cannot compare with others."""
    count = format_count(streams, "stream")
    return f"registry: {count} without a roster, whose people it cannot recognise, may add to the cost"


def format_delta(delta: float) -> str:
    """As a study file writes it: 1e-6, not 1e-06."""
    return f"{delta:g}".replace("e-0", "e-")


def format_count(count: int, name: str) -> str:
    """So many of something: "1 period", "2,000 periods"."""
    return f"{count:,} {name}{'' if count == 1 else 's'}"


def format_number(value: float) -> str:
    """Three significant digits, thousands apart."""
    return f"{value:,.0f}" if 100 <= value < 1e8 else f"{value:.3g}"


def beside_replace_one(rho: float | None, epsilon: float | None) -> str:
    """What a sentence about a zero-out study's cost goes on with; nothing for a study that declares replace-one."""
    if rho is None or epsilon is None:
        return ""
    return f"; the same noise under replace-one: rho {format_rounded_up(rho)}, epsilon {format_epsilon(epsilon)}"


LEAST, WIDTH = 80, 100
"""Columns at the least, as a narrower terminal breaks a line but loses nothing of it; and at the most, and without one."""


NAME = 12
"""Characters of a name that stand in one line."""


def table_console() -> Console:
    """Standard output, on which text is shown as it is."""
    console = Console(highlight=False, markup=False, emoji=False)
    console.width = min(max(console.width, LEAST), WIDTH) if console.is_terminal else WIDTH
    return console


def add_names(table: Table, heading: str, names: Iterable[str]) -> None:
    """A column of names, of which long ones are folded."""
    table.add_column(heading, overflow="fold", min_width=min(max(map(len, [heading, *names])), NAME))


def print_table(console: Console, table: Table) -> None:
    """At its own width where that is more than the console's: a terminal breaks its lines, and squeezes no column."""
    natural = Measurement.get(console, console.options.update(width=10 * WIDTH), table).maximum
    folded = sum(
        max(len(str(cell)) for cell in column.cells) - column.min_width
        for column in table.columns
        if column.min_width is not None
    )
    before, console.width = console.width, max(console.width, natural - folded)
    console.print(table)
    console.width = before


def titled_table(title: str | None = None) -> Table:
    """A table without columns yet."""
    return Table(
        title=None if title is None else Text(title, style="bold"),
        title_justify="left",
        caption_justify="left",
        caption_style="",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )


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
