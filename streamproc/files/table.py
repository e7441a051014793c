"""Tables in files, with one row per person and one column per period: how they are opened, replaced and checked.

Every error is a PanelFileError on one line. No message quotes a cell: it names the line and the column.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NoReturn

import numpy as np
import numpy.typing as npt

from streamproc.errors import PanelFileError
from streamproc.offline.people import MISSING
from streamproc.storage.filesystem import atomic_write, display_path

FOREIGN = -2
"""Code of a cell that is not a symbol of the alphabet. It occurs only while a file is read."""

_PARQUET = (".parquet", ".pq")
_CSV = (".csv", ".gz")


@dataclass(frozen=True)
class TableLayout:
    """The columns and cells that a file must have."""

    first: str
    """Name of the first column, which identifies the row."""
    alphabet: tuple[str, ...]
    periods: int | None
    """Number of columns after the first, which are named 1, 2, ... None allows any number."""
    gaps: bool
    """Whether a cell may be empty."""

    def check_header(self, path: Path, names: Sequence[str]) -> None:
        """Refuse a header with other columns. The message does not show names, because a file without a header starts with
        a person."""
        periods = len(names) - 1 if self.periods is None else self.periods
        expected = [self.first, *map(str, range(1, periods + 1))]
        wanted = f"expected the header {self.first},1,...,{'t' if self.periods is None else periods}"
        if len(names) != len(expected) or periods == 0:
            refuse_file(path, f"line 1: {wanted} of {max(periods, 1) + 1} columns, but there are {len(names)}")
        for column, (name, due) in enumerate(zip(names, expected, strict=True), start=1):
            if name != due:
                refuse_file(path, f"line 1, column {column}: {wanted}, so this column must be named {due}")

    def check_codes(self, path: Path, codes: npt.NDArray[np.int8], lines: Sequence[int] | range) -> None:
        """Refuse a table with a cell that is not a symbol, and name the place. `codes` has one row for each of `lines`."""
        wrong = codes < (MISSING if self.gaps else 0)
        if wrong.any():
            row, column = np.unravel_index(int(wrong.argmax()), wrong.shape)
            empty = ", exactly as the study writes it, or nothing if it is missing" if self.gaps else ""
            where = f"line {lines[int(row)]}, column {int(column) + 2} (period {int(column) + 1})"
            refuse_file(path, f"{where}: expected one of the {len(self.alphabet)} symbols of the alphabet{empty}")


@dataclass(frozen=True, eq=False, repr=False)
class Table:
    """Content of a file. `codes` has the shape (rows, periods) and holds alphabet indices or MISSING."""

    first: list[str]
    """The first column."""
    codes: npt.NDArray[np.int8]
    lines: Sequence[int]
    """Line number of each row, for messages."""


def refuse_file(path: Path, reason: str) -> NoReturn:
    """Raise PanelFileError with the path and the reason on one line."""
    # `from None`, because the original error may quote the file.
    raise PanelFileError(f"{display_path(path)}: {reason}") from None


def is_parquet(path: Path) -> bool:
    """Return True for the name of a Parquet file and False for CSV. Raises PanelFileError for any other name."""
    suffix = path.suffix.lower()
    if suffix not in _PARQUET + _CSV:
        refuse_file(path, "expected a name that ends in .csv, .csv.gz or .parquet")
    return suffix in _PARQUET


def open_for_reading(path: Path) -> BinaryIO:
    """Open a file. Raises PanelFileError if it cannot be read."""
    try:
        return path.open("rb")
    except (OSError, ValueError) as error:
        refuse_file(path, f"cannot be read: {reason_of(error)}")


@contextmanager
def open_for_writing(path: Path, mode: int = 0o666) -> Iterator[BinaryIO]:
    """Replace a file atomically (`atomic_write`). Raises PanelFileError if it cannot be written."""
    try:
        with atomic_write(path, mode) as file:
            yield file
    except OSError as error:
        refuse_file(path, f"cannot be written: {reason_of(error)}")


def reason_of(error: OSError | ValueError) -> str:
    """Return the system's reason why a file cannot be opened. A ValueError means that the name contains NUL."""
    return (error.strerror if isinstance(error, OSError) else None) or "no such file"
