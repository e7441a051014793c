"""From repetitions to numbers, each with the range in which it would lie in 95 of 100 such experiments.

Repetitions are independent, the cells (questions and periods) of one repetition are not: so every range is computed from
one number per repetition.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from streamproc.privacy.types import FloatArray

Z95 = 1.959963984540054


@dataclass(frozen=True)
class Ranged:
    """A measured number and its 95% range."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3f} ({self.low:.3f} to {self.high:.3f})"


def mean(per_run: npt.ArrayLike) -> Ranged:
    """The mean over repetitions."""
    numbers = np.asarray(per_run, dtype=float)
    centre, half = float(numbers.mean()), Z95 * _standard_error(numbers)
    return Ranged(centre, centre - half, centre + half)


def ratio_of_means(above: FloatArray, below: FloatArray, power: float = 1.0) -> Ranged:
    """`(mean(above) / mean(below)) ** power` of two independent series of positive numbers, one per repetition.

    The range is symmetric in the logarithm, whose variance is the sum of the squared relative errors of the two means.
    """
    relative = math.hypot(_standard_error(above) / above.mean(), _standard_error(below) / below.mean())
    value, factor = float(above.mean() / below.mean()) ** power, math.exp(Z95 * relative * power)
    return Ranged(value, value / factor, value * factor)


def squared_errors(estimates: FloatArray, truth: FloatArray) -> FloatArray:
    """The mean squared error of each repetition over all its cells; `estimates` has a row per repetition."""
    errors = estimates - truth
    squared: FloatArray = np.mean(errors**2, axis=tuple(range(1, errors.ndim)))
    return squared


def root_mean_square(estimates: FloatArray, truth: FloatArray) -> float:
    """Over all repetitions and cells."""
    return math.sqrt(float(squared_errors(estimates, truth).mean()))


def largest_error(estimates: FloatArray, truth: FloatArray) -> float:
    """The largest absolute error over all cells, in the median repetition."""
    errors = np.abs(estimates - truth)
    return float(np.median(errors.reshape(len(errors), -1).max(axis=1)))


def covered(intervals: FloatArray, truth: FloatArray) -> npt.NDArray[np.bool_]:
    """Whether each interval, `[..., 0]` to `[..., 1]`, holds its truth."""
    holds: npt.NDArray[np.bool_] = (intervals[..., 0] <= truth) & (truth <= intervals[..., 1])
    return holds


def _standard_error(per_run: FloatArray) -> float:
    return float(per_run.std(ddof=1) / math.sqrt(len(per_run))) if len(per_run) > 1 else 0.0
