"""Statistical tests. Each fails for correct code with probability at most `FALSE_ALARM` over the random seeds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable

import numpy as np
from scipy import stats

from streamproc.privacy.types import FloatArray

FALSE_ALARM = 1e-6


def assert_uniform(observed: Iterable[Hashable], outcomes: Collection[Hashable]) -> None:
    """Independent observations, each of the outcomes equally likely and nothing else possible: chi-square."""
    seen = Counter(observed)
    assert set(seen) <= set(outcomes)
    assert stats.chisquare([seen[outcome] for outcome in outcomes]).pvalue > FALSE_ALARM


def assert_covariance(errors: FloatArray, expected: FloatArray) -> None:
    """A row of `errors` is one run: of mean zero and covariance `expected`, roughly normal.

    Looks at the mean of every coordinate, and at the variance of every coordinate and of the sum of every two, which fix the
    covariance. The squares of a direction, over its expected variance, add up to a chi-square with a degree per run.
    """
    runs, size = errors.shape
    directions = np.vstack([np.eye(size), *(np.eye(size)[a] + np.eye(size)[a + 1 :] for a in range(size))])
    variances = np.einsum("da,ab,db->d", directions, expected, directions)
    along = errors @ directions.T
    constant = variances < 1e-9
    assert np.allclose(along[:, constant], 0)
    squares = (along[:, ~constant] ** 2).sum(axis=0) / variances[~constant]
    means = errors.mean(axis=0)[variances[:size] > 1e-9] / np.sqrt(variances[:size][variances[:size] > 1e-9] / runs)
    p_values = np.concatenate(
        [2 * np.minimum(stats.chi2.cdf(squares, runs), stats.chi2.sf(squares, runs)), 2 * stats.norm.sf(np.abs(means))]
    )
    assert p_values.min() > FALSE_ALARM / len(p_values)


def assert_share_is(hits: int, runs: int, share: float, of: int = 1) -> None:
    """Check `hits` of `runs` independent runs, each a hit with probability `share`. `of` is the number of such tests."""
    assert stats.binomtest(hits, runs, share).pvalue > FALSE_ALARM / of


def assert_share_at_least(hits: int, runs: int, share: float, of: int = 1) -> None:
    """As `assert_share_is`, for a probability of `share` or more."""
    assert stats.binomtest(hits, runs, share, alternative="less").pvalue > FALSE_ALARM / of


def assert_share_at_most(hits: int, runs: int, share: float, of: int = 1) -> None:
    """As `assert_share_is`, for a probability of `share` or less."""
    assert stats.binomtest(hits, runs, share, alternative="greater").pvalue > FALSE_ALARM / of
