"""The numbers behind the tables, on input whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.summaries import covered, largest_error, mean, ratio_of_means, root_mean_square, squared_errors


def test_a_mean_comes_with_its_normal_range() -> None:
    measured = mean([1.0, 2.0, 3.0, 4.0])

    half = 1.96 * np.sqrt(5 / 3) / 2
    assert measured.value == 2.5
    assert (measured.low, measured.high) == pytest.approx((2.5 - half, 2.5 + half), abs=1e-4)


def test_one_repetition_says_nothing_about_its_own_spread() -> None:
    assert mean([0.25]) == mean([0.25, 0.25])


def test_a_ratio_without_spread_is_exact() -> None:
    ratio = ratio_of_means(np.full(10, 2.0), np.full(10, 8.0))

    assert (ratio.low, ratio.value, ratio.high) == (0.25, 0.25, 0.25)


def test_a_root_takes_the_root_of_the_range_too() -> None:
    above, below = np.array([1.0, 2.0, 3.0]), np.array([2.0, 3.0, 4.0])
    whole, root = ratio_of_means(above, below), ratio_of_means(above, below, power=0.5)

    assert root.value == pytest.approx(np.sqrt(whole.value))
    assert (root.low, root.high) == pytest.approx((np.sqrt(whole.low), np.sqrt(whole.high)))


def test_ranges_of_ratios_hold_the_true_ratio_as_often_as_they_say() -> None:
    rng = np.random.default_rng(7)
    held = 0
    for _ in range(1000):
        above, below = 3 * rng.chisquare(20, 200), 4 * rng.chisquare(20, 200)
        ratio = ratio_of_means(above, below)
        held += ratio.low <= 0.75 <= ratio.high
    assert 930 <= held <= 970


def test_errors_are_taken_over_the_cells_of_each_repetition() -> None:
    truth = np.array([[1.0, 1.0], [2.0, 2.0]])
    estimates = np.stack([truth, truth + np.array([[2.0, 0.0], [0.0, -4.0]])])

    assert squared_errors(estimates, truth).tolist() == [0.0, 5.0]
    assert root_mean_square(estimates, truth) == pytest.approx(np.sqrt(2.5))
    assert largest_error(estimates, truth) == 2.0  # the median of 0 and 4


def test_an_interval_holds_its_ends() -> None:
    intervals = np.array([[0.0, 1.0], [0.0, 1.0], [0.0, 1.0], [0.0, 1.0]])

    assert covered(intervals, np.array([-0.1, 0.0, 1.0, 1.1])).tolist() == [False, True, True, False]
