"""A table that is not what was released is refused in one line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from streamproc.errors import InvalidInput
from streamproc.panel import Panel
from streamproc.study import WindowRelease
from streamproc.study.releases import Measure
from tests.panel.released import forged, released
from tests.releases.random_studies import MEASURES, release_of

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
        pytest.param(
            lambda f: f.assign(**{"5": f["4"], "6": f["4"]}), "has 1 to 5 periods, but there are 6", id="after the end"
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
    with pytest.raises(InvalidInput, match="do not match the digests in the metadata"):
        Panel.from_arrow(table.replace_schema_metadata(window.to_arrow().schema.metadata))


def test_a_column_of_another_type_is_refused(window: Panel) -> None:
    table = window.to_arrow()
    floats = table.set_column(1, "1", pa.array(np.zeros(window.rows)))

    with pytest.raises(InvalidInput, match="column 1: expected strings or integers, none missing, but its type is double"):
        Panel.from_arrow(floats)


def test_a_contract_that_contradicts_the_metadata_is_refused(window: Panel) -> None:
    other = released(WindowRelease("quarterly", 2), ("A", "B", "C"), 5, 4, 20, seed=1)

    with pytest.raises(InvalidInput, match="another contract"):
        Panel.from_arrow(window.to_arrow(), other.contract)


def test_half_a_window_of_the_paper_is_refused() -> None:
    """Its first columns are released together; by flow a table may end in any period."""
    paper = released(WindowRelease("quarterly", 3, measure="paper"), ("A", "B", "C"), 5, 4, 20, seed=1)
    flow = released(WindowRelease("quarterly", 3), ("A", "B", "C"), 5, 4, 20, seed=1)
    with pytest.raises(InvalidInput, match="has 3 to 5 periods, but there are 2"):
        Panel.from_pandas(paper.to_pandas().drop(columns=["3", "4"]), paper.contract)
    assert Panel.from_pandas(flow.to_pandas().drop(columns=["3", "4"]), flow.contract).period == 2


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
        ("measure", "guess"),
        ("surprise", 1),
    ],
)
def test_a_forged_contract_of_any_kind_is_refused_in_one_line(any_kind: Panel, key: str, value: object) -> None:
    check_refused(any_kind, key, value)


def check_refused(panel: Panel, key: str, value: object) -> None:
    with pytest.raises(InvalidInput, match=r"contract\.|the metadata under the key") as refused:
        Panel.from_arrow(forged(panel, lambda values: values["contract"].update({key: value})))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize(("key", "value"), [("k", 10**6), ("k", 16), ("k", 0), ("n_pad", -3)])
def test_a_forged_window_is_refused_in_one_line(measure: Measure, key: str, value: object) -> None:
    check_refused(released(WindowRelease("w", 3, measure=measure), ("A", "B", "C"), 5, 4, 20, seed=1), key, value)


@pytest.mark.parametrize(
    ("kind", "key", "value"),
    [
        ("window-flow", "weights", [1.0, 1.0]),
        ("window-flow", "weights", [1.0, 1.0, 0.0]),
        ("window-flow", "weights", [1.0, 1.0, "1"]),
        ("window-flow", "weights", None),
        ("window-paper", "sigma", 0),
        ("window-paper", "sigma", "1"),
        ("window-paper", "sigma", float("inf")),
        ("cumulative-flow", "alphabet", ["0", "1", "2"]),
        ("cumulative-flow", "event", 1),
        ("cumulative-flow", "most", 6),
        ("cumulative-flow", "most", 3),  # other matrices would be needed
        ("cumulative-flow", "sigma", -1.0),
        ("cumulative-flow", "matrices", "?"),
        ("cumulative-flow", "matrices", None),
        ("cumulative-paper", "alphabet", ["0", "1", "2"]),
        ("cumulative-paper", "sigmas", [1.0]),
        ("cumulative-paper", "sigmas", [1.0, 1.0, 1.0, 1.0, 0.0]),
        ("cumulative-paper", "sigmas", None),
        ("cumulative-paper", "event", 1),
        ("spell", "length", 6),
        ("spell", "length", 2),
        ("spell", "event", []),
        ("spell", "sigma", 0.0),
        ("spell", "matrices", ""),
        ("pattern", "pattern", 1),
        ("pattern", "pattern", "1("),
        ("pattern", "pattern", "1{3}"),
        ("pattern", "sigma", None),
        ("pattern", "matrices", []),
    ],
)
def test_what_only_one_kind_has_is_checked_too(kind: str, key: str, value: object) -> None:
    check_refused(released(release_of(kind), ("0", "1"), 5, 4, 20, seed=1), key, value)


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("cumulative-paper", {"horizon": 2001, "sigmas": [1.0] * 2001}),
        ("cumulative-flow", {"horizon": 1001, "most": 64}),
        ("spell", {"horizon": 1001}),
        ("pattern", {"horizon": 1001}),
    ],
)
def test_a_forged_horizon_that_would_take_hours_is_refused_at_once(kind: str, changes: dict[str, Any]) -> None:
    panel = released(release_of(kind), ("0", "1"), 5, 4, 20, seed=1)
    with pytest.raises(InvalidInput, match=r"contract\.horizon"):
        Panel.from_arrow(forged(panel, lambda values: values["contract"].update(changes)))


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
def test_forged_metadata_is_refused_in_one_line(any_kind: Panel, change: Callable[[dict[str, Any]], object]) -> None:
    with pytest.raises(InvalidInput) as refused:
        Panel.from_arrow(forged(any_kind, change))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"7", b"\xff", b"[" * 100_000, b'{"v":1}'])
def test_metadata_that_is_no_json_object_of_ours_is_refused(window: Panel, text: bytes) -> None:
    with pytest.raises(InvalidInput, match="the metadata under the key streamproc"):
        Panel.from_arrow(window.to_arrow().replace_schema_metadata({b"streamproc": text}))
