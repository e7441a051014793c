"""Errors of the counts of a window release: what rounding adds to the noise, and which counts were clamped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from streamproc.privacy.types import FloatArray, IntArray, Period
from streamproc.releases.kind import BoolArray
from streamproc.releases.step import Measurements
from streamproc.releases.window_synthesis import beyond_rounding, rounding_variance

if TYPE_CHECKING:
    from streamproc.releases.window import WindowContract


def carried_back(weights: FloatArray, q: int, *, drops: bool) -> FloatArray:
    """The weights on the windows of the period before that an error carries over with.

    The total of an overlap is spread evenly over its `q` bins. If the window drops its oldest symbol in the step, the total
    is a sum over that symbol.
    """
    means = weights.reshape(-1, q).mean(axis=1)
    return np.tile(means, q) if drops else means


def carried_back_to(contract: WindowContract, weights: FloatArray, period: Period, earlier: Period) -> FloatArray:
    """The weights on the windows of `earlier` that an error carries over with to the weighted sum of `period`."""
    k = contract.mechanism.k
    for step in range(period, max(earlier, period - k), -1):
        weights = carried_back(weights, contract.mechanism.q, drops=step > k)
    if earlier < period - k:
        # Every symbol has been averaged over, so the weights are constant and stay so.
        weights = np.full(contract.bins_at(earlier), weights[0])
    return weights


def rounding_covariance(contract: WindowContract, mine: FloatArray, theirs: FloatArray, period: Period) -> float:
    """Covariance that rounding adds to two weighted sums of the counts of `period`, from each step that still affects them.

    Rounding errors within a group of `q` bins have variance `s^2` each and add up to zero, so their covariance is
    `s^2 q/(q-1) (I - J/q)`. An error carries over to the next step through the totals of the overlaps, evenly spread; it is
    summed away after `k` steps.
    """
    q, k, covariance = contract.mechanism.q, contract.mechanism.k, 0.0
    copies = 1  # `carried_back` repeats the means for each symbol that is dropped; here one copy is kept, and counted
    for step in range(period, max(period - k, contract.first_column - 1), -1):
        one, other = mine.reshape(-1, q), theirs.reshape(-1, q)
        mine, theirs = one.mean(axis=1), other.mean(axis=1)
        products = copies * np.sum((one - mine[:, None]) * (other - theirs[:, None]))
        covariance += rounding_variance(contract.rounding_denominator(Period(step))) * q / (q - 1) * float(products)
        copies *= q if step > k else 1
    return covariance


def clamped_windows(
    contract: WindowContract,
    counts_at: Callable[[Period], IntArray],
    measurements: Sequence[Measurements],
    period: Period,
) -> BoolArray:
    """The bins whose count at `period` was changed by clamping, then or when an older symbol of the window was the newest.

    Clamping moves people between newest symbols. The totals of the next `k-1` steps, which keep that symbol in the window,
    follow from the moved counts; after that the symbol has left the window.
    """
    k, q = contract.mechanism.k, contract.mechanism.q
    last = max(period, contract.first_column)
    clamped = np.zeros(contract.bins_at(Period(last)), dtype=bool)
    for later in range(min(k, last - contract.first_column + 1)):
        moved = _moved(contract, counts_at, measurements, Period(last - later))
        dropped = max(last - k, 0) - max(last - later - k, 0)
        clamped |= moved.reshape(q**dropped, -1).any(axis=0).repeat(q**later)
    return clamped


def _moved(
    contract: WindowContract,
    counts_at: Callable[[Period], IntArray],
    measurements: Sequence[Measurements],
    period: Period,
) -> BoolArray:
    """The bins whose count at `period` is neither the floor nor the ceiling of its estimate."""
    before = counts_at(Period(period - 1)) if period > contract.first_column else None
    numerators, denominator = contract.estimated_counts(period, measurements[period - 1], before)
    return beyond_rounding(counts_at(period).reshape(numerators.shape), numerators, denominator).ravel()
