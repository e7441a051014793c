"""Text for people, the same in every command: numbers, costs, warnings, tables and progress."""

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
from streamproc.privacy.flow_tuning import reported_progress
from streamproc.privacy.zcdp import epsilon_of_rho
from streamproc.service.close import Stage

if TYPE_CHECKING:
    from streamproc.client.public_reader import PublicReader
    from streamproc.protocol.registry_format import Composition
    from streamproc.service.deployment import Deployment


@contextmanager
def tuning_progress() -> Iterator[None]:
    """Show a progress bar on standard error, if that is a terminal, while weights are tuned."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with Progress(TextColumn("Tuning weights"), BarColumn(), TimeRemainingColumn(), console=console, transient=True) as bar:
        task = bar.add_task("tuning", total=1.0, visible=False)
        with reported_progress(lambda done: bar.update(task, completed=done, visible=done < 1)):
            yield


INSECURE = "INSECURE: the noise came from a seed. It protects nobody."
"""The warning that goes with everything a seeded run released."""

MIN_WIDTH, MAX_WIDTH = 80, 100
"""Width of tables in characters. A terminal narrower than MIN_WIDTH breaks lines, but no text is lost. Without a terminal
tables have MAX_WIDTH."""

NAME_WIDTH = 12
"""Characters of a name that are on one line of a table; a longer name is folded."""

STAGE_REPEAT_S = 10.0
"""Minimum seconds between two lines about the same stage, for example while partitions arrive one by one."""

# Numbers


def format_count(count: int, name: str, plural: str | None = None) -> str:
    """Return a count with its noun: "1 period", "2,000 periods". `plural` is needed where it is not the noun with an "s"."""
    return f"{count:,} {name if count == 1 else plural or name + 's'}"


def format_people(count: int) -> str:
    """Return a number of people: "1 person", "2,000 people"."""
    return format_count(count, "person", "people")


def format_number(value: float) -> str:
    """Return a number to three significant digits, or whole with thousands separators from 100 on."""
    return f"{value:,.0f}" if 100 <= value < 1e8 else f"{value:.3g}"


def format_delta(delta: float) -> str:
    """Return a delta as a study file writes it: 1e-6, not 1e-06."""
    return f"{delta:g}".replace("e-0", "e-")


# Costs


def format_rounded_up(cost: float, digits: int = 4) -> str:
    """Return a cost rounded up to `digits` significant digits, so that it is never shown smaller than it is."""
    return decimal_up(cost, digits)


def format_epsilon(epsilon: float) -> str:
    """Return an epsilon rounded up to three significant digits, as on the status page."""
    return format_rounded_up(epsilon, digits=3)


def format_replace_one(rho: float | None, epsilon: float | None) -> str:
    """Return the end of a sentence about a zero-out study's cost: the cost of the same noise under replace-one.

    Returns an empty string for None: a study that declares replace-one has no second cost.
    """
    if rho is None or epsilon is None:
        return ""
    return f"; the same noise under replace-one: rho {format_rounded_up(rho)}, epsilon {format_epsilon(epsilon)}"


def format_composition(total: Composition, delta: float) -> str:
    """Return a sentence without a period about what the registered releases of the same people cost together."""
    what = f"{format_count(total.releases, 'release')} of the same people"
    if total.rho is None or total.rho_replace_one is None:
        return f"{what} have a cost without a bound, since {total.seeded} came from a seed"
    rho = f"rho {format_rounded_up(total.rho)} ({total.adjacency.value})"
    epsilon = f"epsilon {format_epsilon(epsilon_of_rho(total.rho, delta))} at delta {format_delta(delta)}"
    replace_one = ""
    if total.adjacency is not Adjacency.REPLACE_ONE:
        replace_one = format_replace_one(total.rho_replace_one, epsilon_of_rho(total.rho_replace_one, delta))
    return f"{what} cost {rho}, {epsilon}{replace_one}"


def format_unknown_streams(streams: int) -> str:
    """Return a line about registered streams whose people the registry cannot compare with those of others."""
    count = format_count(streams, "stream")
    return f"registry: {count} without a roster, whose people it cannot recognise, may add to the cost"


# Warnings, on standard error


def warn_if_insecure(public: PublicReader) -> None:
    """Print a warning on standard error if the study's noise came from a seed."""
    if public.insecure:
        click.echo(INSECURE, err=True)


def warn_if_not_begun(deployment: Deployment, public: PublicReader) -> None:
    """Print a line on standard error if there is no ledger yet: the address of the broker may be mistyped."""
    if public.ledger is None:
        click.echo(f"{deployment.broker.url}: holds no ledger of {deployment.study.name} yet", err=True)


# Tables


def table_console() -> Console:
    """Return a console on standard output that prints text unchanged, at a width that suits tables."""
    console = Console(highlight=False, markup=False, emoji=False)
    console.width = min(max(console.width, MIN_WIDTH), MAX_WIDTH) if console.is_terminal else MAX_WIDTH
    return console


def new_table(title: str | None = None) -> Table:
    """Return a table in the style of all commands, without columns."""
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


def add_name_column(table: Table, heading: str, names: Iterable[str]) -> None:
    """Add a column for `names`, in which names longer than NAME_WIDTH may be folded."""
    table.add_column(heading, overflow="fold", min_width=min(max(map(len, [heading, *names])), NAME_WIDTH))


def print_table(console: Console, table: Table) -> None:
    """Print a table, wider than the console if its columns need it: a terminal then breaks lines, and nothing is lost."""
    natural = Measurement.get(console, console.options.update(width=10 * MAX_WIDTH), table).maximum
    folded = sum(
        max(len(str(cell)) for cell in column.cells) - column.min_width
        for column in table.columns
        if column.min_width is not None
    )
    before, console.width = console.width, max(console.width, natural - folded)
    console.print(table)
    console.width = before


# Progress, on standard error


@contextmanager
def progress_bar(things: str, total: int) -> Iterator[Callable[[], None]]:
    """Show a progress bar if standard error is a terminal. Yields a function to call after each of `total` things."""
    console = Console(stderr=True)
    columns = (MofNCompleteColumn(), TextColumn(things), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(things, total=total)
        yield lambda: bar.advance(task)


@contextmanager
def show_stages(period: int) -> Iterator[Callable[[Stage], None]]:
    """Show what the release of a closed period waits for. Yields a function to call with the current stage.

    On a terminal this is a spinner, elsewhere a line per stage.
    """
    closed, console = f"period {period} is closed", Console(stderr=True)
    if console.is_terminal:
        with console.status(f"{closed}; waiting for its release") as status:
            yield lambda stage: status.update(f"{closed}; {stage}")
    else:
        yield _stage_printer(closed)


def _stage_printer(prefix: str) -> Callable[[Stage], None]:
    """Return a function that prints each new stage on a line; it must be called in the event loop."""
    last: Stage | None = None
    printed_at = -math.inf

    def show(stage: Stage) -> None:
        nonlocal last, printed_at
        now = asyncio.get_running_loop().time()
        same = last is not None and (last.awaited, last.period) == (stage.awaited, stage.period)
        if stage != last and (not same or now - printed_at >= STAGE_REPEAT_S):
            last, printed_at = stage, now
            click.echo(f"{prefix}; {stage}", err=True)

    return show
