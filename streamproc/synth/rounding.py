"""Integers that keep their total and are unbiased: systematic rounding of numerators over a common denominator."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from streamproc.privacy.quantities import IntArray


def round_groups(numerators: IntArray, denominator: int, rng: np.random.Generator) -> IntArray:
    """Round `numerators / denominator`, a group a row, so that each row keeps its (whole) total.

    Each entry becomes its floor or its ceiling, the ceiling with probability equal to its fraction: the cumulative sums of
    a freshly permuted row are all shifted by one uniform `U` in `{0..denominator-1}` before they are floored. The
    permutation makes errors of any two entries of a row equally correlated.
    """
    whole, fraction = np.divmod(numerators, denominator)
    if not fraction.any():
        return whole
    order = np.argsort(rng.random(numerators.shape), axis=1)
    shift = rng.integers(0, denominator, size=(len(numerators), 1))
    carried = (np.cumsum(np.take_along_axis(fraction, order, axis=1), axis=1) + shift) // denominator
    ups = np.diff(carried, axis=1, prepend=0)
    rounded = whole.copy()
    np.put_along_axis(rounded, order, np.take_along_axis(whole, order, axis=1) + ups, axis=1)
    return rounded


def beyond_rounding(counts: IntArray, numerators: IntArray, denominator: int) -> npt.NDArray[np.bool_]:
    """Which counts are neither the floor nor the ceiling of `numerators / denominator`: clamping has moved them."""
    floor, fraction = numerators // denominator, numerators % denominator
    outside: npt.NDArray[np.bool_] = (counts < floor) | (counts > floor + (fraction != 0))
    return outside


def rounding_variance(denominator: int) -> float:
    """Variance of one rounded entry whose fraction is spread evenly over multiples of `1/denominator`.

    `E f (1 - f)` for `f` uniform on `{0, 1/d, ..., (d-1)/d}` is `(1 - d^-2) / 6`.
    """
    return (1 - denominator**-2) / 6
