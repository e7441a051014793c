"""What the page says over time is what an analyst with the whole panel would say."""

from __future__ import annotations

import json
from typing import get_args

import numpy as np
import pytest

from streamproc.errors import UnsupportedQuery
from streamproc.offline.people import People
from streamproc.offline.replay import replay_study, tallies_of
from streamproc.panel import AtLeast, Panel, Query, count_of, exactly
from streamproc.panel.series import MAX_POINTS, History, HistoryBuilder, named_query, series, suggested_queries
from streamproc.privacy.types import Period
from streamproc.releases.contracts import stated_contracts
from streamproc.releases.query import LEVEL, InSpell, Matched
from streamproc.releases.window import WindowContract
from streamproc.status_page import views as documents
from streamproc.storage.entropy import SeededEntropy
from streamproc.study import CumulativeRelease, PatternRelease, SpellRelease, WindowRelease
from streamproc.study.releases import Measure
from tests.studies import build_study

STUDY = build_study(
    WindowRelease("recent", 2),
    WindowRelease("recent-paper", 3, measure="paper"),
    CumulativeRelease("counts", event=("b", "cc"), weights="rule"),
    CumulativeRelease("counts-paper", event=("b", "cc"), measure="paper"),
    SpellRelease("spells", event=("b", "cc"), length=3, weights="rule"),
    PatternRelease("matches", pattern="b{2}", weights="rule"),
    alphabet=["a", "b", "cc"],
    horizon=6,
    rho=0.1,
)

ASKED: dict[str, dict[str, Query]] = {
    "recent": {
        "bin:cc|a": exactly("cc", "a"),
        "bin:a": exactly("a"),  # a window of period 1
        "symbol:b": exactly("b"),
        "ever:cc": count_of({"cc"}, at_least=1, of=2),
        "always:a": count_of({"a"}, at_least=2, of=2),
    },
    "recent-paper": {"bin:a|a|b": exactly("a", "a", "b"), "symbol:a": exactly("a")},
    "counts": {f"atleast:{b}": AtLeast(b) for b in range(1, 7)},
    "counts-paper": {f"atleast:{b}": AtLeast(b) for b in range(1, 7)},
    "spells": {f"spell:{length}": InSpell(length) for length in range(1, 4)},
    "matches": {"matched": Matched()},
}


@pytest.fixture(scope="module")
def panels() -> dict[str, Panel]:
    symbols = np.random.default_rng(1).integers(0, 3, size=(500, 6)).astype(np.int8)
    histories = People(tuple(f"p{row}" for row in range(500)), symbols)
    agreed = stated_contracts(STUDY, 500, insecure=True)
    tallies = tallies_of(STUDY, histories.filled(STUDY))
    return dict(replay_study(STUDY, agreed, tallies, SeededEntropy(2)).panels)


def history_of(panel: Panel, through: int) -> History:
    """As the page builds it, from columns and measurements one by one."""
    counted = HistoryBuilder(panel.contract)
    assert panel.measurements is not None
    for period in range(through):
        counted.add(panel.columns[period], panel.measurements[period])
    return counted.history()


@pytest.mark.parametrize("release", list(ASKED))
@pytest.mark.parametrize("through", [4, 6])
def test_every_answer_is_the_panels(panels: dict[str, Panel], release: str, through: int) -> None:
    panel = panels[release]
    history = history_of(panel, through)
    for name, query in ASKED[release].items():
        asked = named_query(panel.contract, name)
        found = series(history, asked)
        assert list(found.periods) == list(range(panel.contract.first_period(query), through + 1))
        for place, period in enumerate(found.periods):
            answer = panel.fraction(query, period, level=LEVEL)
            got = (found.value[place], found.stderr[place], found.low[place], found.high[place])
            assert got == pytest.approx((answer.value, answer.stderr, answer.low, answer.high), rel=1e-12, abs=1e-15)


@pytest.mark.parametrize("release", list(ASKED))
def test_the_counts_are_the_panels(panels: dict[str, Panel], release: str) -> None:
    history = history_of(panels[release], 6)
    for period in range(history.contract.first_column, 7):
        assert history.counts[history.place_of(period)].tolist() == panels[release].counts(period).tolist()


def test_the_usual_questions_can_all_be_asked(panels: dict[str, Panel]) -> None:
    for panel in panels.values():
        for asked in suggested_queries(panel.contract):
            assert series(history_of(panel, 6), asked).periods


@pytest.mark.parametrize(
    ("release", "name"),
    [
        ("recent", "bin:a|a|a"),
        ("recent", "bin:a|z"),
        ("recent", "symbol:z"),
        ("recent", "atleast:1"),
        ("recent-paper", "bin:a|a"),
        ("counts-paper", "atleast:7"),
        ("counts-paper", "matched"),
        ("spells", "spell:0"),
        ("spells", "spell:4"),
        ("spells", "matched"),
        ("matches", "spell:1"),
        ("counts", "atleast:0"),
        ("counts", "atleast:7"),
        ("counts", "atleast:²"),
        ("counts", "bin:1"),
    ],
)
def test_a_question_the_release_cannot_answer_is_refused(panels: dict[str, Panel], release: str, name: str) -> None:
    with pytest.raises(UnsupportedQuery):
        named_query(panels[release].contract, name)


@pytest.mark.parametrize("measure", get_args(Measure))
def test_sixty_five_thousand_bins_and_a_thousand_periods_stay_small(measure: Measure) -> None:
    wide = build_study(WindowRelease("wide", 16, measure=measure), horizon=2000, rho=0.1)
    contract = stated_contracts(wide, 1_000, insecure=True)["wide"]
    assert isinstance(contract, WindowContract)
    counts = np.full(contract.mechanism.bins, contract.n_pad, dtype=np.int64)
    counts[5] += 1_000
    # Everybody has had the same symbols in the first periods as in the last; windows of fewer than 16 periods are shorter.
    early = [counts.reshape(2**length, -1).sum(axis=1) for length in range(contract.first_column, 16)]
    every = (*early, *(counts,) * 1_000)
    history = History(contract, int(counts.sum()), Period(1_015), every, (None,) * len(every))
    found = documents.bins(history, "", 12)
    assert (found["total"], found["matched"], len(found["bins"])) == (65_536, 65_536, 12)
    assert found["bins"][0]["label"] == "0000000000000101"
    assert documents.bins(history, "1111111111111110", 12)["matched"] == 1
    answers = documents.answers(history, ["bin:0000000000000101", "symbol:1"], 1, None)
    periods = answers["series"][1]["periods"]
    assert len(periods) <= MAX_POINTS
    assert (periods[0], periods[-1]) == (1, 1_015)
    assert len(json.dumps(answers)) < 100_000
