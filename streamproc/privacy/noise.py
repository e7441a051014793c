"""The shape of the port through which all randomness enters.

Noise that protects privacy is *added by the port*: it is given the exact integers and answers with noisy ones, so an
implementation can run a vetted mechanism (OpenDP's integer Gaussian) on the data itself. Implementations live in
`streamproc.storage.entropy`.
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
    """Where draws come from."""

    @property
    def insecure(self) -> bool:
        """True if a draw can be repeated or foreseen; whatever such a run writes is marked so."""
        ...

    def draw(self, release: str, period: Period) -> NoiseSource:
        """The randomness of one period of one release, independent of every other pair."""
        ...

    def salt(self, period: Period) -> bytes:
        """32 bytes that nobody can guess, for the ledger record of this period."""
        ...
