"""Files of releases: panels as Parquet or CSV, and the folder that a replay writes.

Parquet carries the release's contract and measurements; CSV carries the columns only. A replay writes `<release>.csv` for
each release, `summary.json`, and `errors.csv` if it was repeated. Only its owner may read `errors.csv`, which holds
exact answers.
"""

from __future__ import annotations

import gzip
import json
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from streamproc.errors import InvalidInput, PanelFileError
from streamproc.files.csv import release_csv
from streamproc.files.parquet import read_table, write_table
from streamproc.files.study_files import read_table_file
from streamproc.files.table import TableLayout, is_parquet, open_for_reading, open_for_writing, refuse_file
from streamproc.offline.evaluation import HEADER
from streamproc.offline.people import MISSING
from streamproc.offline.summary import Summary
from streamproc.panel import Panel
from streamproc.panel.frames import panel_from_arrow, panel_to_arrow
from streamproc.panel.metadata import Metadata
from streamproc.panel.open_columns import cells_of_columns, columns_of_cells, empty_cell
from streamproc.releases.kind import Contract
from streamproc.storage.filesystem import display_path


def read_release(path: str | Path, alphabet: Sequence[str], *, gaps: bool = False) -> npt.NDArray[np.uint8]:
    """Read the columns of a release file as alphabet indices of shape (rows, t). Raises PanelFileError.

    A cumulative release has the alphabet `("0", "1")`. With `gaps`, for an open study, a cell may be empty: its code is
    `empty_cell`.
    """
    path = Path(path)
    table = read_table_file(path, TableLayout("synthetic", tuple(alphabet), None, gaps=gaps))
    numbers = list(map(str, range(len(table.first))))
    if table.first != numbers:
        row = next(row for row, name in enumerate(table.first) if name != numbers[row])
        refuse_file(path, f"line {table.lines[row]}, column 1: expected the number of the row, {row}")
    return np.where(table.codes == MISSING, empty_cell(alphabet), table.codes).astype(np.uint8)


def write_release_csv(
    path: str | Path, columns: npt.NDArray[np.uint8], alphabet: Sequence[str], *, gaps: bool = False
) -> None:
    """Write alphabet indices of shape (rows, t) with the header `synthetic,1,...,t`. The file is replaced atomically.

    With `gaps`, for an open study, a cell of the code `empty_cell` is written empty.
    """
    _check_columns(columns, len(alphabet) + gaps)
    with open_for_writing(Path(path)) as file:
        for piece in release_csv(columns, alphabet):
            file.write(piece)


def _check_columns(columns: npt.NDArray[np.uint8], codes: int) -> None:
    # There may be no rows, because the noise of a histogram may leave no synthetic people.
    if columns.ndim != 2 or not columns.shape[1] or columns.dtype != np.uint8 or (columns >= codes).any():
        raise InvalidInput(f"a release: expected a (rows, periods) array of uint8 below {codes}")


def panel_cells(panel: Panel) -> npt.NDArray[np.uint8]:
    """The table of a panel as alphabet indices of shape (rows, t), for `release_csv`; there is at least one column.

    In an open study the code of a cell is `empty_cell` while the synthetic person is not present.
    """
    return np.stack(cells_of_columns(panel.contract, panel.columns), axis=1)


def save_panel(panel: Panel, path: str | Path) -> None:
    """Write a panel as `.parquet`, `.csv` or `.csv.gz`. The file is replaced atomically. Raises PanelFileError."""
    path = Path(path)
    if is_parquet(path):
        table = panel_to_arrow(panel)
        with open_for_writing(path) as file:
            write_table(path, file, table)
        return
    if not panel.columns:
        refuse_file(path, f"release {panel.contract.name} has no columns yet, which CSV cannot represent; expected .parquet")
    cells = panel_cells(panel)
    if path.suffix.lower() != ".gz":
        write_release_csv(path, cells, panel.contract.alphabet, gaps=panel.contract.is_open)
        return
    # Without a name and a time in the gzip header, the same panel gives the same bytes.
    with open_for_writing(path) as file, gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
        for piece in release_csv(cells, panel.contract.alphabet):
            packed.write(piece)


def load_panel(path: str | Path, contract: Contract | None = None) -> Panel:
    """Read a panel from a file. CSV, and Parquet that another program wrote, need the release's contract.

    Raises PanelFileError if the file was changed after it was written, or cannot belong to this release.
    """
    path = Path(path)
    try:
        if is_parquet(path):
            with open_for_reading(path) as file:
                return panel_from_arrow(read_table(path, file), contract)
        if contract is None:
            refuse_file(path, "CSV does not carry the release's contract, so it must be given: Panel.load(path, contract)")
        cells = read_release(path, contract.alphabet, gaps=contract.is_open)
        columns = columns_of_cells(contract, [np.ascontiguousarray(column) for column in cells.T])
        return Metadata(contract).panel_of(columns)
    except PanelFileError:
        raise
    except InvalidInput as error:
        refuse_file(path, str(error))


SUMMARY = "summary.json"
ERRORS = "errors.csv"

_PRIVATE = 0o600


def results_folder(folder: Path, releases: Collection[str], inputs: Collection[Path]) -> None:
    """Create the folder if needed. Raises InvalidInput if it cannot be written to or if a result would replace an input."""
    try:
        for path in [folder / name for name in (SUMMARY, ERRORS, *map(_release_file, releases))]:
            if path.exists() and any(path.samefile(read) for read in inputs):
                raise InvalidInput(
                    f"{display_path(path)}: is an input and would be replaced; choose another folder to write to"
                )
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except FileExistsError:
        raise InvalidInput(f"{display_path(folder)}: expected a folder to write to, but it is a file") from None
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "the system does not allow this name"
        raise InvalidInput(f"{display_path(folder)}: expected a folder to write to: {why}") from None


def write_results(folder: Path, panels: Mapping[str, Panel], summary: Summary, *, repeated: bool) -> list[Path]:
    """Write every release, then the summary, and return their paths in that order. Each file is replaced atomically."""
    paths = []
    if not repeated:
        (folder / ERRORS).unlink(missing_ok=True)  # It belongs to an earlier run.
    for name, panel in panels.items():
        paths.append(folder / _release_file(name))
        write_release_csv(paths[-1], panel_cells(panel), panel.contract.alphabet, gaps=panel.contract.is_open)
    paths.append(folder / SUMMARY)
    write_json(paths[-1], summary)
    return paths


def write_json(path: Path, values: Mapping[str, Any]) -> None:
    """Write plain values to a JSON file. The file is replaced atomically."""
    with open_for_writing(path) as file:
        file.write(json_text(values).encode())


@contextmanager
def writing_errors(folder: Path) -> Iterator[BinaryIO]:
    """Open `errors.csv` and write its header. The file contains exact answers, so only its owner may read it."""
    with open_for_writing(folder / ERRORS, _PRIVATE) as file:
        file.write(HEADER.encode())
        yield file


def json_text(values: Mapping[str, Any]) -> str:
    """Return values as indented JSON, as in files and on the terminal."""
    return json.dumps(values, indent=1, allow_nan=False) + "\n"


def _release_file(release: str) -> str:
    return f"{release}.csv"
