"""Cohorts: the exact tallies of real people, compared with plain counting over their histories."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamproc.privacy.types import IntArray, Period
from streamproc.releases.contracts import make_tallier
from streamproc.releases.tally_state import TallyState
from streamproc.study import CumulativeRelease, PatternRelease, SpellRelease, Study, WindowRelease
from streamproc.study.releases import EventRelease
from tests.releases.random_studies import Filled, histories_of, studies, true_at_least, true_bins
from tests.studies import build_study


def folded(study: Study, filled: Filled) -> list[dict[str, IntArray]]:
    cohort, tallies = TallyState.of(study, len(filled)), []
    for period in range(study.last_period):
        cohort, tally = cohort.fold(filled[:, period])
        tallies.append(tally)
    assert cohort.period == study.last_period
    return tallies


def expected_windows(study: Study, release: WindowRelease, filled: Filled, period: int) -> list[int]:
    """The bins of the period, in front of the zeros that fill up the tally; nobody before the first column."""
    size = study.q**release.k
    bins = true_bins(filled, study.q, min(release.k, period), period) if period >= release.first_column else []
    return bins + [0] * (size - len(bins))


def expected_newcomers(study: Study, release: CumulativeRelease, filled: Filled, period: int) -> list[int]:
    """The people who have their first, second, ... event in the period."""
    now, before = (true_at_least(study, release, filled, at) + [0] * (study.last_period - at) for at in (period, period - 1))
    return [a - b for a, b in zip(now, before, strict=True)]


def event_table(study: Study, release: EventRelease) -> tuple[tuple[int, ...], ...]:
    """For each state, the next one without an event and with one."""
    if isinstance(release, SpellRelease):
        return tuple((0, min(run + 1, release.length)) for run in range(release.length + 1))
    assert isinstance(release, CumulativeRelease)
    most = release.counted_up_to(study.last_period)
    return tuple((count, min(count + 1, most)) for count in range(most + 1))


def expected_transitions(study: Study, release: EventRelease | PatternRelease, filled: Filled, period: int) -> list[int]:
    """The people in each state who have each class of symbols; classes that lead to the same state count in the first."""
    if isinstance(release, PatternRelease):
        table = release.automaton(study.alphabet).table
        symbols = filled.tolist()
    else:
        table = event_table(study, release)
        symbols = [[int(study.alphabet[symbol] in release.event) for symbol in row] for row in filled.tolist()]
    counts = [[0] * len(table[0]) for _ in table]
    for row in symbols:
        state = 0
        for symbol in row[: period - 1]:
            state = table[state][symbol]
        counts[state][table[state].index(table[state][row[period - 1]])] += 1
    return [count for of_state in counts for count in of_state]


@given(studies(), st.data())
def test_tallies_count_windows_newcomers_and_transitions(study: Study, data: st.DataObject) -> None:
    filled = data.draw(histories_of(study))
    for period, tally in enumerate(folded(study, filled), start=1):
        assert list(tally) == [release.name for release in study.releases]
        for release in study.releases:
            if isinstance(release, WindowRelease):
                expected = expected_windows(study, release, filled, period)
            elif isinstance(release, CumulativeRelease) and release.measure == "paper":
                expected = expected_newcomers(study, release, filled, period)
            else:
                assert isinstance(release, EventRelease | PatternRelease)
                expected = expected_transitions(study, release, filled, period)
            assert tally[release.name].tolist() == expected
            assert tally[release.name].dtype == np.int64


@given(studies(), st.data())
def test_every_tally_is_possible_and_one_of_too_many_people_is_not(study: Study, data: st.DataObject) -> None:
    filled = data.draw(histories_of(study))
    for period, tally in enumerate(folded(study, filled), start=1):
        for release in study.releases:
            tallier, counts = make_tallier(study, release), tally[release.name]
            assert tallier.size == len(counts)
            assert tallier.is_possible(counts, len(filled), Period(period))
            if counts.any():
                more = counts + (np.arange(len(counts)) == counts.argmax()) * (len(filled) + 1)
                assert not tallier.is_possible(more, len(filled), Period(period))


@given(studies(), st.data())
def test_tallies_of_parts_add_up_to_those_of_all(study: Study, data: st.DataObject) -> None:
    filled = data.draw(histories_of(study))
    split = data.draw(st.integers(0, len(filled)))
    parts = zip(folded(study, filled[:split]), folded(study, filled[split:]), strict=True)
    for whole, (left, right) in zip(folded(study, filled), parts, strict=True):
        for name in whole:
            assert (whole[name] == left[name] + right[name]).all()


@pytest.mark.parametrize(("q", "k"), [(2, 8), (2, 16), (4, 8), (16, 2), (64, 2), (40, 3)])
def test_windows_at_the_edge_of_their_type_are_counted_right(q: int, k: int) -> None:
    """Where the number of windows just fits 8 or 16 bits."""
    study = build_study(WindowRelease("w", k), WindowRelease("n", 1), alphabet=[f"s{a}" for a in range(q)], horizon=k + 1)
    filled = np.full((2, k + 1), q - 1, dtype=np.uint8)
    filled[1, -1] = 0
    *_, before, last = folded(study, filled)
    assert before["w"][-1] == 2
    assert (last["w"][-1], last["w"][q**k - q]) == (1, 1)
    assert (last["n"][-1], last["n"][0]) == (1, 1)


def test_folding_leaves_the_cohort_before_as_it_was() -> None:
    study = build_study(WindowRelease("w", 2), CumulativeRelease("c", ("1",)), horizon=6)
    cohort = TallyState.of(study, 2)
    first, _ = cohort.fold(np.array([1, 0], dtype=np.uint8))
    _, tally = first.fold(np.array([1, 1], dtype=np.uint8))
    _, again = first.fold(np.array([1, 1], dtype=np.uint8))
    assert all((tally[name] == again[name]).all() for name in tally)
    assert cohort.windows.tolist() == [0, 0]
    assert cohort.weights["c"].tolist() == [0, 0]


def test_a_symbol_too_few_is_refused() -> None:
    cohort = TallyState.of(build_study(WindowRelease("w", 2), horizon=6), 3)
    with pytest.raises(ValueError, match="2 symbols for 3 people"):
        cohort.fold(np.zeros(2, dtype=np.uint8))
