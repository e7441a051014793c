"""A panel comes back from pandas and Arrow as it was."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given

from streamproc.errors import InvalidInput
from streamproc.files.release_files import load_panel, save_panel
from streamproc.panel import AtLeast, Panel
from tests.panel.released import assert_same, assert_same_columns, panels


@given(panels())
def test_a_panel_comes_back_from_arrow_with_the_same_answers(panel: Panel) -> None:
    assert_same(Panel.from_arrow(panel.to_arrow()), panel)


@given(panels())
def test_a_panel_comes_back_from_pandas_with_what_it_left_behind(panel: Panel) -> None:
    assert_same(Panel.from_pandas(panel.to_pandas(), panel.contract, panel.measurements), panel)


def test_without_measurements_answers_are_the_same_and_intervals_still_honest(cumulative: Panel) -> None:
    found = Panel.from_pandas(cumulative.to_pandas(), cumulative.contract)

    with_ledger, without = cumulative.fraction(AtLeast(2)), found.fraction(AtLeast(2))
    assert without.value == with_ledger.value
    assert without.high - without.low > with_ledger.high - with_ledger.low


def test_a_panel_that_knows_no_measurements_says_so_in_its_table(cumulative: Panel) -> None:
    columns_only = Panel(cumulative.contract, cumulative.columns, None)

    assert Panel.from_arrow(columns_only.to_arrow()).measurements is None


def test_tables_are_laid_out_as_the_contract_says(window: Panel) -> None:
    table, frame = window.to_arrow(), window.to_pandas()

    assert table.column_names == list(frame.columns) == ["synthetic", "1", "2", "3", "4"]
    assert table.column("synthetic").to_pylist() == frame["synthetic"].tolist() == list(range(window.rows))
    symbols = [window.contract.alphabet[code] for code in window.columns[2]]
    assert table.column("3").to_pylist() == frame["3"].tolist() == symbols
    assert table.column("3").chunk(0).dictionary.to_pylist() == list(frame["3"].cat.categories) == ["A", "B", "C"]


def test_arrow_hands_pandas_the_same_frame(window: Panel) -> None:
    pd.testing.assert_frame_equal(window.to_arrow().to_pandas(), window.to_pandas(), check_categorical=False)


@pytest.mark.parametrize(
    "rewritten",
    [
        pytest.param(lambda table: table.cast(pa.schema([("synthetic", pa.int32()), *_plain(table)])), id="strings"),
        pytest.param(lambda table: pa.concat_tables([table.slice(0, 7), table.slice(7)]), id="chunks"),
        pytest.param(lambda table: pa.Table.from_pandas(table.to_pandas(), preserve_index=False), id="through pandas"),
    ],
)
def test_another_way_to_write_the_same_table_is_read(window: Panel, rewritten: Callable[[Any], Any]) -> None:
    assert_same_columns(Panel.from_arrow(rewritten(window.to_arrow()), window.contract), window)


def _plain(table: Any) -> list[tuple[str, Any]]:
    return [(name, pa.large_string()) for name in table.column_names[1:]]


def test_symbols_that_look_like_numbers_may_be_numbers(cumulative: Panel) -> None:
    numbers = cumulative.to_pandas().astype(int)

    assert_same_columns(Panel.from_pandas(numbers, cumulative.contract), cumulative)
    assert_same_columns(Panel.from_arrow(pa.Table.from_pandas(numbers), cumulative.contract), cumulative)


def test_a_table_without_metadata_needs_a_contract(window: Panel) -> None:
    bare = window.to_arrow().replace_schema_metadata(None)

    with pytest.raises(InvalidInput, match="contract must be given"):
        Panel.from_arrow(bare)
    assert_same_columns(Panel.from_arrow(bare, window.contract), window)


ANY: Any = Panel
"""To be given what types forbid."""


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (lambda panel: Panel.from_arrow("ever.parquet"), "expected a Table of pyarrow, got 'ever.parquet'"),
        (lambda panel: Panel.from_arrow(panel.to_pandas()), "expected a Table of pyarrow, got a value of type DataFrame"),
        (lambda panel: ANY.from_arrow(panel.to_arrow(), "ever"), "expected the release's contract, got 'ever'"),
        (lambda panel: ANY.from_pandas(None, panel.contract), "expected a DataFrame of pandas, got nothing"),
        (
            lambda panel: Panel.from_pandas(panel.to_arrow(), panel.contract),
            "DataFrame of pandas, got a value of type Table",
        ),
        (lambda panel: ANY.from_pandas(panel.to_pandas(), None), "expected the release's contract, got nothing"),
        (lambda panel: with_measurements(panel, 5), "measurements: expected those of a Panel, arrays of integers"),
        (lambda panel: with_measurements(panel, [[0.5]]), "measurements: expected those of a Panel"),
        (lambda panel: with_measurements(panel, [["x"]]), "measurements: expected those of a Panel"),
        (lambda panel: with_measurements(panel, [[[None]]]), "measurements: expected those of a Panel"),
        (lambda panel: with_measurements(panel, [[[[1], [2]]]]), "measurements: expected those of a Panel"),
        (lambda panel: with_measurements(panel, [[[2**64 - 1]]]), "measurements: expected those of a Panel"),
        (lambda panel: with_measurements(panel, [[[1, [2]]]]), "measurements: expected those of a Panel"),
        (lambda panel: with_measurements(panel, [[[1]]]), "the measurements are not those of 4 periods of release ever"),
    ],
)
def test_what_is_no_table_no_contract_and_no_measurements_is_refused_in_one_line(
    cumulative: Panel, made: Callable[[Panel], Panel], reason: str
) -> None:
    with pytest.raises(InvalidInput, match=reason) as refused:
        made(cumulative)
    assert "\n" not in str(refused.value)


def with_measurements(panel: Panel, measurements: Any) -> Panel:
    return Panel.from_pandas(panel.to_pandas(), panel.contract, measurements)


def test_measurements_may_be_given_as_lists(cumulative: Panel) -> None:
    assert cumulative.measurements is not None
    lists = [[rows.tolist() for rows in period] for period in cumulative.measurements]

    assert_same(Panel.from_arrow(with_measurements(cumulative, lists).to_arrow()), cumulative)


@pytest.mark.parametrize("missing", ["pandas", "pyarrow"])
def test_without_the_extra_one_line_says_what_to_install(
    window: Panel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    table, frame = window.to_arrow(), window.to_pandas()
    save_panel(window, tmp_path / "panel.parquet")
    monkeypatch.setitem(sys.modules, missing, None)

    attempts: dict[str, list[Callable[[], object]]] = {
        "pandas": [window.to_pandas, lambda: Panel.from_pandas(frame, window.contract)],
        "pyarrow": [
            window.to_arrow,
            lambda: Panel.from_arrow(table),
            lambda: save_panel(window, tmp_path / "new.parquet"),
            lambda: load_panel(tmp_path / "panel.parquet"),
        ],
    }
    for attempt in attempts[missing]:
        with pytest.raises(InvalidInput, match=rf"needs {missing}: pip install streamproc\[frames\]"):
            attempt()
