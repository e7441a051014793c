"""A fast noise source for simulations: rounded floats or no noise, and never the same draw twice."""

from __future__ import annotations

import numpy as np

from streamproc.privacy.noise import NoiseSource
from streamproc.privacy.types import IntArray, Period


class SimulatedEntropy:
    """Returns a different draw at each call, so that a second draw of one period is noticed."""

    insecure = True

    def __init__(self, seed: int, *, silent: bool) -> None:
        self._seed = seed
        self._silent = silent
        self._asked = 0

    def draw(self, release: str, period: Period) -> NoiseSource:
        self._asked += 1
        return _SimulatedDraw(np.random.Generator(np.random.SFC64([self._seed, self._asked])), silent=self._silent)

    def salt(self, period: Period) -> bytes:
        self._asked += 1
        return np.random.Generator(np.random.SFC64([self._seed, self._asked])).bytes(32)


class _SimulatedDraw:
    def __init__(self, generator: np.random.Generator, *, silent: bool) -> None:
        self._generator = generator
        self._silent = silent

    def gaussian(self, exact: IntArray, sigma: float) -> IntArray:
        if self._silent:
            return exact.copy()
        return exact + np.rint(self._generator.normal(0.0, sigma, exact.shape)).astype(np.int64)

    def rng(self) -> np.random.Generator:
        return self._generator
