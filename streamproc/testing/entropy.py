"""A noise source that adds no noise, for tests that compare a release with the exact data."""

from __future__ import annotations

import numpy as np

from streamproc.privacy.noise import NoiseSource
from streamproc.privacy.types import IntArray, Period
from streamproc.storage.entropy import SeededEntropy


class SilentEntropy:
    """Adds no noise at all, so whatever it releases is the exact data. It is marked insecure.

    The choices of post-processing (which synthetic row gets a symbol, which way to round) are those of `SeededEntropy`
    with the same seed.
    """

    insecure = True

    def __init__(self, seed: int) -> None:
        self._seeded = SeededEntropy(seed)

    def draw(self, release: str, period: Period) -> NoiseSource:
        """Return a source of zero noise, with the random choices of this release and period under the seed."""
        return _SilentDraw(self._seeded.draw(release, period))

    def salt(self, period: Period) -> bytes:
        """Return the salt of `SeededEntropy` with the same seed."""
        return self._seeded.salt(period)


class _SilentDraw:
    def __init__(self, seeded: NoiseSource) -> None:
        self._seeded = seeded

    def gaussian(self, exact: IntArray, sigma: float) -> IntArray:
        return exact.copy()

    def rng(self) -> np.random.Generator:
        return self._seeded.rng()
