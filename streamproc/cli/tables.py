"""What tables for people share: plain where standard output is no terminal, and never too wide to read."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

WIDTH = 100
"""Columns at the most, and where standard output is no terminal."""


def table_console() -> Console:
    """Standard output, on which text is shown as it is."""
    console = Console(highlight=False, markup=False, emoji=False)
    console.width = min(console.width, WIDTH) if console.is_terminal else WIDTH
    return console


def titled_table(title: str) -> Table:
    """A table without columns yet."""
    return Table(
        title=Text(title, style="bold"),
        title_justify="left",
        caption_justify="left",
        caption_style="",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
