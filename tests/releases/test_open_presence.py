"""Who is present in an open study, and the tallies that follow, compared with plain Python over each person's reports."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamproc.releases.contracts import stated_contracts
from streamproc.releases.open_presence import ABSENT, NO_REPORT, TENURE_OVER, PresenceState
from streamproc.study import CumulativeRelease, Missing, Population, Release, SpellRelease, Study, WindowRelease
from tests.releases.open_histories import Reports, flows_at, histories_at, open_study, people_of, random_reports
from tests.studies import build_study

KINDS: list[Release] = [
    WindowRelease("k1", 1),
    WindowRelease("k2", 2),
    WindowRelease("k3", 3),
    SpellRelease("spell", ("1",), length=2),
    CumulativeRelease("events", ("1",), most=2),
]


def counts_by_hand(release: Release, histories: list[tuple[int, ...]]) -> list[int]:
    """The counts of a kind from the histories since entry."""
    texts = ["".join(map(str, each)) for each in histories]
    if isinstance(release, WindowRelease):
        short = [f"{code:0{length}b}" for length in range(1, release.k) for code in range(2**length)]
        full = [f"{code:0{release.k}b}" for code in range(2**release.k)]
        wanted = [sum(each == label for each in texts) for label in short]
        return wanted + [sum(len(each) >= release.k and each.endswith(label) for each in texts) for label in full]
    if isinstance(release, SpellRelease):
        return [sum(each.endswith("1" * length) for each in texts) for length in range(1, release.length + 1)]
    assert isinstance(release, CumulativeRelease)
    return [sum(each.count("1") >= b for each in texts) for b in range(1, release.counted_up_to(4) + 1)]


@st.composite
def populations(draw: st.DrawFn) -> tuple[Study, Reports]:
    missing = draw(st.sampled_from([Missing(), Missing(fill="1")]))
    population = Population(
        initial="0",
        open=True,
        tenure=draw(st.integers(3, 5)),
        absent_after=draw(st.none() | st.integers(1, 4)),
        missing=missing,
    )
    study = build_study(*KINDS, horizon=None, population=population)
    reports = random_reports(draw(st.integers(1, 25)), 9, draw(st.integers(0, 2**32 - 1)), draw(st.floats(0, 0.9)))
    return study, reports


@settings(max_examples=100)
@given(populations())
def test_the_tallies_are_those_of_the_people_who_are_present(case: tuple[Study, Reports]) -> None:
    study, reports = case
    contracts = stated_contracts(study, 0, insecure=True)
    people, state = people_of(study, reports), PresenceState.of(study, len(reports))
    for period in range(1, reports.shape[1] + 1):
        state, tally = state.fold(reports[:, period - 1])
        for release in study.releases:
            counts = contracts[release.name].true_counts([tally[release.name]])[0].tolist()
            assert counts == [*counts_by_hand(release, histories_at(people, period)), *flows_at(people, period)]
        assert state.present == flows_at(people, period)[0]


def test_a_person_leaves_with_the_tenure_or_with_too_many_missing_reports() -> None:
    study = open_study(WindowRelease("w", 1), tenure=3, absent_after=2)
    reports = np.array([[0, 1, 1, 0, 1], [1, NO_REPORT, NO_REPORT, 1, 1], [0, NO_REPORT, 1, NO_REPORT, 0]], dtype=np.uint8)
    state = PresenceState.of(study, 3)
    present = []
    for period in range(5):
        state, _ = state.fold(reports[:, period])
        present.append(state.present)
    assert present == [3, 3, 2, 0, 0]
    assert state.gone.tolist() == [TENURE_OVER, ABSENT, TENURE_OVER]


@settings(max_examples=50)
@given(populations(), st.integers(0, 2**32 - 1))
def test_one_person_changes_one_transition_in_each_period(case: tuple[Study, Reports], seed: int) -> None:
    """Another history of one person, or none, moves every tally by at most one transition taken away and one added."""
    study, reports = case
    other = reports.copy()
    rng = np.random.default_rng(seed)
    other[0] = rng.choice(np.array([0, 1, NO_REPORT], dtype=np.uint8), reports.shape[1])
    one, two = PresenceState.of(study, len(reports)), PresenceState.of(study, len(reports))
    for period in range(reports.shape[1]):
        one, tally = one.fold(reports[:, period])
        two, changed = two.fold(other[:, period])
        for name in tally:
            moved = changed[name] - tally[name]
            assert moved.max() <= 1
            assert moved.min() >= -1
            assert np.abs(moved).sum() <= 2


def test_rows_are_added_and_removed_without_a_change_for_the_others() -> None:
    study = open_study(*KINDS)
    reports = random_reports(30, 8, seed=1)
    whole, parts = PresenceState.of(study, 30), PresenceState.of(study, 10)
    parts = parts.with_rows(30)
    rows = np.arange(30)
    for period in range(8):
        whole, tally = whole.fold(reports[:, period])
        parts, again = parts.fold(reports[rows, period])
        assert all((tally[name] == again[name]).all() for name in tally)
        stays = parts.gone == 0
        parts, rows = parts.retain(stays), rows[stays]


@pytest.mark.parametrize("size", [2, 4])
def test_symbols_for_another_number_of_rows_are_refused(size: int) -> None:
    with pytest.raises(ValueError, match=f"{size} symbols for 3 rows"):
        PresenceState.of(open_study(*KINDS), 3).fold(np.zeros(size, dtype=np.uint8))
