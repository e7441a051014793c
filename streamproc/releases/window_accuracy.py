"""Errors of the counts of a window release: variances that follow from public parameters, and which counts were clamped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from streamproc.privacy.types import FloatArray, IntArray, Period
from streamproc.privacy.window import WindowMechanism
from streamproc.releases.kind import BoolArray
from streamproc.releases.step import Measurements
from streamproc.releases.window_synthesis import beyond_rounding, estimated_counts, rounding_variance

if TYPE_CHECKING:
    from streamproc.releases.window import WindowContract


def noise_variance(mechanism: WindowMechanism, weights: FloatArray) -> float:
    """Variance from noise of the sum of released counts weighted by `weights`, the same at every step.

    The errors of all bins have covariance `v I` under `histogram` and `v (I - J/m)` under `contrast`, where the total is
    known; a later step keeps it so, since the error of an overlap's total is spread evenly over its `q` bins.
    """
    spread = float(weights @ weights)
    if mechanism.measure == "contrast":
        spread -= float(weights.sum()) ** 2 / mechanism.bins
    return float(mechanism.variance * max(spread, 0.0))


def rounding_variance_of(mechanism: WindowMechanism, weights: FloatArray, period: Period) -> float:
    """Variance that rounding adds to the same sum at `period`, from each earlier step that still affects it.

    Rounding errors within a group of `g` bins have variance `s^2` each and add up to zero, so their covariance is
    `s^2 g/(g-1) (I - J/g)`. An error carries over to the next step through the totals of the overlaps, evenly spread; it is
    summed away after `k` steps.
    """
    q = mechanism.q
    variance = 0.0
    later_steps = max(period - mechanism.k, 0)
    denominator = q * q if mechanism.measure == "contrast" else q
    for _ in range(min(later_steps, mechanism.k)):
        groups = weights.reshape(-1, q)
        variance += _group_variance(groups, denominator)
        weights = np.tile(groups.mean(axis=1), q)
    if mechanism.measure == "contrast" and later_steps < mechanism.k:
        variance += _group_variance(weights[None, :], mechanism.bins**2)
    return variance


def _group_variance(groups: FloatArray, denominator: int) -> float:
    g = groups.shape[1]
    centred = groups - groups.mean(axis=1, keepdims=True)
    return float(rounding_variance(denominator) * g / (g - 1) * np.sum(centred * centred))


def window_stderr(mechanism: WindowMechanism, weights: FloatArray, period: Period) -> float:
    """Standard error in people of the sum of released counts weighted by `weights`."""
    return float(np.sqrt(noise_variance(mechanism, weights) + rounding_variance_of(mechanism, weights, period)))


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
    last = max(period, k)
    clamped = np.zeros(contract.mechanism.bins, dtype=bool)
    for later in range(min(k, last - k + 1)):
        moved = _moved(contract, counts_at, measurements, Period(last - later))
        clamped |= moved.reshape(q**later, -1).any(axis=0).repeat(q**later)
    return clamped


def _moved(
    contract: WindowContract,
    counts_at: Callable[[Period], IntArray],
    measurements: Sequence[Measurements],
    period: Period,
) -> BoolArray:
    """The bins whose count at `period` is neither the floor nor the ceiling of its estimate."""
    before = counts_at(Period(period - 1)) if period > contract.mechanism.k else None
    numerators, denominator = estimated_counts(contract, measurements[period - 1][0], before)
    return beyond_rounding(counts_at(period).reshape(numerators.shape), numerators, denominator).ravel()
