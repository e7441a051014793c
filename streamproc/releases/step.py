"""What one period of one release yields: shared by window and cumulative synthesis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from streamproc.privacy.types import IntArray, Period

Column: TypeAlias = npt.NDArray[np.uint8]
"""One symbol (alphabet index) per synthetic individual."""


@dataclass(frozen=True, eq=False)
class Step:
    """The public outcome of one period of one release."""

    period: Period
    columns: Sequence[Column]
    """The columns that come out now, oldest first: none before a window is full, `k` when it is, then one."""
    measurements: Sequence[IntArray]
    """The noisy integers behind them; they are paid for, so they are public."""
    bins: IntArray
    """Released counts: of each window, padding included; or of synthetic people with at least `1..t` ones."""
    clamped: int
    """How many counts had to be moved to what is possible."""
