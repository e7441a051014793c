"""Panels of random studies, with forged metadata too, and what makes two panels the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from streamproc.panel import Panel, Query, exactly
from streamproc.privacy.adjacency import Adjacency
from streamproc.privacy.types import Period
from streamproc.releases.contracts import stated_contracts
from streamproc.releases.synthesis import Synthesis
from streamproc.releases.tally_state import TallyState
from streamproc.releases.window import WindowContract
from streamproc.storage.entropy import SeededEntropy
from streamproc.study import CumulativeRelease, PatternRelease, Release, SpellRelease, WindowRelease
from streamproc.study.releases import Weights
from tests.releases.random_studies import MEASURES
from tests.studies import build_study

ALPHABETS = [("0", "1"), ("A", "B", "C"), ("in work", "out, of work", 'in "school"', "ällt", "nan")]


def released(release: Release, alphabet: tuple[str, ...], horizon: int, periods: int, n: int, seed: int) -> Panel:
    """A panel after `periods` of a study of random histories."""
    study = build_study(release, alphabet=alphabet, horizon=horizon, rho=2.0, adjacency=Adjacency.ZERO_OUT)
    made = stated_contracts(study, n, insecure=True)
    symbols = np.random.default_rng(seed).integers(0, len(alphabet), (n, horizon)).astype(np.uint8)
    cohort, synthesis, panel = TallyState.of(study, n), Synthesis.start(made), Panel(made[release.name])
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
    match draw(st.sampled_from(["window", "cumulative", "spell", "pattern"])):
        case "window":
            measure = draw(st.sampled_from(MEASURES))
            release = WindowRelease("r", draw(st.integers(1, min(horizon, 3))), measure=measure)
        case "cumulative":
            measure = draw(st.sampled_from(MEASURES))
            weights: Weights | None = None if measure == "paper" else "rule"
            release = CumulativeRelease("r", event=(alphabet[1],), measure=measure, weights=weights)
        case "spell":
            release = SpellRelease("r", event=(alphabet[1],), length=min(horizon, 2), weights="rule")
        case _:
            release = PatternRelease("r", pattern="<" + alphabet[1] + ">{" + str(min(horizon, 2)) + "}", weights="rule")
    periods = draw(st.integers(0, horizon))
    return released(release, alphabet, horizon, periods, draw(st.integers(1, 30)), draw(st.integers(0, 99)))


def queries(panel: Panel) -> list[Query]:
    contract = panel.contract
    if isinstance(contract, WindowContract):
        return [exactly(symbol) for symbol in contract.alphabet]
    return [contract.parse_query(name).query for name in contract.suggested_queries()]


def assert_same_columns(found: Panel, panel: Panel) -> None:
    assert found.contract.to_dict() == panel.contract.to_dict()
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


def forged(panel: Panel, change: Callable[[dict[str, Any]], object]) -> Any:
    """The panel's table with other metadata."""
    table = panel.to_arrow()
    values = json.loads(table.schema.metadata[b"streamproc"])
    change(values)
    return table.replace_schema_metadata({b"streamproc": json.dumps(values)})
