"""The interface to all randomness.

Noise that protects privacy is *added by the implementation*: it takes the exact integers and returns noisy ones, so it can
run a vetted mechanism (OpenDP's integer Gaussian) on the data itself. Implementations are in `streamproc.storage.entropy`.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from streamproc.privacy.types import IntArray, Period


class NoiseSource(Protocol):
    """The randomness of one step of one release."""

    def gaussian(self, exact: IntArray, sigma: float) -> IntArray:
        """`exact` plus independent discrete Gaussian noise of parameter `sigma` (people, or scaled people) on each entry."""
        ...

    def rng(self) -> np.random.Generator:
        """A fast generator for post-processing: which synthetic rows get a symbol, which way to round."""
        ...


class Entropy(Protocol):
    """A source of randomness for all releases and periods."""

    @property
    def insecure(self) -> bool:
        """Whether a draw can be repeated or predicted. Everything that such a run writes is marked as insecure."""
        ...

    def draw(self, release: str, period: Period) -> NoiseSource:
        """The randomness of one period of one release, independent of every other pair."""
        ...

    def salt(self, period: Period) -> bytes:
        """32 bytes that nobody can guess, for the ledger record of this period."""
        ...
