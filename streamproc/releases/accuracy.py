"""Intervals of answers, for every kind of release."""

from __future__ import annotations

from statistics import NormalDist
from typing import TypeVar

import numpy as np

from streamproc.privacy.types import FloatArray

Number = TypeVar("Number", float, FloatArray)

LEVEL = 0.95
"""Of every interval in a plan, a series or a file: how often it covers the truth, at least."""


def quantile(level: float) -> float:
    """Half-width in standard errors of a two-sided normal interval of this level: 1.96 for 0.95."""
    return upper_quantile((1 - level) / 2)


def upper_quantile(tail: float) -> float:
    """The value that a standard normal variable exceeds with probability `tail`."""
    # From the lower tail: near 1, the chance of all but the upper one is rounded to 1, whose quantile is infinite.
    return -NormalDist().inv_cdf(tail)


def interval(value: Number, centre: Number, half: Number) -> tuple[Number, Number]:
    """The interval of half-width `half` around `centre`, extended to hold `value`.

    The value is the released one. The centre is the estimate before clamping: it is unbiased, so the interval around it
    covers the truth, whatever clamping did to the value.
    """
    return np.minimum(centre - half, value), np.maximum(centre + half, value)
