"""Where results go: numbers to CSV, tables to the terminal, figures to PNG."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

Cell = str | int | float


def _console() -> Console:
    """The terminal; a file or a pipe gets lines wide enough for every table."""
    return Console() if sys.stdout.isatty() else Console(width=150)


@dataclass(frozen=True)
class Settings:
    """What every experiment is told."""

    out: Path
    """Folder for figures and numbers; `out/cache` keeps what was downloaded."""
    runs: int = 300
    """Repetitions of each release."""
    actcal: Path | None = None
    """The actcal panel as a panel file; None takes it from PyPI."""
    console: Console = field(default_factory=_console)

    def csv(self, name: str, header: Sequence[str], rows: Iterable[Sequence[Cell]]) -> None:
        """Write `out/name`; floats with six significant digits."""
        self.out.mkdir(parents=True, exist_ok=True)
        with (self.out / name).open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(header)
            writer.writerows([f"{cell:.6g}" if isinstance(cell, float) else cell for cell in row] for row in rows)

    def show(self, title: str, header: Sequence[str], rows: Iterable[Sequence[Cell]], note: str = "") -> None:
        """Print a table; a column is aligned to the right unless its cells are words."""
        table = Table(title=title, title_justify="left", title_style="bold", caption=note or None, caption_justify="left")
        listed = [[f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in row] for row in rows]
        for place, name in enumerate(header):
            words = any(row[place][:1].isalpha() for row in listed)
            table.add_column(name, justify="left" if words else "right", overflow="fold")
        for row in listed:
            table.add_row(*row)
        self.console.print(table)
        self.console.print()


def percent(share: float) -> str:
    """A share in percent, with enough digits to compare errors."""
    return f"{100 * share:.3f}"
