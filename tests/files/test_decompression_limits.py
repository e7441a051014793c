"""Small panel files that unpack to something huge: refused in one line, in little memory."""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streamproc.errors import PanelFileError
from streamproc.files.csv import MAX_ROW
from streamproc.files.release_files import read_release
from streamproc.files.study_files import read_people
from streamproc.study import Study, parse_study
from tests.bad_input import PANEL_STUDY
from tests.memory import memory_taken

MIB = 1 << 20
MOST = 8 * MIB
"""Bytes of memory that refusing a bomb may take: a row, its cells, and what is read ahead."""
HEADER = b"individual,1,2,3\n"


@pytest.fixture
def study() -> Study:
    """Of any number of people: a bomb must not be refused for its size alone."""
    return parse_study(PANEL_STUDY.replace("size = 2\n", ""))


def packed(pieces: Iterable[bytes]) -> bytes:
    file = io.BytesIO()
    with gzip.GzipFile("", "wb", 1, file, mtime=0) as unpacked:
        for piece in pieces:
            unpacked.write(piece)
    return file.getvalue()


BOMBS: dict[str, tuple[Iterable[bytes], str]] = {
    "a row of commas": ((HEADER, *[b"," * MIB] * 24), "line 2 or later: expected a row of at most"),
    "a header of commas": ((b"," * MIB,) * 24, "line 1 or later: expected a row of at most"),
    "a cell without end": ((HEADER, *[b"a" * MIB] * 24), "line 2 or later: expected a row of at most"),
    "a quote never closed": ((HEADER, b'"', *[b"a\n" * MIB] * 12), "no cell above 128 kB"),
    "a row whose every cell holds a line end": ((HEADER, *[b'"\n",' * (MIB // 4)] * 24), "expected a row of at most"),
    "one person a million times": ((HEADER, *[b"zoe,0,0,0\n" * 10_000] * 100), "line 3, column 1: repeats the id of line 2"),
    "nothing but NUL": ((HEADER, *[b"\0" * MIB] * 24), "line 2"),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_packed_bomb_is_refused_in_little_memory(tmp_path: Path, study: Study, bomb: str) -> None:
    pieces, reason = BOMBS[bomb]
    path = tmp_path / "p.csv.gz"
    path.write_bytes(packed(pieces))
    with memory_taken() as memory, pytest.raises(PanelFileError, match=reason):
        read_people(path, study)
    assert path.stat().st_size < MIB // 2
    assert memory.peak <= MOST


def test_a_row_as_long_as_it_may_be_is_read(tmp_path: Path, study: Study) -> None:
    """Its cells are short enough, its line is not: the symbols are what is wrong."""
    path = tmp_path / "p.csv"
    cell = b"x" * 100_000
    path.write_bytes(HEADER + b",".join([cell] * (MAX_ROW // len(cell) - 1)) + b"\n")
    with pytest.raises(PanelFileError, match="line 2: expected 4 cells"):
        read_people(path, study)


def test_a_release_that_repeats_a_row_is_refused_where_it_does(tmp_path: Path) -> None:
    path = tmp_path / "r.csv.gz"
    path.write_bytes(packed((b"synthetic,1\n", *[b"0,1\n" * 100_000] * 10)))
    reason = "line 3, column 1: expected the number of the row, 1"
    with memory_taken() as memory, pytest.raises(PanelFileError, match=reason):
        read_release(path, ("0", "1"))
    assert memory.peak <= 16 * MIB


def test_a_parquet_file_of_one_person_a_million_times_is_refused_in_little_memory(tmp_path: Path, study: Study) -> None:
    path = tmp_path / "p.parquet"
    same = pa.DictionaryArray.from_arrays(pa.nulls(2_000_000, pa.int8()).fill_null(0), pa.array(["0"]))
    pq.write_table(pa.table([same] * 4, names=["individual", "1", "2", "3"]), path)
    with memory_taken() as memory, pytest.raises(PanelFileError, match="line 3, column 1: repeats the id of line 2"):
        read_people(path, study)
    assert path.stat().st_size < MIB // 2
    assert memory.peak <= MOST
