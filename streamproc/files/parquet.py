"""Panels and releases as Parquet. pyarrow is an optional dependency, so it is imported only when it is used."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from streamproc.files.table import FOREIGN, Table, TableLayout, refuse_file
from streamproc.offline.people import MISSING

_ROWS_AT_ONCE = 65_536
_MOST_METADATA = 2**31 - 1
"""Maximum bytes of a string, and maximum entries of a list, in the metadata of a file."""


def _pyarrow(path: Path) -> Any:
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.parquet
    except ImportError:
        refuse_file(path, "Parquet needs pyarrow: pip install streamproc[frames]")
    return pyarrow


def read_table(path: Path, file: BinaryIO) -> Any:
    """Read an Arrow table from `file`. Raises PanelFileError."""
    with _translate_read_errors(path) as pa:
        return _validate(_open(pa, file).read(use_threads=False))


def _validate(data: Any) -> Any:
    """Validate and return a table or batch. Unchecked indices of a damaged file make Arrow read outside its buffers."""
    data.validate(full=True)
    return data


def _open(pa: Any, file: BinaryIO) -> Any:
    """Open a Parquet file. Read it without threads: if a damaged file fails in one thread, others use freed memory."""
    # The metadata of a release contains every measurement of a study, which can exceed the default limits of pyarrow.
    limits = {"thrift_string_size_limit": _MOST_METADATA, "thrift_container_size_limit": _MOST_METADATA}
    return pa.parquet.ParquetFile(file, pre_buffer=False, **limits)


@contextmanager
def _translate_read_errors(path: Path) -> Iterator[Any]:
    """Yield pyarrow. Raises PanelFileError if pyarrow cannot read the file."""
    pa = _pyarrow(path)
    try:
        yield pa
    except (pa.ArrowException, OSError, ValueError) as error:
        refuse_file(path, "expected text in UTF-8" if "UTF8" in str(error) else "expected a whole Parquet file")


def write_table(path: Path, file: BinaryIO, table: Any) -> None:
    """Write an Arrow table and its metadata."""
    _pyarrow(path).parquet.write_table(table, file)


def read_parquet(path: Path, file: BinaryIO, layout: TableLayout) -> Table:
    """Read a table from a Parquet file. Raises PanelFileError; messages count lines as in CSV: the header is line 1."""
    with _translate_read_errors(path) as pa:
        parquet = _open(pa, file)
        names = parquet.schema_arrow.names
    layout.check_header(path, names)
    table = _read_until_repeated(path, parquet)
    if table.num_rows == 0:
        refuse_file(path, "line 2: expected at least one row after the header")
    lines = range(2, table.num_rows + 2)
    # Columns are read by position.
    first = _strings(pa, path, table, 0)
    if first.null_count:
        refuse_file(path, f"line {lines[int(np.argmax(np.asarray(first.is_null())))]}, column 1: expected an id")
    symbols = pa.array([*layout.alphabet, ""])
    codes = np.empty((table.num_rows, table.num_columns - 1), np.int8)
    for period in range(1, table.num_columns):
        column = _strings(pa, path, table, period)
        found = pa.compute.fill_null(pa.compute.index_in(column, value_set=symbols), FOREIGN)
        indices = np.asarray(found)
        empty = np.asarray(column.is_null()) | (indices == len(layout.alphabet))
        codes[:, period - 1] = np.where(empty, MISSING, indices)
    layout.check_codes(path, codes, lines)
    return Table(first.to_pylist(), codes, lines)


def _read_until_repeated(path: Path, parquet: Any) -> Any:
    """Read the table, but stop after the first batch that repeats an id: the caller refuses such a table.

    A small file can contain one row a billion times.
    """
    batches, seen, rows = [], set[str | None](), 0
    with _translate_read_errors(path) as pa:
        for batch in parquet.iter_batches(_ROWS_AT_ONCE, use_threads=False):
            batches.append(_validate(batch))
            rows += batch.num_rows
            seen.update(_strings(pa, path, pa.Table.from_batches([batch]), 0).to_pylist())
            if len(seen) < rows:
                break
        return pa.Table.from_batches(batches, parquet.schema_arrow)


def _strings(pa: Any, path: Path, table: Any, place: int) -> Any:
    """Return a column as strings. It may hold strings or integers, plain or dictionary-encoded, or only nulls."""
    column = table.column(place)
    kind = column.type
    if pa.types.is_dictionary(kind):
        column, kind = column.cast(kind.value_type), kind.value_type
    texts = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    if pa.types.is_floating(kind):  # pandas turns integers with gaps into floats
        column = pa.compute.if_else(pa.compute.is_nan(column), None, column)
        if pa.compute.all(pa.compute.equal(pa.compute.round(column), column)).as_py() is False:
            refuse_file(path, f"column {place + 1}: expected strings or integers, but it holds fractions")
        column, kind = column.cast(pa.int64()), pa.int64()
    if not any(fits(kind) for fits in (*texts, pa.types.is_integer, pa.types.is_null)):
        refuse_file(path, f"column {place + 1}: expected strings or integers, but its type is {kind}")
    return column.cast(pa.string())
