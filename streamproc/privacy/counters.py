"""Counters: integer matrices whose noisy rows answer every running sum of a stream.

A counter measures `C x + noise` row by row as the stream `x` arrives, and answers running sums with the rows of `A C^-1`
(`A` is the running sum) or, where `C` has more rows than columns, the least-squares rows. `C` holds integers, because
integer noise on a matrix with fractions would leak through the fractions.

The counter of a shorter stream is the leading part of that of a longer one, so one object serves every length.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeVar

import numpy as np
import numpy.typing as npt

from streamproc.privacy.types import FloatArray, IntArray

_Number = TypeVar("_Number", np.int64, np.float64)

CounterName = Literal["sqrt", "tree", "honaker"]

SQRT_SCALE = 2**12
"""Factor by which the coefficients of the square root, all in (0, 1], are multiplied before rounding."""


@dataclass(frozen=True, eq=False)
class Counter:
    """A counter for streams of up to `length` items. Times are local: `1..length`."""

    name: CounterName
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

    @property
    def is_toeplitz(self) -> bool:
        """Whether the contribution of an item depends only on how long it has been in the stream."""
        return self.name == "sqrt"

    def rows_at(self, time: int) -> slice:
        """The rows measured at `time`."""
        return slice(int(np.searchsorted(self.ends, time)), int(np.searchsorted(self.ends, time, side="right")))

    def gains(self) -> FloatArray:
        """`|(A C^-1)_t|^2` for `t = 1..length`: the variance of an answer as a multiple of the noise's."""
        gains: FloatArray = np.einsum("tr,tr->t", self.answers, self.answers)
        return gains

    def largest_column(self, length: int) -> int:
        """The squared L2 sensitivity of the whole stream to one item, for a stream of `length` items."""
        rows = self.matrix[self.ends <= length, :length]
        return int((rows * rows).sum(axis=0).max())


@lru_cache(maxsize=16)
def counter(name: CounterName, length: int) -> Counter:
    """The named counter for streams of up to `length` items."""
    if length < 1:
        raise ValueError(f"a counter needs a stream of at least one item, got {length}")
    return {"sqrt": _sqrt, "tree": _tree, "honaker": _honaker}[name](length)


def _sqrt(length: int) -> Counter:
    """The square root of the running sum, `1 / sqrt(1 - x) = sum_j binom(2j, j) / 4^j x^j`, rounded to 12 bits."""
    coefficients = np.ones(length)
    for j in range(1, length):
        coefficients[j] = coefficients[j - 1] * (2 * j - 1) / (2 * j)
    rounded = np.rint(SQRT_SCALE * coefficients).astype(np.int64)
    answers = np.zeros(length)
    for j in range(length):  # power series of A = 1/(1-x), divided by that of C
        answers[j] = (1 - rounded[1 : j + 1] @ answers[:j][::-1]) / rounded[0]
    return Counter("sqrt", _toeplitz(rounded), np.arange(1, length + 1), _toeplitz(answers))


def _tree(length: int) -> Counter:
    """The binary mechanism: at time `t` measure the dyadic node that ends there, as long as `t`'s lowest set bit.

    Item 1 is in the nodes that end at 1, 2, 4, ...: `length.bit_length()` of them, more than any other item.
    """
    matrix = np.zeros((length, length), dtype=np.int64)
    answers = np.zeros((length, length))
    for time in range(1, length + 1):
        start = time - (time & -time)
        matrix[time - 1, start:time] = 1
        if start:
            answers[time - 1] = answers[start - 1]
        answers[time - 1, time - 1] = 1
    return Counter("tree", matrix, np.arange(1, length + 1), answers)


def _honaker(length: int) -> Counter:
    """Every complete dyadic node, measured when it ends; each sum is estimated from all nodes at or below its parts.

    A node's own measurement (variance 1) and the sum of its children's estimates (variance `2 w`) are combined by inverse
    variance. All measured nodes inside `1..t` lie below the nodes that make up `1..t`, so this is the least-squares answer.
    """
    nodes = [(time - size, time) for time in range(1, length + 1) for size in _sizes_ending_at(time)]
    row = {node: index for index, node in enumerate(nodes)}
    matrix = np.zeros((len(nodes), length), dtype=np.int64)
    estimates = np.zeros((len(nodes), len(nodes)))
    variances = np.zeros(len(nodes))
    for index, (start, end) in enumerate(nodes):
        matrix[index, start:end] = 1
        own = 1.0
        if end - start > 1:
            middle = (start + end) // 2
            left, right = row[start, middle], row[middle, end]
            below = variances[left] + variances[right]
            own = below / (1 + below)
            estimates[index] = (1 - own) * (estimates[left] + estimates[right])
        estimates[index, index] = own
        variances[index] = own
    answers = np.zeros((length, len(nodes)))
    for time in range(1, length + 1):
        start = time - (time & -time)
        answers[time - 1] = estimates[row[start, time]]
        if start:
            answers[time - 1] += answers[start - 1]
    return Counter("honaker", matrix, np.array([end for _, end in nodes], dtype=np.int64), answers)


def _sizes_ending_at(time: int) -> list[int]:
    """The sizes of the complete dyadic nodes that end at `time`: 1, 2, ... up to its lowest set bit."""
    return [1 << level for level in range((time & -time).bit_length())]


def _toeplitz(coefficients: npt.NDArray[_Number]) -> npt.NDArray[_Number]:
    """The lower triangular matrix whose first column is `coefficients`."""
    lag = np.subtract.outer(np.arange(len(coefficients)), np.arange(len(coefficients)))
    return np.tril(coefficients[np.maximum(lag, 0)])
