"""Panels and releases as CSV: UTF-8 (a byte order mark is skipped), commas, any line endings, gzip if named `.gz`."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from _csv import Reader
from array import array
from collections.abc import Iterator, Sequence
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

import numpy as np
import numpy.typing as npt

from streamproc.files.table import FOREIGN, Table, TableLayout, refuse_file
from streamproc.offline.people import MISSING

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_CELLS_AT_ONCE = 1 << 16
"""Cells per batch: few enough that Python's garbage collector does not traverse the same rows repeatedly."""
_BYTES_AT_ONCE = 1 << 24
"""Bytes of a release that are formatted at a time."""

MAX_ROW = 1 << 21
"""Maximum length of a row in bytes. 10,000 quoted cells of the longest symbols and an id take less."""
_AHEAD = 1 << 16
"""Size of the read buffer in bytes."""


class _EndlessRow(Exception):
    """A row is longer than MAX_ROW."""


class _Bounded(io.RawIOBase):
    """Reads a file and limits the length of each row, because a small gzip file can contain a row of many gigabytes."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.since = 0
        """Bytes read since the last complete row. The reader of the rows resets it."""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Read into a buffer. Raises _EndlessRow if the current row is too long."""
        into = memoryview(buffer)
        part = self._file.read(len(into))
        into[: len(part)] = part
        self.since += len(part)
        if self.since > MAX_ROW + 2 * _AHEAD:
            raise _EndlessRow
        return len(part)


class _Codes(dict[str, int]):
    """Maps a cell to its alphabet index, and every other text to FOREIGN."""

    def __missing__(self, cell: str) -> int:
        return FOREIGN


def read_csv(path: Path, file: BinaryIO, layout: TableLayout) -> Table:
    """Read a table from a CSV file. Raises PanelFileError, whose message names the place and never the content.

    If a value of the first column is repeated, which the caller refuses, the rows after that batch may be missing.
    """
    unpacked = gzip.GzipFile(fileobj=file) if path.suffix.lower() == ".gz" else file
    bounded = _Bounded(cast(BinaryIO, unpacked))
    with io.TextIOWrapper(io.BufferedReader(bounded, _AHEAD), encoding="utf-8-sig", newline="") as text:
        reader = csv.reader(text, strict=True)
        try:
            return _read(path, reader, layout, bounded)
        except _EndlessRow:
            refuse_file(path, f"line {reader.line_num + 1} or later: expected a row of at most {MAX_ROW} bytes")
        except UnicodeDecodeError:
            refuse_file(path, f"line {reader.line_num + 1} or later: expected text in UTF-8")
        except csv.Error:
            refuse_file(path, f"line {reader.line_num}: expected CSV, every quote closed, no cell above 128 kB")
        except (gzip.BadGzipFile, EOFError, zlib.error):
            refuse_file(path, "expected a whole gzip file")
        except OSError as error:
            refuse_file(path, f"cannot be read: {error.strerror}")


def _read(path: Path, reader: Reader, layout: TableLayout, bounded: _Bounded) -> Table:
    header = next(reader, None)
    if header is None:
        refuse_file(path, "line 1: expected a header, but the file is empty")
    layout.check_header(path, header)
    first: list[str] = []
    seen: set[str] = set()
    lines = array("q")
    parts: list[npt.NDArray[np.int8]] = []
    code = _Codes({symbol: index for index, symbol in enumerate(layout.alphabet)} | {"": MISSING}).__getitem__
    for places, rows in _batches(reader, max(1, _CELLS_AT_ONCE // len(header)), bounded):
        _check_widths(path, places, rows, len(header))
        cells = chain.from_iterable(map(itemgetter(slice(1, None)), rows))
        codes = np.fromiter(map(code, cells), np.int8, len(rows) * (len(header) - 1))
        parts.append(codes.reshape(len(rows), -1))
        layout.check_codes(path, parts[-1], places)
        first.extend(map(itemgetter(0), rows))
        lines.extend(places)
        seen.update(first[-len(rows) :])
        if len(seen) < len(first):
            break  # The caller refuses repeated values. A small gzip file can contain one row a billion times.
    if not parts:
        refuse_file(path, "line 2: expected at least one row after the header")
    return Table(first, np.concatenate(parts), lines)


def _batches(reader: Reader, at_once: int, bounded: _Bounded) -> Iterator[tuple[list[int], list[list[str]]]]:
    """Yield batches of rows that are not blank, with the number of the line that each row ends on."""
    places: list[int] = []
    rows: list[list[str]] = []
    for row in reader:
        bounded.since = 0
        if row:
            places.append(reader.line_num)
            rows.append(row)
        if len(rows) == at_once:
            yield places, rows
            places, rows = [], []
    if rows:
        yield places, rows


def _check_widths(path: Path, lines: Sequence[int], rows: Sequence[list[str]], width: int) -> None:
    widths = list(map(len, rows))
    if widths.count(width) < len(widths):
        row = next(row for row, cells in enumerate(widths) if cells != width)
        refuse_file(path, f"line {lines[row]}: expected {width} cells, as in the header, but there are {widths[row]}")


def release_csv(columns: npt.NDArray[np.uint8], alphabet: Sequence[str]) -> Iterator[bytes]:
    """Yield a release as pieces of CSV: header `synthetic,1,...,t`, rows numbered from 0.

    `columns` holds alphabet indices of shape (rows, t). The code after the last symbol is that of an empty cell.
    """
    rows, periods = columns.shape
    yield ",".join(["synthetic", *map(str, range(1, periods + 1))]).encode() + b"\n"
    cells = _padded([*(b"," + _quoted(symbol) for symbol in alphabet), b","])
    digits = len(str(max(rows - 1, 0)))
    # `_decimal` takes 8 bytes for each digit of a row's number, so that a release of one period needs fewer rows at once.
    step = max(1, _BYTES_AT_ONCE // (9 * digits + periods * cells.shape[1] + 1))
    for start in range(0, rows, step):
        block = columns[start : start + step]
        numbers = np.arange(start, start + len(block))
        newline = np.full((len(block), 1), ord("\n"), np.uint8)
        body = cells[block].reshape(len(block), -1)
        flat = np.concatenate([_decimal(numbers, digits), body, newline], axis=1).ravel()
        # Cells of unequal length are padded with NUL, which no printable symbol contains.
        yield flat[flat != 0].tobytes()


def _quoted(symbol: str) -> bytes:
    if "," in symbol or '"' in symbol:
        symbol = '"' + symbol.replace('"', '""') + '"'
    return symbol.encode()


def _padded(cells: Sequence[bytes]) -> npt.NDArray[np.uint8]:
    width = max(map(len, cells))
    return np.frombuffer(b"".join(cell.ljust(width, b"\0") for cell in cells), np.uint8).reshape(-1, width)


def _decimal(numbers: npt.NDArray[np.int64], digits: int) -> npt.NDArray[np.uint8]:
    """Return each number in ASCII, with NUL in place of leading zeros."""
    powers = 10 ** np.arange(digits - 1, -1, -1)
    written = (numbers[:, None] // powers % 10 + ord("0")).astype(np.uint8)
    written[(numbers[:, None] < powers) & (powers > 1)] = 0
    return written
