"""The tree counter holds integers, measures each row when it says, and answers every running sum of every stream."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamproc.privacy.counters import Counter, tree_counter
from tests.privacy.by_definition import counter_rows


@pytest.mark.parametrize("length", [1, 2, 3, 8, 13, 32, 50])
def test_rows_are_the_ones_its_definition_says(length: int) -> None:
    made = tree_counter(length)
    assert made.length == length
    assert made.matrix.dtype == np.int64
    rows = counter_rows(length)
    assert made.matrix.tolist() == [row for _, row in rows]
    assert made.ends.tolist() == [time for time, _ in rows]


def test_a_row_reaches_up_to_its_own_time_and_no_further() -> None:
    made = tree_counter(40)
    assert made.ends.tolist() == [int(np.flatnonzero(row).max()) + 1 for row in made.matrix]
    assert [row for time in range(1, 41) for row in range(*made.rows_at(time).indices(10**6))] == list(range(len(made.ends)))
    for time in range(1, 41):
        assert set(made.ends[made.rows_at(time)].tolist()) == {time}


def answers_of(made: Counter, stream: npt.NDArray[np.int64]) -> list[float]:
    """Each answer from nothing but the rows that have been measured by then."""
    measured = made.matrix[:, : len(stream)] @ stream
    return [
        float(made.answers[time - 1, made.ends <= time] @ measured[made.ends <= time]) for time in range(1, len(stream) + 1)
    ]


@given(length=st.integers(1, 48), items=st.lists(st.integers(0, 10**6), min_size=1, max_size=48))
def test_without_noise_every_running_sum_is_answered_exactly(length: int, items: list[int]) -> None:
    stream = np.array(items[:length], dtype=np.int64)
    answers = answers_of(tree_counter(length), np.append(stream, np.zeros(length - len(stream), dtype=np.int64)))
    assert answers[: len(stream)] == np.cumsum(stream).tolist()


def test_an_answer_uses_no_row_that_is_measured_after_it() -> None:
    made = tree_counter(37)
    for time in range(1, 38):
        assert not made.answers[time - 1, made.ends > time].any()


def test_the_tree_adds_one_node_for_each_bit_of_the_time() -> None:
    made = tree_counter(64)
    for time in range(1, 65):
        assert set(np.unique(made.answers[time - 1])) <= {0.0, 1.0}
        assert made.answers[time - 1].sum() == time.bit_count()


def test_an_item_of_the_tree_is_in_as_many_nodes_as_the_length_has_bits() -> None:
    made = tree_counter(70)
    for length in range(1, 71):
        assert made.largest_column(length) == length.bit_length()
    for power in (1, 2, 4, 8, 16, 32, 64):
        too_few = (power - 1).bit_length()  # ceil(log2(length))
        assert made.largest_column(power) == too_few + 1


def test_the_largest_column_of_a_prefix_counts_only_what_the_prefix_measures() -> None:
    made = tree_counter(33)
    for length in (1, 2, 5, 16, 31, 33):
        rows = np.array([row for _, row in counter_rows(length)])
        assert made.largest_column(length) == (rows**2).sum(axis=0).max()


def test_gains_are_the_squared_lengths_of_the_answers() -> None:
    made = tree_counter(29)
    assert made.gains() == pytest.approx([sum(x * x for x in row) for row in made.answers.tolist()], rel=1e-13)


@pytest.mark.parametrize("length", [1, 2, 6, 16, 31])
def test_a_shorter_counter_is_the_leading_part_of_a_longer_one(length: int) -> None:
    short, long = tree_counter(length), tree_counter(45)
    rows = int(np.count_nonzero(long.ends <= length))
    assert np.array_equal(short.ends, long.ends[:rows])
    assert np.array_equal(short.matrix, long.matrix[:rows, :length])
    assert np.array_equal(short.answers, long.answers[:length, :rows])
    assert not long.matrix[:rows, length:].any()


def test_there_is_no_counter_for_an_empty_stream() -> None:
    with pytest.raises(ValueError, match="at least one item, got 0"):
        tree_counter(0)
