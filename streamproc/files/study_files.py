"""The files that a study is made from: its TOML file, the panel of its people and its roster.

Every error is an InvalidInput on one line. No message quotes a panel or a roster: it names the line and the column.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from streamproc.errors import InvalidInput, RosterUnavailable
from streamproc.files.csv import read_csv
from streamproc.files.parquet import read_parquet
from streamproc.files.table import Table, TableLayout, is_parquet, open_for_reading, reason_of, refuse_file
from streamproc.offline.people import People
from streamproc.protocol.reports import MAX_ID
from streamproc.storage.filesystem import display_path
from streamproc.study import Study, parse_study


def read_study(path: str | Path) -> Study:
    """Read a study from a TOML file. Raises InvalidInput."""
    path = Path(path)
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{display_path(path)}: expected text in UTF-8, but byte {error.start} is not") from None
    except (OSError, ValueError) as error:
        raise InvalidInput(f"{display_path(path)}: cannot be read: {reason_of(error)}") from None
    return parse_study(text, f"study file {display_path(path)}")


def read_people(path: str | Path, study: Study) -> People:
    """Read the reports of all people from a panel file.

    Its header is `individual,1,...,T`; `T` is the horizon, or any number of periods if an open study has none. It has one
    row per person; an empty cell is a missing report. Raises PanelFileError.
    """
    path = Path(path)
    table = read_table_file(path, TableLayout("individual", study.alphabet, study.horizon, gaps=True))
    _check_ids(path, table)
    # The size of an open study is that of the people who are present at one time, and for planning only.
    expected = None if study.is_open else study.population.size
    if study.population.roster is None and expected is not None and expected != len(table.first):
        refuse_file(
            path,
            f"it has {len(table.first)} people, expected {expected}, the study's population.size (which may be left out)",
        )
    return People(tuple(table.first), table.codes)


def check_enrolled(path: Path, people: People, roster: Collection[str]) -> None:
    """Raise PanelFileError if the panel has people who are not on the roster."""
    strangers = count_strangers(people, roster)
    if strangers:
        refuse_file(path, f"it has people who are not on the roster: {strangers}; expected none")


def count_strangers(people: People, roster: Collection[str]) -> int:
    """Return the number of people of a panel who are not on the roster."""
    listed = frozenset(roster)
    return sum(1 for individual in people.ids or () if individual not in listed)


def read_table_file(path: Path, layout: TableLayout) -> Table:
    """Read a CSV or Parquet file, depending on its name. Raises PanelFileError."""
    read = read_parquet if is_parquet(path) else read_csv
    with open_for_reading(path) as file:
        return read(path, file, layout)


def _check_ids(path: Path, table: Table) -> None:
    if "" in table.first:
        refuse_file(path, f"line {table.lines[table.first.index('')]}, column 1: expected an id, but the cell is empty")
    if len(set(table.first)) < len(table.first):
        seen: dict[str, int] = {}
        for line, name in zip(table.lines, table.first, strict=True):
            if name in seen:
                refuse_file(path, f"line {line}, column 1: repeats the id of line {seen[name]}; expected each id once")
            seen[name] = line


def read_roster(path: Path) -> tuple[str, ...]:
    """Read the ids of a roster file, one per line. Empty lines are skipped.

    Raises RosterUnavailable if the file cannot be read, and InvalidInput if its content is wrong. Messages name the line,
    never the id.
    """
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
            raise InvalidInput(
                f"roster {path}: line {number}: repeats the id of line {seen[individual]}; expected each id once"
            )
        seen[individual] = number
    if not seen:
        raise InvalidInput(f"roster {path}: holds no id")
    return tuple(seen)
