"""A panel comes back from a file as it was, or not at all."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given

from streamproc.errors import PanelFileError
from streamproc.files.release_files import load_panel, save_panel
from streamproc.panel import Panel
from tests.panel.released import assert_same, assert_same_columns, forged, panels


@given(panel=panels())
def test_a_panel_comes_back_from_parquet_with_the_same_answers(
    panel: Panel, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("panel") / "panel.parquet"

    save_panel(panel, path)

    assert_same(load_panel(path), panel)


@pytest.mark.parametrize("name", ["panel.csv", "panel.csv.gz"])
def test_a_panel_comes_back_from_csv_with_its_contract(window: Panel, tmp_path: Path, name: str) -> None:
    save_panel(window, tmp_path / name)

    found = load_panel(tmp_path / name, window.contract)

    assert_same_columns(found, window)
    assert found.measurements is None


def test_a_gzipped_panel_holds_the_plain_file_and_nothing_of_its_making(window: Panel, tmp_path: Path) -> None:
    save_panel(window, tmp_path / "panel.csv")
    save_panel(window, tmp_path / "a.csv.gz")
    save_panel(window, tmp_path / "b.csv.gz")

    assert gzip.decompress((tmp_path / "a.csv.gz").read_bytes()) == (tmp_path / "panel.csv").read_bytes()
    assert (tmp_path / "a.csv.gz").read_bytes() == (tmp_path / "b.csv.gz").read_bytes()
    assert (tmp_path / "a.csv.gz").read_bytes()[4:8] == bytes(4)  # the time of its making


def test_a_refused_file_is_named(window: Panel, tmp_path: Path) -> None:
    path = tmp_path / "panel.parquet"
    pq.write_table(forged(window, lambda values: values["digests"].reverse()), path)

    with pytest.raises(PanelFileError, match="panel.parquet: the columns do not match the digests"):
        load_panel(path)


@pytest.mark.parametrize("name", ["absent.parquet", "absent.csv", "panel.txt", "broken.parquet", "broken.csv.gz"])
def test_a_file_that_is_no_panel_is_refused(window: Panel, tmp_path: Path, name: str) -> None:
    if name.startswith("broken"):
        (tmp_path / name).write_bytes(b"PAR1 and no more")

    with pytest.raises(PanelFileError, match=name) as refused:
        load_panel(tmp_path / name, window.contract)
    assert "\n" not in str(refused.value)


def test_csv_without_a_contract_is_refused(window: Panel, tmp_path: Path) -> None:
    save_panel(window, tmp_path / "panel.csv")

    with pytest.raises(PanelFileError, match="contract, so it must be given"):
        load_panel(tmp_path / "panel.csv")


def test_csv_of_another_release_is_refused(window: Panel, tmp_path: Path) -> None:
    shorter = Panel(window.contract, tuple(column[:-1] for column in window.columns), None)
    save_panel(shorter, tmp_path / "panel.csv")

    with pytest.raises(PanelFileError, match="panel.csv: release quarterly has .* synthetic people, not"):
        load_panel(tmp_path / "panel.csv", window.contract)


def test_nothing_can_be_saved_under_an_unknown_ending(window: Panel, tmp_path: Path) -> None:
    with pytest.raises(PanelFileError, match=r"panel\.xlsx: expected a name that ends in"):
        save_panel(window, tmp_path / "panel.xlsx")
    with pytest.raises(PanelFileError, match="no columns yet"):
        save_panel(Panel(window.contract), tmp_path / "panel.csv")
    assert not list(tmp_path.iterdir())


def test_csv_needs_no_extra(window: Panel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pandas", None)

    save_panel(window, tmp_path / "panel.csv")

    assert_same_columns(load_panel(tmp_path / "panel.csv", window.contract), window)
