"""How far an answer may be from the truth: variances that follow from public parameters alone."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np

from streamproc.privacy.cumulative import CumulativeMechanism
from streamproc.privacy.types import FloatArray, Period
from streamproc.privacy.window import WindowMechanism
from streamproc.releases.window import rounding_variance


def quantile(level: float) -> float:
    """Half-width in standard errors of a two-sided normal interval of this level: 1.96 for 0.95."""
    return _half_width((1 - level) / 2)


def _half_width(tail: float) -> float:
    # From the lower tail: near 1, the chance of all but the upper one is rounded to 1, whose quantile is infinite.
    return -NormalDist().inv_cdf(tail)


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
    """Variance that rounding adds to the same sum at `period`: that of each step so far, as far as it still counts.

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


def ratchet_halfwidth(mechanism: CumulativeMechanism, b: int, period: Period, level: float) -> float:
    """Half-width in people of an interval around a *clamped* count that covers with at least `level`.

    Clamping is a ratchet: the released `S_b` at `t` can be no further from the truth than the worst unclamped estimate among
    those that could have pushed it there, `(b', t')` with `b' <= b` and `b' <= t' <= t - (b - b')`. A union bound over their
    number, and 1/2 for rounding.
    """
    # A variance is that of the stream's noise times a gain that depends on the lag `t' - b'` alone.
    lags = range(period - b + 1)
    noisiest = max(range(1, b + 1), key=lambda weight: mechanism.sigmas[weight - 1])
    widest = max(mechanism.variance(noisiest, Period(noisiest + lag)) for lag in lags) ** 0.5
    return float(_half_width((1 - level) / 2 / (b * len(lags))) * widest + 0.5)
