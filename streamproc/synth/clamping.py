"""What to do when noise makes a count negative: the nearest counts that are not, with the same total."""

from __future__ import annotations

import numpy as np

from streamproc.privacy.quantities import IntArray


def clamp_groups(counts: IntArray, totals: IntArray, rng: np.random.Generator) -> tuple[IntArray, int]:
    """Make every entry of every row at least 0 while row `i` keeps its sum `totals[i] >= 0`.

    Answers with the new counts and how many entries changed. Post-processing: it sees noisy counts only.
    """
    wanting = np.flatnonzero((counts < 0).any(axis=1))
    if not len(wanting):
        return counts, 0
    clamped = counts.copy()
    for row in wanting:
        clamped[row] = _clamp(counts[row], int(totals[row]), rng)
    return clamped, int(np.count_nonzero(clamped != counts))


def _clamp(counts: IntArray, total: int, rng: np.random.Generator) -> IntArray:
    """Take the largest `tau >= 0` from every entry that leaves at least `total`, then one more from randomly chosen ones."""
    if total == 0:
        return np.zeros_like(counts)
    lowered = np.maximum(counts - _largest_level(counts, total), 0)
    excess = int(lowered.sum()) - total
    lowered[rng.choice(np.flatnonzero(lowered), size=excess, replace=False)] -= 1
    return lowered


def _largest_level(counts: IntArray, total: int) -> int:
    """The largest integer `tau` with `sum max(0, counts - tau) >= total`, for `total > 0`.

    If the `j` largest stay positive, `tau <= (their sum - total) / j`; the best `j` gives the largest bound.
    """
    descending = np.sort(counts)[::-1]
    bounds = (np.cumsum(descending) - total) // np.arange(1, len(counts) + 1)
    return max(int(bounds.max()), 0)
