"""What tables for people share: plain where standard output is no terminal, never too wide to read, nor cut off."""

from __future__ import annotations

from collections.abc import Iterable

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

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
