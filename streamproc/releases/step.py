"""What one period of one release yields."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from streamproc.privacy.types import FloatArray, IntArray, Period

Column: TypeAlias = npt.NDArray[np.uint8]
"""One symbol (alphabet index) for each synthetic individual."""

Measurements: TypeAlias = Sequence[IntArray]
"""The noisy integers of one period, in the arrays in which the mechanism measured them."""


@dataclass(frozen=True, eq=False)
class Step:
    """The public outcome of one period of one release."""

    period: Period
    columns: Sequence[Column]
    """The columns that come out in this period, oldest first."""
    measurements: Measurements
    """The noisy integers behind them; they are paid for, so they are public."""
    counts: IntArray
    """The released counts, padding included; empty if no column came out."""
    clamped: int
    """How many counts had to be moved to what is possible."""
    estimates: FloatArray | None = None
    """Estimates of the counts before clamping, in people; None if the released counts are the estimates up to rounding."""
