"""Panels and releases keep what they hold on the way through a file, and a file appears whole or not at all."""

from __future__ import annotations

import csv
import gzip
import os
import stat
import sys
import tempfile
import tracemalloc
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamproc.errors import InvalidInput, PanelFileError
from streamproc.files import csv as panel_csv
from streamproc.files.release_files import read_release, write_release_csv
from streamproc.files.study_files import read_people, read_study
from streamproc.study import Missing, Population, Study, parse_study
from tests.bad_input import GOOD_STUDY, PANEL_STUDY

PANEL = b"individual,1,2,3\nzoe,0,1,\nyan,1,,0\n"
SYMBOLS = [[0, 1, -1], [1, -1, 0]]


@pytest.fixture
def study() -> Study:
    return parse_study(PANEL_STUDY)


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("plain.csv", PANEL),
        ("UPPER.CSV", PANEL),
        ("packed.csv.gz", gzip.compress(PANEL, mtime=0)),
        ("packed.gz", gzip.compress(PANEL, mtime=0)),
        ("mark.csv", b"\xef\xbb\xbf" + PANEL),
        ("windows.csv", PANEL.replace(b"\n", b"\r\n")),
        ("no-last-line-end.csv", PANEL.rstrip()),
        ("blank-lines.csv", PANEL.replace(b"\n", b"\n\n") + b"\n\n"),
        ("quoted.csv", PANEL.replace(b"zoe,0", b'"zoe","0"')),
    ],
)
def test_a_panel_is_read_however_it_is_written(tmp_path: Path, study: Study, name: str, content: bytes) -> None:
    histories = read_people(written(tmp_path / name, content), study)
    assert histories.ids == ("zoe", "yan")
    assert histories.symbols.tolist() == SYMBOLS


def test_an_id_may_be_any_text(tmp_path: Path, study: Study) -> None:
    content = 'individual,1,2,3\n"a ""b"", c\nd",0,0,0\nЖ,1,1,1\n'.encode()
    assert read_people(written(tmp_path / "p.csv", content), study).ids == ('a "b", c\nd', "Ж")


def test_a_bad_cell_is_found_in_any_batch(tmp_path: Path, study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(panel_csv, "_CELLS_AT_ONCE", 12)
    rows = [f"p{row},0,1,{'x' if row == 7 else '0'}" for row in range(10)]
    content = "\n".join(["individual,1,2,3", *rows]).encode()
    with pytest.raises(PanelFileError, match=r"line 9, column 4 \(period 3\)"):
        read_people(written(tmp_path / "p.csv", content), study)


PARQUET_COLUMNS: dict[str, Any] = {
    "strings": [["zoe", "yan"], ["0", "1"], ["1", None], ["", "0"]],
    "integers": [[7, 8], [0, 1], [1, None], [None, 0]],
    "dictionaries": [
        pa.array(["zoe", "yan"]).dictionary_encode(),
        pa.array(["0", "1"]).dictionary_encode(),
        pa.array(["1", None]).dictionary_encode(),
        pa.array([None, 0], pa.int8()).dictionary_encode(),
    ],
    "large": [
        pa.array(["zoe", "yan"], pa.large_string()),
        pa.array(["0", "1"], pa.large_string()),
        pa.array(["1", None], pa.large_string()),
        pa.array(["", "0"], pa.large_string()),
    ],
}


def parquet(path: Path, columns: Sequence[Any], names: Sequence[str] = ("individual", "1", "2", "3")) -> Path:
    pq.write_table(pa.table(list(columns), names=list(names)), path)
    return path


@pytest.mark.parametrize("columns", PARQUET_COLUMNS.values(), ids=PARQUET_COLUMNS)
def test_parquet_may_hold_strings_integers_or_dictionaries(tmp_path: Path, study: Study, columns: Any) -> None:
    columns = [pa.array(column) if isinstance(column, list) else column for column in columns]
    histories = read_people(parquet(tmp_path / "p.parquet", columns), study)
    assert histories.ids in {("zoe", "yan"), ("7", "8")}
    assert histories.symbols.tolist() == SYMBOLS


def test_a_parquet_column_of_nulls_is_missing_throughout(tmp_path: Path, study: Study) -> None:
    columns = [pa.array(["zoe", "yan"]), pa.array(["0", "1"]), pa.nulls(2), pa.nulls(2)]
    histories = read_people(parquet(tmp_path / "p.pq", columns), study)
    assert histories.symbols.tolist() == [[0, -1, -1], [1, -1, -1]]


@pytest.mark.parametrize(
    ("columns", "where"),
    [
        ([["zoe", "yan"], ["0", "1"], ["1", "quux"], ["0", "0"]], r"line 3, column 3 \(period 2\)"),
        ([["zoe", "yan"], [0, 1], [0, 5], [0, 0]], r"line 3, column 3 \(period 2\)"),
        ([["zoe", "yan"], [0.5, 1.0], [0, 0], [0, 0]], "column 2: expected strings or integers, .* fractions"),
        ([["zoe", "yan"], [True, False], [0, 0], [0, 0]], "column 2: expected strings or integers, .* bool"),
        ([["zoe", None], ["0", "1"], ["0", "1"], ["0", "1"]], "line 3, column 1"),
        ([["zoe", ""], ["0", "1"], ["0", "1"], ["0", "1"]], "line 3, column 1"),
        ([["zoe", "zoe"], ["0", "1"], ["0", "1"], ["0", "1"]], "line 3, column 1"),
        ([["zoe"], ["0"], ["0"], ["0"]], "population.size"),
        ([pa.array([], pa.string())] * 4, "at least one row"),
    ],
)
def test_a_bad_parquet_panel_is_refused_without_quoting_it(tmp_path: Path, study: Study, columns: Any, where: str) -> None:
    path = parquet(tmp_path / "p.parquet", [pa.array(column) for column in columns])
    with pytest.raises(PanelFileError, match=where) as caught:
        read_people(path, study)
    assert not any(secret in str(caught.value) for secret in ("zoe", "yan", "quux"))
    assert len(str(caught.value).splitlines()) == 1


def test_parquet_with_another_header_is_refused(tmp_path: Path, study: Study) -> None:
    path = parquet(tmp_path / "p.parquet", [pa.array(["0"])] * 4, ("individual", "1", "3", "2"))
    with pytest.raises(PanelFileError, match="line 1, column 3"):
        read_people(path, study)


def test_parquet_ids_that_are_no_text_are_refused(tmp_path: Path, study: Study) -> None:
    ids = pa.array([b"zoe", b"\xff"]).view(pa.string())
    path = parquet(tmp_path / "p.parquet", [ids, *[pa.array(["0", "1"])] * 3])
    with pytest.raises(PanelFileError, match="expected text in UTF-8"):
        read_people(path, study)


def test_parquet_damaged_within_is_refused_in_one_line(tmp_path: Path, study: Study) -> None:
    path = parquet(tmp_path / "p.parquet", [pa.array(["zoe", "yan"])] * 4)
    content = bytearray(path.read_bytes())
    content[4:60] = b"\xff" * 56
    with pytest.raises(PanelFileError) as caught:
        read_people(written(path, bytes(content)), study)
    assert len(str(caught.value).splitlines()) == 1


def test_without_pyarrow_the_error_names_the_extra(tmp_path: Path, study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    path = parquet(tmp_path / "p.parquet", [pa.array(["zoe", "yan"])] * 4)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(PanelFileError, match=r"pip install streamproc\[frames\]"):
        read_people(path, study)


SYMBOL = st.text(st.characters(exclude_categories=["C", "Z"], exclude_characters="|"), min_size=1, max_size=4)
ALPHABET = st.lists(SYMBOL, min_size=2, max_size=5, unique=True).map(tuple)


@st.composite
def releases(draw: st.DrawFn) -> tuple[npt.NDArray[np.uint8], tuple[str, ...]]:
    alphabet = draw(ALPHABET)
    shape = (draw(st.integers(1, 120)), draw(st.integers(1, 12)))
    seed = draw(st.integers(0, 1000))
    return np.random.default_rng(seed).integers(0, len(alphabet), shape).astype(np.uint8), alphabet


def by_somebody_else(path: Path, columns: npt.NDArray[np.uint8], alphabet: Sequence[str]) -> None:
    """Parquet without a contract, with a dictionary for each period."""
    periods = {str(t): pa.DictionaryArray.from_arrays(pa.array(c), pa.array(alphabet)) for t, c in enumerate(columns.T, 1)}
    pq.write_table(pa.table({"synthetic": pa.array(np.arange(len(columns))), **periods}), path)


@given(releases(), st.sampled_from(["csv", "parquet"]))
def test_a_release_survives_its_file(release: tuple[npt.NDArray[np.uint8], tuple[str, ...]], form: str) -> None:
    columns, alphabet = release
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"r.{form}"
        (write_release_csv if form == "csv" else by_somebody_else)(path, columns, alphabet)
        back = read_release(path, alphabet)
        assert back.dtype == np.uint8
        assert back.tolist() == columns.tolist()
        assert os.listdir(folder) == [path.name]


@given(releases(), st.integers(0, 3))
def test_the_csv_of_a_release_is_what_the_csv_module_would_read(
    release: tuple[npt.NDArray[np.uint8], tuple[str, ...]], size: int
) -> None:
    columns, alphabet = release
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(panel_csv, "_BYTES_AT_ONCE", 10**size)
        text = b"".join(panel_csv.release_csv(columns, alphabet)).decode()
    rows = [[str(number), *(alphabet[index] for index in row)] for number, row in enumerate(columns.tolist())]
    header = ["synthetic", *(str(period + 1) for period in range(columns.shape[1]))]
    assert list(csv.reader(text.splitlines())) == [header, *rows]
    assert text.endswith("\n")


def test_the_csv_of_a_release_byte_by_byte(tmp_path: Path) -> None:
    path = tmp_path / "r.csv"
    write_release_csv(path, np.array([[0, 1], [2, 3]], np.uint8), ("0", "a,b", '"', "é"))
    assert path.read_bytes() == 'synthetic,1,2\n0,0,"a,b"\n1,"""",é\n'.encode()


@st.composite
def panels(draw: st.DrawFn) -> tuple[list[str], list[list[int]], tuple[str, ...]]:
    alphabet = draw(ALPHABET)
    text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=5)
    ids = draw(st.lists(text, min_size=1, max_size=8, unique=True))
    row = st.lists(st.integers(-1, len(alphabet) - 1), min_size=3, max_size=3)
    return ids, draw(st.lists(row, min_size=len(ids), max_size=len(ids))), alphabet


@given(panels(), st.booleans())
def test_a_panel_written_by_anyone_is_read_back(
    panel: tuple[list[str], list[list[int]], tuple[str, ...]], packed: bool
) -> None:
    ids, symbols, alphabet = panel
    study = replace(
        parse_study(PANEL_STUDY),
        alphabet=alphabet,
        population=Population(missing=Missing(), initial=alphabet[0]),
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / ("p.csv.gz" if packed else "p.csv")
        with (gzip.open if packed else open)(path, "wt", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["individual", 1, 2, 3])
            for name, row in zip(ids, symbols, strict=True):
                writer.writerow([name, *("" if index < 0 else alphabet[index] for index in row)])
        histories = read_people(path, study)
    assert histories.ids == tuple(ids)
    assert histories.symbols.tolist() == symbols


@pytest.mark.parametrize(
    ("content", "where"),
    [
        (b"individual,1\n0,0\n", "line 1, column 1"),
        (b"synthetic\n0\n", "line 1"),
        (b"synthetic,1,3\n0,0,0\n", "line 1, column 3"),
        (b"synthetic,1\n1,0\n", "line 2, column 1"),
        (b"synthetic,1\n0,0\n2,0\n", "line 3, column 1"),
        (b"synthetic,1\n0,0\n1,\n", "line 3, column 2"),
        (b"synthetic,1\n0,2\n", "line 2, column 2"),
    ],
)
def test_a_release_without_every_cell_in_its_place_is_refused(tmp_path: Path, content: bytes, where: str) -> None:
    with pytest.raises(PanelFileError, match=where):
        read_release(written(tmp_path / "r.csv", content), ("0", "1"))


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "r.csv", b"old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(PanelFileError, match="cannot be written: No space left on device"):
        write_release_csv(path, np.zeros((2, 2), np.uint8), ("0", "1"))
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["r.csv"]


def test_a_release_is_as_readable_as_any_new_file(tmp_path: Path) -> None:
    write_release_csv(tmp_path / "r.csv", np.zeros((1, 1), np.uint8), ("0", "1"))
    other = written(tmp_path / "other", b"")
    assert stat.S_IMODE((tmp_path / "r.csv").stat().st_mode) == stat.S_IMODE(other.stat().st_mode)


def test_a_release_goes_nowhere_without_its_folder(tmp_path: Path) -> None:
    with pytest.raises(PanelFileError, match="cannot be written: No such file or directory"):
        write_release_csv(tmp_path / "none" / "r.csv", np.zeros((1, 1), np.uint8), ("0", "1"))


@pytest.mark.parametrize("columns", [np.full((1, 1), 2, np.uint8), np.zeros((1, 1)), np.zeros(3, np.uint8)])
def test_only_columns_of_the_alphabet_are_written(tmp_path: Path, columns: Any) -> None:
    with pytest.raises(InvalidInput, match="uint8 below 2"):
        write_release_csv(tmp_path / "r.csv", columns, ("0", "1"))
    assert os.listdir(tmp_path) == []


def test_a_study_is_read_from_its_file(tmp_path: Path) -> None:
    assert read_study(written(tmp_path / "s.toml", GOOD_STUDY.encode())) == parse_study(GOOD_STUDY)
    assert read_study(str(written(tmp_path / "s.toml", b"\xef\xbb\xbf" + GOOD_STUDY.encode()))).name == "poverty"


def test_a_file_that_cannot_be_read_is_named_in_one_line(tmp_path: Path, study: Study) -> None:
    for path in (tmp_path / "none.csv", tmp_path, tmp_path / "a\nb", tmp_path / "a\0b.csv", Path("x" * 300)):
        for read in (read_study, lambda path: read_people(path, study)):
            with pytest.raises(InvalidInput) as caught:
                read(path)
            assert len(str(caught.value).splitlines()) == 1
    folder = tmp_path / "folder.csv"
    folder.mkdir()
    with pytest.raises(InvalidInput, match="Is a directory"):
        read_people(folder, study)
    with pytest.raises(InvalidInput, match="UTF-8, but byte 2"):
        read_study(written(tmp_path / "s.toml", b"ab\xff"))


def test_integers_with_gaps_that_pandas_made_floats_are_symbols_again(tmp_path: Path) -> None:
    frame = pandas.DataFrame({"individual": ["a", "b"], "1": [0.0, 1.0], "2": [None, 1.0], "3": [1.0, None]})
    frame.to_parquet(tmp_path / "panel.parquet")
    study = parse_study(PANEL_STUDY)

    assert read_people(tmp_path / "panel.parquet", study).symbols.tolist() == [[0, -1, 1], [1, 1, -1]]

    frame["2"] = [0.5, 1.0]
    frame.to_parquet(tmp_path / "panel.parquet")
    with pytest.raises(PanelFileError, match="column 3: .* fractions"):
        read_people(tmp_path / "panel.parquet", study)


@pytest.mark.parametrize("periods", [1, 100])
def test_a_release_is_written_as_csv_in_bounded_memory(periods: int) -> None:
    columns = np.zeros((2_000_000 // periods, periods), np.uint8)
    tracemalloc.start()
    try:
        for _ in panel_csv.release_csv(columns, ("0", "1")):
            pass
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 80_000_000, f"{peak / 1e6:.0f} MB"
