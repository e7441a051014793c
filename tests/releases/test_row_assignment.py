"""Which synthetic rows get which symbol: exact counts, every assignment equally likely."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import permutations
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from streamproc.privacy.types import IntArray
from streamproc.releases import row_assignment as rows
from streamproc.releases.row_assignment import Codes, assign_symbols, narrowest_dtype, shuffled_rows
from tests.releases.statistical_checks import FALSE_ALARM, assert_uniform

TABLES = st.integers(1, 5).flatmap(
    lambda q: st.lists(st.lists(st.integers(0, 12), min_size=q, max_size=q), min_size=1, max_size=6)
)
"""Rows for each group and symbol, groups and symbols without any among them."""


def rows_of(counts: IntArray, rng: np.random.Generator) -> Codes:
    """The groups of as many rows as `counts` needs, in random order."""
    groups = np.repeat(np.arange(len(counts), dtype=narrowest_dtype(len(counts))), counts.sum(axis=1))
    return rng.permutation(groups)


def counted(groups: Codes, symbols: Codes, like: IntArray) -> IntArray:
    cells = groups.astype(np.int64) * like.shape[1] + symbols
    return np.bincount(cells, minlength=like.size).reshape(like.shape)


def all_assignments(counts: list[int]) -> list[tuple[int, ...]]:
    """Every way to give `counts[a]` of the rows of one group symbol `a`."""
    return sorted(set(permutations([a for a, count in enumerate(counts) for _ in range(count)])))


@pytest.fixture(params=["one chunk", "chunks of three rows", "coarse table"])
def any_layout(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The size of chunks and of the table are about speed: nothing may depend on them."""
    if request.param == "chunks of three rows":
        monkeypatch.setattr(rows, "_CHUNK", 3)
    if request.param == "coarse table":
        monkeypatch.setattr(rows, "TABLE_BITS", 1)
    yield


@pytest.mark.usefixtures("any_layout")
def test_counts_are_exact() -> None:
    @given(TABLES, st.integers(0, 2**32))
    def every_count_is_met(table: list[list[int]], seed: int) -> None:
        counts, rng = np.array(table), np.random.default_rng(seed)
        groups = rows_of(counts, rng)
        before = groups.copy()
        symbols = assign_symbols(groups, counts, rng)
        assert (counted(groups, symbols, counts) == counts).all()
        assert (groups == before).all()

    every_count_is_met()


@given(st.lists(st.integers(0, 9), min_size=1, max_size=300), st.integers(0, 2**32))
def test_shuffled_rows_hold_every_code_as_often_as_asked(counts: list[int], seed: int) -> None:
    shuffled = shuffled_rows(np.array(counts), np.random.default_rng(seed))
    assert np.bincount(shuffled, minlength=len(counts)).tolist() == counts
    assert shuffled.dtype == (np.uint8 if len(counts) <= 256 else np.uint16)


@pytest.mark.parametrize(("states", "wanted"), [(2, np.uint8), (256, np.uint8), (257, np.uint16), (65536, np.uint16)])
def test_codes_take_as_few_bytes_as_they_can(states: int, wanted: type) -> None:
    assert narrowest_dtype(states) is wanted


def test_codes_that_would_wrap_around_are_refused() -> None:
    with pytest.raises(ValueError, match="codes fit 16 bits, got 65538 states"):
        assign_symbols(np.zeros(2, dtype=np.uint16), np.ones((2, 32769), dtype=np.int64), np.random.default_rng(0))


@pytest.mark.parametrize(
    ("n_groups", "q", "people"),
    [(1, 65536, 100_000), (1024, 64, 300_000), (32768, 2, 200_000), (64, 64, 250_000), (1, 2, 300_000), (3, 2, 0)],
)
def test_counts_are_exact_in_large_panels_too(n_groups: int, q: int, people: int) -> None:
    rng = np.random.default_rng(2)
    chances = rng.dirichlet(np.full(n_groups * q, 0.3))
    counts = rng.multinomial(people, chances).reshape(n_groups, q)
    groups = rows_of(counts, rng)
    assert (counted(groups, assign_symbols(groups, counts, rng), counts) == counts).all()


@pytest.mark.parametrize("counts", [[2, 2], [1, 4], [2, 1, 1], [0, 2, 0, 1], [1, 1, 1, 1]])
def test_every_order_of_shuffled_rows_is_equally_likely(counts: list[int]) -> None:
    """Chi-square over all orders; false alarm 1e-6 at a random seed, which is fixed."""
    rng = np.random.default_rng(11)
    drawn = [tuple(shuffled_rows(np.array(counts), rng).tolist()) for _ in range(4000)]
    assert_uniform(drawn, all_assignments(counts))


@pytest.mark.usefixtures("any_layout")
@pytest.mark.parametrize("counts", [[2, 2], [1, 4], [2, 1, 1], [0, 2, 0, 1], [3, 2, 1]])
def test_every_assignment_of_a_small_group_is_equally_likely(counts: list[int]) -> None:
    """Thousands of such groups at once, rows mixed. Chi-square; false alarm 1e-6 at a random seed, which is fixed."""
    rng, many = np.random.default_rng(12), 8000
    table = np.tile(counts, (many, 1))
    groups = rows_of(table, rng)
    symbols = assign_symbols(groups, table, rng)
    by_group = symbols[np.argsort(groups, kind="stable")].reshape(many, -1)
    assert_uniform(map(tuple, by_group.tolist()), all_assignments(counts))


def test_two_groups_are_drawn_independently() -> None:
    """Chi-square over the assignments of both; false alarm 1e-6 at a random seed, which is fixed."""
    rng = np.random.default_rng(13)
    groups, counts = np.array([0, 1, 0, 1, 0], dtype=np.uint8), np.array([[2, 1], [1, 1]])
    drawn = []
    for _ in range(4000):
        symbols = assign_symbols(groups, counts, rng)
        drawn.append((tuple(symbols[groups == 0].tolist()), tuple(symbols[groups == 1].tolist())))
    assert_uniform(drawn, [(a, b) for a in all_assignments([2, 1]) for b in all_assignments([1, 1])])


class AllZero:
    """A first draw that gives every row symbol 0, so that every row with another symbol was chosen by the correction."""

    def __call__(self, groups: Codes, counts: IntArray, rng: np.random.Generator) -> tuple[Codes, IntArray]:
        drawn = np.zeros_like(counts)
        drawn[:, 0] = counts.sum(axis=1)
        return np.zeros(len(groups), dtype=np.uint8), drawn


@pytest.mark.parametrize(("chosen", "scans"), [(600, False), (9000, True)])
def test_mending_picks_every_row_and_every_pair_equally_often(
    monkeypatch: pytest.MonkeyPatch, chosen: int, scans: bool
) -> None:
    """Few rows are found by probing, many by looking at all. False alarm 1e-6 for each verdict; the seed is fixed.

    How often a row is chosen, over its expectation, sums up to a chi-square over rows; so do the pairs of rows a fixed
    distance apart (next to each other, in the next chunk) that are chosen together.
    """
    size, runs = 70_000, 300
    scan = Mock(wraps=rows._rows_at_random)
    monkeypatch.setattr(rows, "_rows_at_random", scan)
    monkeypatch.setattr(rows, "_draw", AllZero())
    rng = np.random.default_rng(14)
    groups, counts = np.zeros(size, dtype=np.uint8), np.array([[size - chosen, chosen]])
    hits, pairs = np.zeros(size), Counter[int]()
    for _ in range(runs):
        symbols = assign_symbols(groups, counts, rng)
        hits += symbols
        for distance in (1, 2, 65536):
            pairs[distance] += int(np.count_nonzero(symbols & np.roll(symbols, distance)))
    assert scan.called is scans
    share = chosen / size
    spread = float((((hits - runs * share) ** 2).sum() / (runs * share * (1 - share))) * (size - 1) / size)
    assert 2 * min(stats.chi2.cdf(spread, size - 1), stats.chi2.sf(spread, size - 1)) > FALSE_ALARM
    halves = hits[: size // 2].sum()
    together = share * (chosen - 1) / (size - 1)
    assert abs(halves - runs * chosen / 2) < stats.norm.isf(FALSE_ALARM / 2) * np.sqrt(runs * chosen / 4)
    for met in pairs.values():
        # Close to a Poisson number: pairs are many and each is rare.
        assert abs(met - runs * size * together) < stats.norm.isf(FALSE_ALARM / 6) * np.sqrt(runs * size * together)


def test_the_symbol_a_chosen_row_gets_does_not_depend_on_where_it_stands() -> None:
    """Three symbols, probing branch: chi-square of symbol by tenth of the panel; false alarm 1e-6, the seed is fixed."""
    size, runs = 100_000, 40
    rng = np.random.default_rng(15)
    groups, counts = np.zeros(size, dtype=np.uint8), np.array([[50_000, 30_000, 20_000]])
    met = np.zeros((10, 3))
    for _ in range(runs):
        symbols = assign_symbols(groups, counts, rng).reshape(10, -1)
        met += np.array([np.bincount(tenth, minlength=3) for tenth in symbols])
    expected = np.tile(counts[0] * runs / 10, (10, 1))
    assert stats.chi2.sf(((met - expected) ** 2 / expected).sum(), 18) > FALSE_ALARM
