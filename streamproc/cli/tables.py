"""What tables for people share: plain where standard output is no terminal, never too wide to read, nor cut off."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

LEAST, WIDTH = 80, 100
"""Columns at the least, as a narrower terminal breaks a line but loses nothing of it; and at the most, and without one."""


def table_console() -> Console:
    """Standard output, on which text is shown as it is."""
    console = Console(highlight=False, markup=False, emoji=False)
    console.width = min(max(console.width, LEAST), WIDTH) if console.is_terminal else WIDTH
    return console


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
