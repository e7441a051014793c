"""The files of CONTRACT: studies, panels and releases. Every mistake in one is a one-line InvalidInput.

No message quotes a panel: it names the line and the column.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from streamproc.errors import InvalidInput, RosterUnavailable
from streamproc.files.csv import read_csv, release_csv
from streamproc.files.parquet import read_parquet
from streamproc.files.table import Table, TableLayout, refuse_file
from streamproc.protocol.reports import MAX_ID
from streamproc.replay.people import People
from streamproc.storage.filesystem import atomic_write, display_path
from streamproc.study import Study, parse_study

_PARQUET = (".parquet", ".pq")
_CSV = (".csv", ".gz")


def read_study(path: str | Path) -> Study:
    """The study in a TOML file."""
    path = Path(path)
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{display_path(path)}: expected text in UTF-8, but byte {error.start} is not") from None
    except (OSError, ValueError) as error:
        raise InvalidInput(f"{display_path(path)}: cannot be read: {_why(error)}") from None
    return parse_study(text, f"study file {display_path(path)}")


def read_people(path: str | Path, study: Study) -> People:
    """What a panel file says people reported: `individual,1,...,T`, a row per person, an empty cell if missing."""
    path = Path(path)
    cells = _read(path, TableLayout("individual", study.alphabet, study.horizon, gaps=True))
    _check_ids(path, cells)
    expected = study.population.size
    if study.population.roster is None and expected is not None and expected != len(cells.first):
        refuse_file(
            path,
            f"people in it: {len(cells.first)}, expected {expected}, the study's population.size, which may be left out",
        )
    return People(tuple(cells.first), cells.codes)


def check_enrolled(path: Path, histories: People, roster: Collection[str]) -> None:
    """Refuse a panel with somebody who is not on the roster."""
    strangers = count_strangers(histories, roster)
    if strangers:
        refuse_file(path, f"people in it who are not on the roster: {strangers}; expected none")


def count_strangers(histories: People, roster: Collection[str]) -> int:
    """How many of a panel's people are not on the roster."""
    listed = frozenset(roster)
    return sum(1 for individual in histories.ids or () if individual not in listed)


def _check_ids(path: Path, cells: Table) -> None:
    if "" in cells.first:
        refuse_file(path, f"line {cells.lines[cells.first.index('')]}, column 1: expected an id, but the cell is empty")
    if len(set(cells.first)) < len(cells.first):
        seen: dict[str, int] = {}
        for line, name in zip(cells.lines, cells.first, strict=True):
            if name in seen:
                refuse_file(path, f"line {line}, column 1: the id of line {seen[name]} again; expected each id once")
            seen[name] = line


def read_release(path: str | Path, alphabet: Sequence[str]) -> npt.NDArray[np.uint8]:
    """The columns of a release file, (rows, t) alphabet indices. A cumulative release has the alphabet `("0", "1")`."""
    path = Path(path)
    cells = _read(path, TableLayout("synthetic", tuple(alphabet), None, gaps=False))
    numbers = list(map(str, range(len(cells.first))))
    if cells.first != numbers:
        row = next(row for row, name in enumerate(cells.first) if name != numbers[row])
        refuse_file(path, f"line {cells.lines[row]}, column 1: expected the number of the row, {row}")
    return cells.codes.astype(np.uint8)


def write_release_csv(path: str | Path, columns: npt.NDArray[np.uint8], alphabet: Sequence[str]) -> None:
    """Write `columns`, (rows, t) alphabet indices, as `synthetic,1,...,t`. The file appears whole or not at all."""
    _check_columns(columns, alphabet)
    with open_for_writing(Path(path)) as file:
        for piece in release_csv(columns, alphabet):
            file.write(piece)


def _check_columns(columns: npt.NDArray[np.uint8], alphabet: Sequence[str]) -> None:
    # No rows is possible: a histogram's noise may leave no synthetic people.
    if columns.ndim != 2 or not columns.shape[1] or columns.dtype != np.uint8 or (columns >= len(alphabet)).any():
        raise InvalidInput(f"a release: expected a (rows, periods) array of uint8 below {len(alphabet)}")


def _read(path: Path, layout: TableLayout) -> Table:
    read = read_parquet if is_parquet(path) else read_csv
    with open_for_reading(path) as file:
        return read(path, file, layout)


def is_parquet(path: Path) -> bool:
    """Whether a name means Parquet or CSV; one that means neither is refused."""
    suffix = path.suffix.lower()
    if suffix not in _PARQUET + _CSV:
        refuse_file(path, "expected a name that ends in .csv, .csv.gz or .parquet")
    return suffix in _PARQUET


def open_for_reading(path: Path) -> BinaryIO:
    """The opened file; one that cannot be read is the user's to mend."""
    try:
        return path.open("rb")
    except (OSError, ValueError) as error:
        refuse_file(path, f"cannot be read: {_why(error)}")


@contextmanager
def open_for_writing(path: Path, mode: int = 0o666) -> Iterator[BinaryIO]:
    """`replacing`, where a failure to write is the user's to mend."""
    try:
        with atomic_write(path, mode) as file:
            yield file
    except OSError as error:
        refuse_file(path, f"cannot be written: {_why(error)}")


def _why(error: OSError | ValueError) -> str:
    """The system's reason. A ValueError is a NUL in the name."""
    return (error.strerror if isinstance(error, OSError) else None) or "no such file"


def read_roster(path: Path) -> tuple[str, ...]:
    """The ids in a roster file, one a line; empty lines are skipped. A message names the line, never the id."""
    try:
        lines = path.read_bytes().decode("utf-8-sig").split("\n")
    except UnicodeDecodeError:
        raise InvalidInput(f"roster {path}: is not UTF-8 text") from None
    except OSError as error:
        raise RosterUnavailable(f"roster {path}: cannot be read: {error.strerror}") from None
    seen: dict[str, int] = {}
    for number, line in enumerate(lines, start=1):
        individual = line.removesuffix("\r")
        if not individual.strip():
            continue
        if len(individual) > MAX_ID:
            raise InvalidInput(f"roster {path}: line {number}: an id has at most {MAX_ID} characters")
        if individual in seen:
            raise InvalidInput(f"roster {path}: line {number}: an id that stands in line {seen[individual]} already")
        seen[individual] = number
    if not seen:
        raise InvalidInput(f"roster {path}: holds no id")
    return tuple(seen)
