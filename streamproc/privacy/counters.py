"""The counter of the paper: the binary tree, whose noisy nodes answer every running sum of a stream.

At time `t` it measures the dyadic node that ends there, and a running sum is the sum of at most `log2(t) + 1` nodes. The
counter of a shorter stream is the leading part of that of a longer one, so one object serves every length.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from streamproc.privacy.types import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Counter:
    """A counter for streams of up to `length` items. Times are local: `1..length`."""

    matrix: IntArray
    """One row per measurement, one column per stream item."""
    ends: IntArray
    """The time at which each row is measured, non-decreasing: the last item it depends on."""
    answers: FloatArray
    """Row `t-1` turns the measurements with `ends <= t` into the running sum at `t`."""

    @property
    def length(self) -> int:
        """The length of the longest stream that it can count."""
        return int(self.matrix.shape[1])

    def rows_at(self, time: int) -> slice:
        """The rows measured at `time`."""
        return slice(int(np.searchsorted(self.ends, time)), int(np.searchsorted(self.ends, time, side="right")))

    def gains(self) -> FloatArray:
        """Squared length of each row of `answers`: the variance of an answer as a multiple of the noise's."""
        gains: FloatArray = np.einsum("tr,tr->t", self.answers, self.answers)
        return gains

    def largest_column(self, length: int) -> int:
        """The squared L2 sensitivity of the whole stream to one item, for a stream of `length` items."""
        rows = self.matrix[self.ends <= length, :length]
        return int((rows * rows).sum(axis=0).max())


@lru_cache(maxsize=16)
def tree_counter(length: int) -> Counter:
    """The binary mechanism: at time `t` measure the dyadic node that ends there, as long as `t`'s lowest set bit.

    Item 1 is in the nodes that end at 1, 2, 4, ...: `length.bit_length()` of them, more than any other item.
    """
    if length < 1:
        raise ValueError(f"a counter needs a stream of at least one item, got {length}")
    matrix = np.zeros((length, length), dtype=np.int64)
    answers = np.zeros((length, length))
    for time in range(1, length + 1):
        start = time - (time & -time)
        matrix[time - 1, start:time] = 1
        if start:
            answers[time - 1] = answers[start - 1]
        answers[time - 1, time - 1] = 1
    return Counter(matrix, np.arange(1, length + 1), answers)
