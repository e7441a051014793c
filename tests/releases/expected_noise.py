"""Expected noise of a window release, computed from the formulas of the design alone."""

from __future__ import annotations

import math
from itertools import product

import numpy as np

from streamproc.privacy.adjacency import Adjacency
from streamproc.privacy.types import FloatArray
from streamproc.privacy.window import Measure


def expected_variance(q: int, k: int, horizon: int, measure: Measure, adjacency: Adjacency, rho: float) -> float:
    """`v`: noise variance of a bin before known totals, in people squared."""
    m, steps = int(q**k), horizon - k + 1
    replaced = adjacency is Adjacency.REPLACE_ONE
    if measure == "histogram":
        sensitivity = 2 if replaced else 1
        return steps * sensitivity / (2 * rho)
    if not replaced:
        return ((m - 1) / m + (steps - 1) * (q - 1) / q) / (2 * rho)
    shared = math.ceil((steps - 1) / k)
    return (1 + shared + (steps - 1 - shared) * (q - 1) / q) / rho


def expected_covariance(q: int, k: int, measure: Measure, v: float, period: int) -> FloatArray:
    """Of all bins' released counts at a period: `v (I - J/m)` or `v I` from noise, and what rounding adds."""
    m = q**k
    noise = v * (_centred(m) if measure == "contrast" else np.eye(m))
    return noise + rounding_covariance(q, k, measure, period)


def rounding_covariance(q: int, k: int, measure: Measure, period: int) -> FloatArray:
    """Each step rounds within groups; what it did to an overlap's total is spread evenly over the next step's bins."""
    windows = list(product(range(q), repeat=k))
    spread = np.array([[1 / q if old[1:] == new[:-1] else 0.0 for old in windows] for new in windows])
    groups = np.array([[new[:-1] == other[:-1] for other in windows] for new in windows])
    denominator = q * q if measure == "contrast" else q
    within = _even_fractions(denominator) * q / (q - 1) * np.where(groups, np.eye(q**k) - 1 / q, 0.0)
    covariance = np.zeros((q**k, q**k))
    if measure == "contrast":
        covariance = _even_fractions(q ** (2 * k)) * q**k / (q**k - 1) * _centred(q**k)
    for _ in range(k, period):
        covariance = spread @ covariance @ spread.T + within
    return covariance


def _centred(size: int) -> FloatArray:
    return np.eye(size) - 1 / size


def _even_fractions(denominator: int) -> float:
    """Mean of `f (1 - f)` over the fractions with this denominator."""
    fractions = np.arange(denominator) / denominator
    return float((fractions * (1 - fractions)).mean())
