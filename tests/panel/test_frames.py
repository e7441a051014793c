"""A panel comes back from pandas, Arrow and files as it was, or not at all."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamproc.errors import InvalidInput, PanelFileError
from streamproc.panel import AtLeast, Panel, Query, exactly
from streamproc.ports.entropy import SeededEntropy
from streamproc.ports.panel_files import load_panel, save_panel
from streamproc.privacy.adjacency import Adjacency
from streamproc.privacy.counters import CounterName
from streamproc.privacy.quantities import Period
from streamproc.privacy.window import Measure
from streamproc.study import Broker, CumulativeRelease, Missing, Population, Privacy, Release, Study, WindowRelease
from streamproc.synth.cohort import Cohort
from streamproc.synth.contract import WindowContract, contract_to_dict, contracts
from streamproc.synth.synthesis import Synthesis

ALPHABETS = [("0", "1"), ("A", "B", "C"), ("in work", "out, of work", 'in "school"', "ällt", "nan")]


def released(release: Release, alphabet: tuple[str, ...], horizon: int, periods: int, n: int, seed: int) -> Panel:
    """A panel after `periods` of a study of random histories."""
    study = Study(
        "s",
        alphabet,
        horizon,
        Population(size=n, missing=Missing(), initial=alphabet[0]),
        Privacy(rho=2.0, adjacency=Adjacency.ZERO_OUT),
        (release,),
        Broker("embedded:s"),
    )
    made = contracts(study, n, insecure=True)
    symbols = np.random.default_rng(seed).integers(0, len(alphabet), (n, horizon)).astype(np.uint8)
    cohort, synthesis, panel = Cohort.of(study, n), Synthesis.start(made), Panel(made[release.name])
    for period in range(periods):
        cohort, tally = cohort.fold(symbols[:, period])
        synthesis, steps = synthesis.step(tally, SeededEntropy(seed))
        panel = panel.extended(steps[release.name])
    return panel


@st.composite
def panels(draw: st.DrawFn) -> Panel:
    alphabet = draw(st.sampled_from(ALPHABETS))
    horizon = draw(st.integers(1, 6))
    release: Release
    if draw(st.booleans()):
        measure: Measure = draw(st.sampled_from(["contrast", "histogram"]))
        release = WindowRelease("r", draw(st.integers(1, min(horizon, 3))), measure=measure)
    else:
        counter: CounterName = draw(st.sampled_from(["sqrt", "tree", "honaker"]))
        release = CumulativeRelease("r", event=(alphabet[1],), counter=counter)
    periods = draw(st.integers(0, horizon))
    return released(release, alphabet, horizon, periods, draw(st.integers(1, 30)), draw(st.integers(0, 99)))


@pytest.fixture
def window() -> Panel:
    return released(WindowRelease("quarterly", 3), ("A", "B", "C"), 5, 4, 20, seed=1)


@pytest.fixture
def cumulative() -> Panel:
    return released(CumulativeRelease("ever", event=("1",), counter="honaker"), ("0", "1"), 5, 4, 20, seed=1)


def queries(panel: Panel) -> list[Query]:
    if isinstance(panel.contract, WindowContract):
        return [exactly(symbol) for symbol in panel.contract.alphabet]
    return [AtLeast(b) for b in range(1, panel.contract.mechanism.horizon + 1)]


def assert_same_columns(found: Panel, panel: Panel) -> None:
    assert contract_to_dict(found.contract) == contract_to_dict(panel.contract)
    assert [column.dtype for column in found.columns] == [np.uint8] * panel.period
    assert [column.tolist() for column in found.columns] == [column.tolist() for column in panel.columns]


def assert_same(found: Panel, panel: Panel) -> None:
    """The same columns, and the same answers with the same error bars."""
    assert_same_columns(found, panel)
    assert found.measurements is not None
    assert panel.measurements is not None
    assert [[rows.tolist() for rows in period] for period in found.measurements] == [
        [rows.tolist() for rows in period] for period in panel.measurements
    ]
    for query in queries(panel):
        for period in range(1, panel.period + 1):
            assert found.fraction(query, Period(period)) == panel.fraction(query, Period(period))


@given(panels())
def test_a_panel_comes_back_from_arrow_with_the_same_answers(panel: Panel) -> None:
    assert_same(Panel.from_arrow(panel.to_arrow()), panel)


@given(panels())
def test_a_panel_comes_back_from_pandas_with_what_it_left_behind(panel: Panel) -> None:
    assert_same(Panel.from_pandas(panel.to_pandas(), panel.contract, panel.measurements), panel)


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


def test_a_contract_that_contradicts_the_metadata_is_refused(window: Panel) -> None:
    other = released(WindowRelease("quarterly", 2), ("A", "B", "C"), 5, 4, 20, seed=1)

    with pytest.raises(InvalidInput, match="another contract"):
        Panel.from_arrow(window.to_arrow(), other.contract)


Change = Callable[[pd.DataFrame], pd.DataFrame]


def swapped(frame: pd.DataFrame) -> pd.DataFrame:
    """Two people who differ in their last symbol change places; no count of that period notices."""
    symbols = frame["4"].astype(str).tolist()
    other = next(row for row, symbol in enumerate(symbols) if symbol != symbols[0])
    symbols[0], symbols[other] = symbols[other], symbols[0]
    return frame.assign(**{"4": symbols})


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        pytest.param(lambda f: f.drop(columns="synthetic"), "expected the columns synthetic, 1, ..., t", id="no numbers"),
        pytest.param(lambda f: f.drop(columns="2"), "expected the columns synthetic, 1, ..., t", id="a period left out"),
        pytest.param(lambda f: f.iloc[::-1], "the number of each row", id="sorted otherwise"),
        pytest.param(lambda f: f.assign(synthetic=f["synthetic"] * 1.0), "the number of each row", id="floats"),
        pytest.param(lambda f: f.iloc[:-1], "synthetic people, not", id="a row less"),
        pytest.param(lambda f: f.drop(columns=["3", "4"]), "has 3 to 5 periods, but there are 2", id="half a window"),
        pytest.param(
            lambda f: f.assign(**{"5": f["4"], "6": f["4"]}), "has 3 to 5 periods, but there are 6", id="after the end"
        ),
        pytest.param(lambda f: f.assign(**{"2": "D"}), "column 2, row 0: expected a symbol", id="a foreign symbol"),
        pytest.param(
            lambda f: f.assign(**{"2": f["2"].cat.rename_categories(["A", "B", "D"])}), "column 2, row", id="renamed"
        ),
        pytest.param(lambda f: f.assign(**{"2": f["2"].where(f.index > 0)}), "missing", id="a missing cell"),
    ],
)
def test_a_table_that_cannot_be_the_release_is_refused_in_one_line(window: Panel, change: Change, complaint: str) -> None:
    frame = change(window.to_pandas())
    table = pa.Table.from_pandas(frame, preserve_index=False)
    carrying = table.replace_schema_metadata(window.to_arrow().schema.metadata)

    attempts: list[Callable[[], Panel]] = [
        lambda: Panel.from_pandas(frame, window.contract),
        lambda: Panel.from_arrow(table, window.contract),
        lambda: Panel.from_arrow(carrying),
    ]
    for attempt in attempts:
        with pytest.raises(InvalidInput, match=complaint) as refused:
            attempt()
        assert "\n" not in str(refused.value)


def test_a_possible_table_that_was_changed_is_refused_by_its_digests(window: Panel) -> None:
    table = pa.Table.from_pandas(swapped(window.to_pandas()), preserve_index=False)

    Panel.from_arrow(table, window.contract)
    with pytest.raises(InvalidInput, match="not those its metadata vouches for"):
        Panel.from_arrow(table.replace_schema_metadata(window.to_arrow().schema.metadata))


def test_a_column_of_another_type_is_refused(window: Panel) -> None:
    table = window.to_arrow()
    floats = table.set_column(1, "1", pa.array(np.zeros(window.rows)))

    with pytest.raises(InvalidInput, match="column 1: expected strings or integers, none missing, but its type is double"):
        Panel.from_arrow(floats)


def forged(panel: Panel, change: Callable[[dict[str, Any]], object]) -> Any:
    """The panel's table with other metadata."""
    table = panel.to_arrow()
    values = json.loads(table.schema.metadata[b"streamproc"])
    change(values)
    return table.replace_schema_metadata({b"streamproc": json.dumps(values)})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("kind", "other"),
        ("release", "../../etc"),
        ("alphabet", ["A", "A", "C"]),
        ("alphabet", "ABC"),
        ("n", 0),
        ("n", "20"),
        ("n", 20.5),
        ("rho", -1),
        ("rho", float("nan")),
        ("adjacency", "none"),
        ("horizon", 10**9),
        ("horizon", True),
        ("insecure", "no"),
        ("k", 10**6),
        ("k", 16),
        ("k", 0),
        ("measure", "guess"),
        ("n_pad", -3),
        ("sigma_first", 0),
        ("sigma_later", "1"),
        ("sigma_later", float("inf")),
        ("surprise", 1),
    ],
)
def test_a_forged_window_contract_is_refused_in_one_line(window: Panel, key: str, value: object) -> None:
    with pytest.raises(InvalidInput, match=r"contract\.|the metadata under the key") as refused:
        Panel.from_arrow(forged(window, lambda values: values["contract"].update({key: value})))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("alphabet", ["0", "1", "2"]),
        ("counter", "abacus"),
        ("sigmas", [1.0]),
        ("sigmas", [1.0, 1.0, 1.0, 1.0, 0.0]),
        ("sigmas", None),
        ("event", 1),
    ],
)
def test_a_forged_cumulative_contract_is_refused_in_one_line(cumulative: Panel, key: str, value: object) -> None:
    with pytest.raises(InvalidInput, match=r"contract\.|the metadata under the key") as refused:
        Panel.from_arrow(forged(cumulative, lambda values: values["contract"].update({key: value})))
    assert "\n" not in str(refused.value)


def test_a_forged_horizon_that_would_take_hours_is_refused_at_once(cumulative: Panel) -> None:
    with pytest.raises(InvalidInput, match=r"contract\.horizon"):
        Panel.from_arrow(forged(cumulative, lambda values: values["contract"].update(horizon=2001, sigmas=[1.0] * 2001)))


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda values: values.pop("contract"), id="no contract"),
        pytest.param(lambda values: values.update(v=2), id="another version"),
        pytest.param(lambda values: values["digests"].pop(), id="a digest short"),
        pytest.param(lambda values: values.update(digests=None), id="no digests"),
        pytest.param(lambda values: values["measurements"].pop(), id="a period of measurements short"),
        pytest.param(lambda values: values["measurements"][-1][0].pop(), id="a measurement short"),
        pytest.param(lambda values: values["measurements"][-1].append([]), id="a stream too many"),
        pytest.param(lambda values: values["measurements"][-1][0].__setitem__(0, 1.5), id="a fraction"),
        pytest.param(lambda values: values["measurements"][-1][0].__setitem__(0, 2**70), id="beyond 64 bits"),
        pytest.param(lambda values: values.update(measurements=7), id="no list"),
    ],
)
@pytest.mark.parametrize("kind", ["window", "cumulative"])
def test_forged_metadata_is_refused_in_one_line(
    window: Panel, cumulative: Panel, kind: str, change: Callable[[dict[str, Any]], object]
) -> None:
    with pytest.raises(InvalidInput) as refused:
        Panel.from_arrow(forged(window if kind == "window" else cumulative, change))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"7", b"\xff", b"[" * 100_000, b'{"v":1}'])
def test_metadata_that_is_no_json_object_of_ours_is_refused(window: Panel, text: bytes) -> None:
    with pytest.raises(InvalidInput, match="the metadata under the key streamproc"):
        Panel.from_arrow(window.to_arrow().replace_schema_metadata({b"streamproc": text}))


def test_a_refused_file_is_named(window: Panel, tmp_path: Path) -> None:
    path = tmp_path / "panel.parquet"
    pq.write_table(forged(window, lambda values: values["digests"].reverse()), path)

    with pytest.raises(PanelFileError, match="panel.parquet: the columns are not those"):
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


def test_csv_needs_no_extra(window: Panel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pandas", None)

    save_panel(window, tmp_path / "panel.csv")

    assert_same_columns(load_panel(tmp_path / "panel.csv", window.contract), window)
