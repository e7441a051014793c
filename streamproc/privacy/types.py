"""Distinct types for numbers that must not be confused."""

from __future__ import annotations

from typing import NewType, TypeAlias

import numpy as np
import numpy.typing as npt

Period = NewType("Period", int)
"""A period of a study, `1..T`; 0 means before the first."""

Rho = NewType("Rho", float)
"""A zCDP cost or budget, always under a declared adjacency."""

Epsilon = NewType("Epsilon", float)
"""The epsilon of `(epsilon, delta)`-differential privacy; meaningless without its delta."""

IntArray: TypeAlias = npt.NDArray[np.int64]
"""Exact or noisy counts."""

FloatArray: TypeAlias = npt.NDArray[np.float64]
"""Estimates and variances; never anything that protects privacy by itself."""
