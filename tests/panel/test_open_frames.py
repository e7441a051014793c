"""Tables of open studies: rows begin and end, come back as they were, and are refused if no release can have them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamproc.errors import InvalidInput, PanelFileError
from streamproc.files.release_files import load_panel, save_panel
from streamproc.panel import Panel
from streamproc.panel.open_columns import cells_of_columns, columns_of_cells
from streamproc.releases.query import exactly, present
from streamproc.storage.entropy import SeededEntropy
from streamproc.study import Release, SpellRelease, WindowRelease
from tests.panel.open_panels import RELEASES, open_panel, replayed
from tests.panel.released import assert_same_columns, forged
from tests.releases.open_histories import open_study, random_reports

ALPHABETS = [("0", "1"), ("A", "B", "C"), ("in work", "out, of work", 'in "school"', "ällt", "nan")]


@st.composite
def panels(draw: st.DrawFn) -> Panel:
    alphabet = draw(st.sampled_from(ALPHABETS))
    release: Release = WindowRelease("r", draw(st.integers(1, 2)))
    if draw(st.booleans()):
        release = SpellRelease("r", event=(alphabet[1],), length=2)
    seed, periods = draw(st.integers(0, 99)), draw(st.integers(0, 9))
    study = open_study(release, alphabet=alphabet, tenure=3, rho=5.0)
    reports = random_reports(draw(st.integers(1, 40)), 9, seed, q=len(alphabet))[:, :periods]
    return replayed(study, reports, SeededEntropy(seed)).panels["r"]


def assert_same(found: Panel, panel: Panel) -> None:
    """The same columns and measurements, and the same answers."""
    assert_same_columns(found, panel)
    assert found.measurements is not None
    assert panel.measurements is not None
    measured = [[[rows.tolist() for rows in period] for period in each] for each in (found.measurements, panel.measurements)]
    assert measured[0] == measured[1]
    for period in range(1, panel.period + 1):
        assert found.people(present(), period) == panel.people(present(), period)
        assert found.counts(period).tolist() == panel.counts(period).tolist()


@given(panels())
def test_a_panel_comes_back_from_arrow_with_the_same_answers(panel: Panel) -> None:
    assert_same(Panel.from_arrow(panel.to_arrow()), panel)


@given(panels())
def test_a_panel_comes_back_from_pandas_with_what_it_left_behind(panel: Panel) -> None:
    assert_same(Panel.from_pandas(panel.to_pandas(), panel.contract, panel.measurements), panel)


@pytest.mark.parametrize("kind", RELEASES)
@pytest.mark.parametrize("name", ["panel.parquet", "panel.csv", "panel.csv.gz"])
def test_a_panel_comes_back_from_a_file(kind: str, name: str, tmp_path: Path) -> None:
    panel = open_panel(kind, people=60)
    save_panel(panel, tmp_path / name)
    found = load_panel(tmp_path / name, None if name.endswith("parquet") else panel.contract)
    assert_same_columns(found, panel)
    assert (found.measurements is None) == (not name.endswith("parquet"))


def test_a_cell_is_empty_before_the_entry_and_after_leaving(tmp_path: Path) -> None:
    contract = open_panel("k1").contract
    columns = [[0], [1, 1, 0], [2, 0, 1, 1], [2, 2, 0], []]
    panel = Panel(contract, tuple(np.array(column, dtype=np.uint8) for column in columns[:4]), None)
    frame = panel.to_pandas().astype(object)
    frame = frame.where(frame.notna(), None)
    assert frame.to_numpy().tolist() == [
        [0, "0", "1", None, None],
        [1, None, "1", "0", None],
        [2, None, "0", "1", None],
        [3, None, None, "1", "0"],
    ]
    assert panel.to_arrow().column("3").to_pylist() == [None, "0", "1", "1"]
    save_panel(panel, tmp_path / "r.csv")
    assert (tmp_path / "r.csv").read_text() == "synthetic,1,2,3,4\n0,0,1,,\n1,,1,0,\n2,,0,1,\n3,,,1,0\n"


def test_arrow_hands_pandas_the_same_frame() -> None:
    panel = open_panel("k2", people=60)
    pd.testing.assert_frame_equal(panel.to_arrow().to_pandas(), panel.to_pandas(), check_categorical=False)


def plain(table: Any) -> Any:
    return table.cast(pa.schema([("synthetic", pa.int32()), *((name, pa.string()) for name in table.column_names[1:])]))


@pytest.mark.parametrize(
    "rewritten",
    [
        pytest.param(plain, id="strings"),
        pytest.param(lambda table: pa.concat_tables([table.slice(0, 7), table.slice(7)]), id="chunks"),
        pytest.param(lambda table: pa.Table.from_pandas(table.to_pandas(), preserve_index=False), id="through pandas"),
        pytest.param(lambda table: pa.Table.from_pandas(numbers(table.to_pandas()), preserve_index=False), id="floats"),
    ],
)
def test_another_way_to_write_the_same_table_is_read(rewritten: Callable[[Any], Any]) -> None:
    panel = open_panel("k2", people=60)
    assert_same_columns(Panel.from_arrow(rewritten(panel.to_arrow()), panel.contract), panel)


def numbers(frame: Any) -> Any:
    """What pandas makes of a CSV file of numbers with empty cells."""
    return frame.astype(object).apply(pd.to_numeric)


def test_pandas_reads_the_csv_file_as_text_or_as_numbers(tmp_path: Path) -> None:
    panel = open_panel("k2", people=60)
    save_panel(panel, tmp_path / "r.csv")
    as_numbers = pd.read_csv(tmp_path / "r.csv")
    assert as_numbers["1"].dtype == float
    as_text = pd.read_csv(tmp_path / "r.csv", dtype=str, keep_default_na=False).astype({"synthetic": int})
    for frame in (as_numbers, as_text):
        assert_same_columns(Panel.from_pandas(frame, panel.contract), panel)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda frame: edit(edit(frame, 0, "1", None), 0, "2", "1"), "row 1: expected rows in the order in which"),
        (lambda frame: edit(frame, 5, slice("1", "12"), None), "row 5: expected a symbol in at least one period"),
        (lambda frame: edit(frame, 0, "12", "1"), "row 0: expected symbols in consecutive periods, and empty cells"),
        (lambda frame: frame.iloc[::-1].reset_index(drop=True).assign(synthetic=range(len(frame))), "in the order in which"),
        (lambda frame: edit(frame, 0, slice("1", "12"), "1"), "present for more than 4 periods"),
        (lambda frame: edit(frame, 0, "1", "2"), "column 1, row 0: expected a symbol of the release's alphabet"),
        (lambda frame: frame.assign(**{"1": 0.5}), "column 1: expected strings or integers, but it holds fractions"),
    ],
)
def test_a_table_that_no_release_can_have_is_refused(change: Callable[[Any], Any], reason: str) -> None:
    panel = open_panel("k2", people=60)
    frame = change(panel.to_pandas().astype(object).astype({"synthetic": int}))
    attempts: list[Callable[[], Panel]] = [
        lambda: Panel.from_pandas(frame, panel.contract),
        lambda: Panel.from_arrow(pa.Table.from_pandas(frame, preserve_index=False), panel.contract),
    ]
    for attempt in attempts:
        with pytest.raises(InvalidInput, match=reason) as refused:
            attempt()
        assert "\n" not in str(refused.value)


def edit(frame: Any, row: int, column: Any, value: Any) -> Any:
    frame.loc[row, column] = value
    return frame


def test_rows_that_were_filtered_or_edited_are_noticed(tmp_path: Path) -> None:
    """An editor that keeps the metadata cannot keep the digests, also where the table by itself is possible."""
    panel = open_panel("k2", people=60)
    table = panel.to_arrow()
    column = table.column("12").to_pylist()
    flipped = [None if cell is None else {"0": "1", "1": "0"}[cell] for cell in column]
    changed = table.set_column(12, "12", pa.array(flipped, pa.string())).replace_schema_metadata(table.schema.metadata)
    with pytest.raises(InvalidInput, match="do not match the digests"):
        Panel.from_arrow(changed)
    path = tmp_path / "r.parquet"
    pyarrow.parquet.write_table(changed, path)
    with pytest.raises(PanelFileError, match=r"r\.parquet: the columns do not match the digests"):
        load_panel(path)


def test_digests_are_over_entries_that_also_say_who_has_left() -> None:
    """Two bits for two symbols and "has left"; one bit could not tell them apart."""
    panel = open_panel("k1", people=60)
    values = json.loads(panel.to_arrow().schema.metadata[b"streamproc"])
    assert values["contract"].get("n") is None
    assert len(set(values["digests"])) == panel.period
    with pytest.raises(InvalidInput, match="do not match the digests"):
        Panel.from_arrow(forged(panel, lambda metadata: metadata["digests"].reverse()))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda metadata: metadata["measurements"].pop(), "the measurements are not those of 12 periods"),
        (lambda metadata: metadata["contract"].update(tenure=3), "contract|does not match|more than 3 periods"),
        (lambda metadata: metadata["contract"].update(tenure=0), "contract.tenure"),
        (lambda metadata: metadata["contract"].update(n=5), "is not what this version"),
        (lambda metadata: metadata["contract"].pop("tenure"), "contract|is not what this version"),
    ],
)
def test_metadata_that_does_not_fit_is_refused(change: Callable[[dict[str, Any]], object], reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        Panel.from_arrow(forged(open_panel("k1", people=60), change))


@pytest.mark.parametrize("kind", RELEASES)
def test_cells_become_the_columns_they_came_from(kind: str) -> None:
    panel = open_panel(kind, people=100)
    cells = cells_of_columns(panel.contract, panel.columns)
    assert {len(cell) for cell in cells} == {panel.rows}
    found = columns_of_cells(panel.contract, cells)
    assert [column.tolist() for column in found] == [column.tolist() for column in panel.columns]
    assert panel.people(present(), 7).value == np.count_nonzero(cells[6] < 2)
    if kind.startswith("k"):
        assert panel.people(exactly("1"), 7).value == np.count_nonzero(cells[6] == 1)
