"""Panels as files. Parquet carries the release's contract and measurements, so it answers by itself; CSV does not."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np

from streamproc.errors import InvalidInput, PanelFileError
from streamproc.files.csv import release_csv
from streamproc.files.parquet import read_table, write_table
from streamproc.files.study_files import is_parquet, open_for_reading, open_for_writing, read_release, write_release_csv
from streamproc.files.table import refuse_file
from streamproc.panel import Panel
from streamproc.panel.frames import panel_from_arrow, panel_to_arrow
from streamproc.panel.metadata import Metadata
from streamproc.releases.kind import Contract


def save_panel(panel: Panel, path: str | Path) -> None:
    """Write a panel as `.parquet`, `.csv` or `.csv.gz`. The file appears whole or not at all."""
    path = Path(path)
    if is_parquet(path):
        table = panel_to_arrow(panel)
        with open_for_writing(path) as file:
            write_table(path, file, table)
        return
    if not panel.columns:
        refuse_file(path, f"release {panel.contract.name} has no columns yet, and CSV cannot say so; expected .parquet")
    columns = np.stack(panel.columns, axis=1)
    if path.suffix.lower() != ".gz":
        write_release_csv(path, columns, panel.contract.alphabet)
        return
    # No name and no time in it: the same panel gives the same bytes.
    with open_for_writing(path) as file, gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
        for piece in release_csv(columns, panel.contract.alphabet):
            packed.write(piece)


def load_panel(path: str | Path, contract: Contract | None = None) -> Panel:
    """The panel in a file. CSV, and Parquet from elsewhere, need the release's contract.

    A file that was changed since it was written, or that cannot be of this release, is refused with a PanelFileError.
    """
    path = Path(path)
    try:
        if is_parquet(path):
            with open_for_reading(path) as file:
                return panel_from_arrow(read_table(path, file), contract)
        if contract is None:
            refuse_file(path, "CSV does not carry the release's contract, so it must be given: load_panel(path, contract)")
        columns = read_release(path, contract.alphabet)
        return Metadata(contract).panel_of([np.ascontiguousarray(column) for column in columns.T])
    except PanelFileError:
        raise
    except InvalidInput as error:
        refuse_file(path, str(error))
