"""Cohorts: the exact tallies of real people, compared with plain counting over their histories."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamproc.privacy.types import IntArray
from streamproc.releases.tally_state import TallyState
from streamproc.study import CumulativeRelease, Study, WindowRelease
from tests.releases.random_studies import Filled, histories_of, studies, true_at_least, true_bins
from tests.studies import build_study


def folded(study: Study, filled: Filled) -> list[dict[str, IntArray]]:
    cohort, tallies = TallyState.of(study, len(filled)), []
    for period in range(study.horizon):
        cohort, tally = cohort.fold(filled[:, period])
        tallies.append(tally)
    assert cohort.period == study.horizon
    return tallies


@given(studies(), st.data())
def test_tallies_count_windows_and_newcomers(study: Study, data: st.DataObject) -> None:
    filled = data.draw(histories_of(study))
    for period, tally in enumerate(folded(study, filled), start=1):
        assert list(tally) == [release.name for release in study.releases]
        for release in study.releases:
            if isinstance(release, CumulativeRelease):
                now = [*true_at_least(study, release, filled, period), *[0] * (study.horizon - period)]
                before = [*true_at_least(study, release, filled, period - 1), *[0] * (study.horizon - period + 1)]
                expected = [a - b for a, b in zip(now, before, strict=True)]
            else:
                assert isinstance(release, WindowRelease)
                empty = [0] * study.q**release.k
                expected = true_bins(filled, study.q, release.k, period) if period >= release.k else empty
            assert tally[release.name].tolist() == expected
            assert tally[release.name].dtype == np.int64


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
