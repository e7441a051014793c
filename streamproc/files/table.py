"""What panel and release files share: a table with a row per person and a column per period."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from streamproc.errors import PanelFileError
from streamproc.replay.people import MISSING
from streamproc.storage.filesystem import display_path

FOREIGN = -2
"""Stands, while a file is read, where a cell is no symbol of the alphabet."""


@dataclass(frozen=True)
class TableLayout:
    """What the file has to look like."""

    first: str
    """Name of the column that says whose row it is."""
    alphabet: tuple[str, ...]
    periods: int | None
    """Number of columns after it, named 1, 2, ...; None takes as many as there are."""
    gaps: bool
    """Whether a cell may be empty."""

    def check_header(self, path: Path, names: Sequence[str]) -> None:
        """Refuse other columns. A file without a header begins with a person, so the names are not shown."""
        periods = len(names) - 1 if self.periods is None else self.periods
        expected = [self.first, *map(str, range(1, periods + 1))]
        wanted = f"expected the header {self.first},1,...,{'t' if self.periods is None else periods}"
        if len(names) != len(expected) or periods == 0:
            refuse_file(path, f"line 1: {wanted} of {max(periods, 1) + 1} columns, but there are {len(names)}")
        for column, (name, due) in enumerate(zip(names, expected, strict=True), start=1):
            if name != due:
                refuse_file(path, f"line 1, column {column}: {wanted}, so this column must be named {due}")

    def check_codes(self, path: Path, codes: npt.NDArray[np.int8], lines: Sequence[int] | range) -> None:
        """Refuse the first cell that is no symbol, by its place: `codes` has a row for each of `lines`."""
        wrong = codes < (MISSING if self.gaps else 0)
        if wrong.any():
            row, column = np.unravel_index(int(wrong.argmax()), wrong.shape)
            empty = ", exactly as the study writes it, or nothing if it is missing" if self.gaps else ""
            where = f"line {lines[int(row)]}, column {int(column) + 2} (period {int(column) + 1})"
            refuse_file(path, f"{where}: expected one of the {len(self.alphabet)} symbols of the alphabet{empty}")


@dataclass(frozen=True, eq=False, repr=False)
class Table:
    """What a file holds: `first` has the first column, `codes` (rows, periods) the alphabet indices or MISSING."""

    first: list[str]
    codes: npt.NDArray[np.int8]
    lines: Sequence[int]
    """Where each row is, for messages."""


def refuse_file(path: Path, reason: str) -> NoReturn:
    """Say on one line that a file cannot be used. `from None`: what went wrong inside may quote the file."""
    raise PanelFileError(f"{display_path(path)}: {reason}") from None
