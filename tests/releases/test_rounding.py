"""Rounding: totals are preserved, each entry is a floor or a ceiling, without bias, and entries are treated alike."""

from __future__ import annotations

import math
from itertools import combinations, permutations
from typing import cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamproc.privacy.types import IntArray
from streamproc.releases.window_synthesis import round_groups, rounding_variance


class EveryDraw:
    """A generator that yields every order of `g` bins with every shift, each once."""

    def __init__(self, g: int, denominator: int) -> None:
        orders = np.array(list(permutations(range(g))))
        self.keys = np.argsort(np.repeat(orders, denominator, axis=0), axis=1)
        self.shifts = np.tile(np.arange(denominator), len(orders))

    def random(self, shape: tuple[int, int]) -> IntArray:
        assert shape == self.keys.shape
        return self.keys

    def integers(self, low: int, high: int, size: tuple[int, int]) -> IntArray:
        assert (low, high, size) == (0, self.shifts.max() + 1, (len(self.shifts), 1))
        return self.shifts[:, None]


def every_outcome(numerators: list[int], denominator: int) -> IntArray:
    """What rounding yields for each draw there is, a row each: all are equally likely."""
    draws = EveryDraw(len(numerators), denominator)
    repeated = np.tile(np.array(numerators), (len(draws.shifts), 1))
    return round_groups(repeated, denominator, cast(np.random.Generator, draws))


@st.composite
def groups(draw: st.DrawFn, most: int = 5) -> tuple[list[int], int]:
    """Numerators, negative ones too, whose sum is a multiple of their denominator."""
    denominator = draw(st.integers(1, 16))
    rest = draw(st.lists(st.integers(-50, 200), min_size=1, max_size=most - 1))
    total = draw(st.integers(-5, 40)) * denominator
    return [*rest, total - sum(rest)], denominator


@given(groups(most=4))
def test_the_ceiling_comes_exactly_as_often_as_the_fraction_says(group: tuple[list[int], int]) -> None:
    numerators, denominator = group
    outcomes = every_outcome(numerators, denominator)
    assert (outcomes.sum(axis=0) * denominator == np.array(numerators) * len(outcomes)).all()


@given(groups(), st.integers(0, 2**32))
def test_totals_are_kept_and_entries_become_their_floor_or_ceiling(group: tuple[list[int], int], seed: int) -> None:
    numerators, denominator = group
    [rounded] = round_groups(np.array([numerators]), denominator, np.random.default_rng(seed)).tolist()
    assert sum(rounded) * denominator == sum(numerators)
    for numerator, entry in zip(numerators, rounded, strict=True):
        assert entry in (math.floor(numerator / denominator), math.ceil(numerator / denominator))


@pytest.mark.parametrize("g", [2, 3, 4, 5])
def test_the_errors_of_any_two_entries_are_equally_correlated(g: int) -> None:
    """With equal fractions the covariance must be that of equal, opposed errors: `-f (1 - f) / (g - 1)` for each pair."""
    outcomes = every_outcome([1] * g, g) - 1 / g
    covariance = outcomes.T @ outcomes / len(outcomes)
    variance = (1 / g) * (1 - 1 / g)
    for a, b in combinations(range(g), 2):
        assert covariance[a, b] == pytest.approx(-variance / (g - 1))
    assert np.diagonal(covariance) == pytest.approx([variance] * g)


def test_neighbours_are_not_rounded_against_each_other() -> None:
    """Four halves: without the permutation the first two would always be rounded in opposite directions."""
    errors = every_outcome([1, 1, 1, 1], 2) - 0.5
    assert errors.T @ errors / len(errors) == pytest.approx((np.eye(4) - 0.25) / 3)


@given(groups(most=4), st.randoms(use_true_random=False))
def test_where_a_bin_stands_does_not_matter(group: tuple[list[int], int], random: object) -> None:
    numerators, denominator = group
    order = list(range(len(numerators)))
    random.shuffle(order)  # type: ignore[attr-defined]
    here = sorted(every_outcome(numerators, denominator)[:, order].tolist())
    there = sorted(every_outcome([numerators[place] for place in order], denominator).tolist())
    assert here == there


def test_whole_numbers_stay_and_use_no_randomness() -> None:
    rng = np.random.default_rng(7)
    untouched = rng.bit_generator.state
    assert round_groups(np.array([[8, -4], [0, 12]]), 4, rng).tolist() == [[2, -1], [0, 3]]
    assert rng.bit_generator.state == untouched


def test_each_group_has_a_shift_and_an_order_of_its_own() -> None:
    """One group of two halves says nothing about the next: 16 groups all rounded alike have chance 2^-15."""
    rounded = round_groups(np.full((16, 2), 1), 2, np.random.default_rng(3))
    assert 0 < rounded[:, 0].sum() < 16


@pytest.mark.parametrize("denominator", [1, 2, 3, 4, 9, 64])
def test_the_variance_is_that_of_a_fraction_spread_evenly(denominator: int) -> None:
    fractions = np.arange(denominator) / denominator
    assert rounding_variance(denominator) == pytest.approx((fractions * (1 - fractions)).mean())
