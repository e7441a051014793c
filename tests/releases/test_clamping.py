"""Clamping: nothing is negative, totals are preserved, as little as possible changes, ties are broken at random."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streamproc.releases.window_synthesis import clamp_groups
from tests.releases.statistical_checks import assert_uniform

COUNTS = st.lists(st.integers(-9, 9), min_size=1, max_size=7).filter(lambda counts: sum(counts) >= 0)


def level(counts: list[int], total: int) -> int:
    """The largest `tau >= 0` that leaves at least `total`, tried one by one."""
    tau = 0
    while sum(max(0, count - tau - 1) for count in counts) >= total and tau < 100:
        tau += 1
    return tau


def clamped(counts: list[int], seed: int = 0) -> tuple[list[int], int]:
    after, changed = clamp_groups(np.array([counts]), np.array([sum(counts)]), np.random.default_rng(seed))
    return after[0].tolist(), changed


@given(COUNTS, st.integers(0, 2**32))
@example([-3, 3], 0)
@example([-1, 0, 0, 5], 0)
@example([-9, 9, 9, 9], 0)
def test_every_entry_loses_the_same_and_some_one_more(counts: list[int], seed: int) -> None:
    after, changed = clamped(counts, seed)
    assert sum(after) == sum(counts)
    assert min(after) >= 0
    assert changed == sum(a != b for a, b in zip(after, counts, strict=True))
    if min(counts) >= 0:
        assert after == counts
        return
    lowered = [max(0, count - level(counts, sum(counts))) for count in counts]
    assert all(low - high in (0, 1) for low, high in zip(lowered, after, strict=True))


@given(st.lists(COUNTS, min_size=1, max_size=6))
def test_each_group_is_clamped_by_itself(groups: list[list[int]]) -> None:
    """Groups filled up with zeros to one width: a zero stays a zero, so it changes nothing about the others."""
    width = max(map(len, groups))
    rows = np.array([counts + [0] * (width - len(counts)) for counts in groups])
    after, changed = clamp_groups(rows, rows.sum(axis=1), np.random.default_rng(1))
    assert (after.sum(axis=1) == rows.sum(axis=1)).all()
    assert after.min() >= 0
    untouched = (rows >= 0).all(axis=1)
    assert (after[untouched] == rows[untouched]).all()
    assert changed == np.count_nonzero(after != rows)


def test_counts_that_need_nothing_are_handed_back_as_they_are() -> None:
    counts = np.array([[0, 3], [2, 2]])
    after, changed = clamp_groups(counts, counts.sum(axis=1), np.random.default_rng(0))
    assert after is counts
    assert changed == 0


def test_the_counts_given_are_not_written_to() -> None:
    counts = np.array([[-2, 5]])
    clamp_groups(counts, np.array([3]), np.random.default_rng(0))
    assert counts.tolist() == [[-2, 5]]


@pytest.mark.parametrize("counts", [[-4, 4], [-5, 2, 3], [-1, 1, 0]])
def test_a_group_of_nobody_becomes_nobody(counts: list[int]) -> None:
    assert clamped(counts)[0] == [0] * len(counts)


def test_a_total_that_noise_made_negative_is_nobody_too() -> None:
    after, changed = clamp_groups(np.array([[-4, 1, 0]]), np.array([0]), np.random.default_rng(0))
    assert after.tolist() == [[0, 0, 0]]
    assert changed == 2


@pytest.mark.parametrize(
    ("counts", "lowered", "more"), [([-2, 3, 3, 3], [0, 3, 3, 3], 2), ([-1, 5, 5, 2, 1], [0, 5, 5, 2, 1], 1)]
)
def test_who_loses_one_more_is_drawn_by_lot(counts: list[int], lowered: list[int], more: int) -> None:
    """Chi-square over all choices; false alarm 1e-6 at a random seed, which is fixed."""
    runs = 3000
    after, _ = clamp_groups(np.tile(counts, (runs, 1)), np.full(runs, sum(counts)), np.random.default_rng(5))
    losers = [tuple(np.flatnonzero(row).tolist()) for row in np.array(lowered) - after]
    assert_uniform(losers, list(combinations(np.flatnonzero(lowered).tolist(), more)))
