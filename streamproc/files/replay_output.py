"""The files that a replay writes to its folder: `<release>.csv`, `summary.json`, and `errors.csv` if it was repeated."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from streamproc.errors import InvalidInput
from streamproc.files.release_files import write_release_csv
from streamproc.files.table import open_for_writing
from streamproc.panel import Panel
from streamproc.replay.evaluation import HEADER
from streamproc.replay.summary import Summary
from streamproc.storage.filesystem import display_path

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
        why = error.strerror if isinstance(error, OSError) else "not a name the system allows"
        raise InvalidInput(f"{display_path(folder)}: expected a folder to write to: {why}") from None


def write_results(folder: Path, panels: Mapping[str, Panel], summary: Summary, *, repeated: bool) -> list[Path]:
    """Write every release, then the summary, and return their paths in that order. Each file is replaced atomically."""
    paths = []
    if not repeated:
        (folder / ERRORS).unlink(missing_ok=True)  # It belongs to an earlier run.
    for name, panel in panels.items():
        paths.append(folder / _release_file(name))
        write_release_csv(paths[-1], np.stack(panel.columns, axis=1), panel.contract.alphabet)
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
