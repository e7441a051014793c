"""Differences of two periods: their intervals hold the truth, and their errors account for the noise that both share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from streamproc.errors import UnsupportedQuery
from streamproc.offline import replay_study, tallies_of
from streamproc.panel import Panel
from streamproc.releases.contracts import stated_contracts
from streamproc.releases.query import Query, at_least, exactly, in_spell, matched
from streamproc.storage.entropy import SeededEntropy
from streamproc.study import CumulativeRelease, PatternRelease, Release, SpellRelease, WindowRelease
from tests.releases.random_studies import sticky_panel
from tests.studies import build_study

RUNS = 250
PEOPLE = 400
HORIZON = 8

CASES: dict[str, tuple[Release, Query]] = {
    "window": (WindowRelease("r", 3), exactly("1")),
    "paper window": (WindowRelease("r", 2, measure="paper"), exactly("1")),
    "cumulative": (CumulativeRelease("r", ("1",), weights="rule"), at_least(2)),
    "paper cumulative": (CumulativeRelease("r", ("1",), measure="paper"), at_least(2)),
    "spell": (SpellRelease("r", ("1",), length=3, weights="rule"), in_spell(2)),
    "pattern": (PatternRelease("r", pattern="1{2}", weights="rule"), matched()),
}

BY_HAND: dict[str, Callable[[str], bool]] = {
    "r1": lambda text: text.endswith("1"),
    "atleast:2": lambda text: text.count("1") >= 2,
    "spell:2": lambda text: text.endswith("11"),
    "matched": lambda text: "11" in text,
}


def panels_of(release: Release, rho: float, runs: int = RUNS) -> list[Panel]:
    study, filled = build_study(release, horizon=HORIZON, rho=rho), sticky_panel(PEOPLE, HORIZON, seed=21)
    contracts, tallies = stated_contracts(study, PEOPLE, insecure=True), tallies_of(study, filled)
    return [replay_study(study, contracts, tallies, SeededEntropy(seed)).panels["r"] for seed in range(runs)]


def true_change(query: Query, first: int, last: int) -> float:
    holds = BY_HAND.get(query.name, BY_HAND["r1"])
    histories = ["".join(map(str, row)) for row in sticky_panel(PEOPLE, HORIZON, seed=21).tolist()]
    return sum(holds(text[:last]) - holds(text[:first]) for text in histories) / PEOPLE


@pytest.mark.parametrize("name", CASES)
def test_intervals_of_a_change_hold_the_truth(name: str) -> None:
    """Of 250 runs, fewer than 220 or, without clamping, more than 249 hold with probability below 1e-5; seeds fixed."""
    release, query = CASES[name]
    answers = [panel.change(query, 3, 6) for panel in panels_of(release, rho=0.05)]
    truth = true_change(query, 3, 6)
    held = sum(answer.low - 1e-12 <= truth <= answer.high + 1e-12 for answer in answers)
    assert held >= 220
    assert {answer.stderr for answer in answers} == {answers[0].stderr}


@pytest.mark.parametrize("name", ["window", "paper window"])
def test_the_spread_of_a_change_is_its_standard_error(name: str) -> None:
    """The sample deviation of 250 runs is off by more than a quarter with probability below 1e-6; seeds fixed."""
    release, query = CASES[name][0], exactly("1", "1")  # both answers depend on the symbols of period 5
    answers = [panel.change(query, 5, 6) for panel in panels_of(release, rho=0.5)]
    spread = float(np.std([answer.value for answer in answers]))
    assert 0.75 < spread / answers[0].stderr < 1.25
    apart = [panel.fraction(query, period) for panel in panels_of(release, 0.5, runs=1) for period in (5, 6)]
    independent = float(np.hypot(apart[0].stderr, apart[1].stderr))
    assert abs(answers[0].stderr - independent) > 0.01 * independent


@pytest.mark.parametrize("name", CASES)
def test_without_measurements_the_interval_is_at_least_as_wide(name: str) -> None:
    release, query = CASES[name]
    [panel] = panels_of(release, rho=0.05, runs=1)
    known, columns = panel.change(query, 3, 6), replace(panel, measurements=None).change(query, 3, 6)
    assert columns.value == known.value
    assert columns.high - columns.low >= (known.high - known.low) * 0.999
    assert columns.clamped is None
    assert known.clamped is not None


@pytest.mark.parametrize(("first", "last"), [(6, 3), (3, 3), (0, 3), (3, 9)])
def test_a_change_that_makes_no_sense_is_refused(first: int, last: int) -> None:
    [panel] = panels_of(CASES["window"][0], rho=1.0, runs=1)
    with pytest.raises(UnsupportedQuery, match="a change goes from|was asked for"):
        panel.change(exactly("1"), first, last)
