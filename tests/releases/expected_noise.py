"""Expected errors of a window release, computed from the formulas of the design alone."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np

from streamproc.privacy.adjacency import Adjacency
from streamproc.privacy.types import FloatArray
from streamproc.study.releases import Measure


def paper_variance(k: int, horizon: int, adjacency: Adjacency, rho: float) -> float:
    """Noise variance of a bin under `paper`, in people squared: a history is in one bin, its replacement in another."""
    sensitivity = 2 if adjacency is Adjacency.REPLACE_ONE else 1
    return (horizon - k + 1) * sensitivity / (2 * rho)


def flow_covariances(q: int, k: int, horizon: int, weights: Sequence[float]) -> FloatArray:
    """Noise covariance, under replace-one, of the number of people with each of the `q^T` histories, as far as it is known.

    The errors have the precision `sum_t q^k weights_t |windows that end at t|^2`, on errors that add up to zero because the
    number of people is public. What no window tells has no precision; the counts of windows do not depend on it.
    """
    size = q**horizon
    precision = np.zeros((size, size))
    for last, weight in enumerate(weights, start=k):
        windows = window_sums(q, k, horizon, last)
        precision += q**k * weight * windows.T @ windows
    same_people = np.eye(size) - 1 / size
    covariance: FloatArray = np.linalg.pinv(same_people @ precision @ same_people, rcond=1e-10, hermitian=True)
    return covariance


def window_sums(q: int, k: int, horizon: int, period: int) -> FloatArray:
    """For each window of a period, which of all histories have it; before period `k` a window is the history so far."""
    length = min(period, k)
    histories = np.arange(q**horizon) // q ** (horizon - period) % q**length
    sums: FloatArray = (histories[None, :] == np.arange(q**length)[:, None]).astype(np.float64)
    return sums


def rounding_covariance(q: int, k: int, measure: Measure, period: int) -> FloatArray:
    """Each step rounds within groups; what it did to an overlap's total is spread evenly over the next step's bins."""
    first = k if measure == "paper" else 1
    bins = q ** min(max(period, first), k)
    covariance = np.zeros((q**k, q**k)) if measure == "paper" else _rounded(q, q, 1)
    for step in range(first + 1, max(period, first) + 1):
        carry = _spread(q, min(step - 1, k), min(step, k))
        covariance = carry @ covariance @ carry.T + _rounded(q, len(carry), 0 if measure == "paper" else min(step, k))
    assert covariance.shape == (bins, bins)
    return covariance


def _rounded(q: int, bins: int, length: int) -> FloatArray:
    """Covariance that rounding adds in one step of a flow release with windows of `length`; of the paper's if that is 0."""
    denominator = q if not length else q**length if q == 2 else q ** (2 * length)
    within = np.kron(np.eye(bins // q), np.eye(q) - 1 / q)
    rounded: FloatArray = _even_fractions(denominator) * q / (q - 1) * within.astype(np.float64)
    return rounded


def _spread(q: int, old: int, new: int) -> FloatArray:
    windows_before, windows = list(product(range(q), repeat=old)), list(product(range(q), repeat=new))
    rows = [[1 / q if before[old - new + 1 :] == after[:-1] else 0.0 for before in windows_before] for after in windows]
    return np.array(rows)


def _even_fractions(denominator: int) -> float:
    """Mean of `f (1 - f)` over the fractions with this denominator."""
    fractions = np.arange(denominator) / denominator
    return float((fractions * (1 - fractions)).mean())
