"""Entropy: exact noise from the operating system, or repeatable stand-ins that are marked insecure."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from streamproc.privacy.entropy import Draw
from streamproc.privacy.quantities import IntArray, Period

if TYPE_CHECKING:
    from opendp.mod import Measurement

MAX_MAGNITUDE = 2**61
"""OpenDP's integers saturate at 2^63 without a word, so neither counts nor noise may come near it."""


class SystemEntropy:
    """The real thing: OpenDP's discrete Gaussian on the integers, exact, from the operating system's entropy."""

    insecure = False

    def draw(self, release: str, period: Period) -> Draw:
        """Fresh randomness, whatever the release and period."""
        return _SystemDraw()


class _SystemDraw:
    def gaussian(self, exact: IntArray, sigma: float) -> IntArray:
        _check_magnitude(exact, sigma)
        return np.array(_gaussian_measurement(sigma)(exact.tolist()), dtype=np.int64)

    def choices(self) -> np.random.Generator:
        return np.random.Generator(np.random.SFC64(np.random.SeedSequence()))


class SeededEntropy:
    """The same distributions from a seed, each (release, period) with a stream of its own: for tests and demonstrations."""

    insecure = True

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def draw(self, release: str, period: Period) -> Draw:
        """The randomness of this release and period under this seed, the same every time."""
        return _SeededDraw(_derived(self._seed, release, period))


class _SeededDraw:
    def __init__(self, seed: np.random.SeedSequence) -> None:
        noise, choices = seed.spawn(2)
        self._noise = np.random.Generator(np.random.PCG64(noise))
        self._choices = np.random.Generator(np.random.SFC64(choices))

    def gaussian(self, exact: IntArray, sigma: float) -> IntArray:
        _check_magnitude(exact, sigma)
        return exact + discrete_gaussian(sigma, exact.size, self._noise).reshape(exact.shape)

    def choices(self) -> np.random.Generator:
        return self._choices


class SilentEntropy(SeededEntropy):
    """No noise at all, so that what is released can be compared with the truth. Never for real people."""

    def draw(self, release: str, period: Period) -> Draw:
        """Seeded choices, silent noise."""
        return _SilentDraw(_derived(self._seed, release, period))


class _SilentDraw(_SeededDraw):
    def gaussian(self, exact: IntArray, sigma: float) -> IntArray:
        return exact.copy()


def _derived(seed: int, release: str, period: Period) -> np.random.SeedSequence:
    digest = hashlib.sha256(f"streamproc\0{seed}\0{release}\0{period}".encode()).digest()
    return np.random.SeedSequence(np.frombuffer(digest, dtype=np.uint32).tolist())


def _check_magnitude(exact: IntArray, sigma: float) -> None:
    largest = max(int(exact.max(initial=0)), -int(exact.min(initial=0)))
    if largest + 64 * sigma >= MAX_MAGNITUDE:
        raise ValueError("counts or noise too large for exact 64-bit integers")


def gaussian_cost(sigma: float, sensitivity: float) -> float:
    """OpenDP's own word on what noise of this sigma costs in zCDP at this L2 sensitivity: a check on our accounting."""
    return float(_gaussian_measurement(sigma).map(sensitivity))  # type: ignore[no-untyped-call]


@lru_cache(maxsize=4096)
def _gaussian_measurement(sigma: float) -> Measurement:
    """OpenDP is imported here and late: only a synthesizer needs it."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    domain: Any = dp.vector_domain(dp.atom_domain(T="i64"))
    if sigma <= 0:
        raise ValueError("scale 0 would return the exact data")
    return dp.m.make_gaussian(domain, dp.l2_distance(T="f64"), scale=sigma)


def discrete_gaussian(sigma: float, size: int, rng: np.random.Generator) -> IntArray:
    """Discrete Gaussian integers by rejection from a discrete Laplace (Canonne, Kamath, Steinke 2020, Algorithm 3).

    With a NumPy generator and floating-point acceptance: right in distribution, but not for protecting anybody.
    """
    scale = int(sigma) + 1
    drawn = np.empty(0, dtype=np.int64)
    while len(drawn) < size:
        wanted = 2 * (size - len(drawn)) + 16
        p = -np.expm1(-1 / scale)
        proposal = rng.geometric(p, wanted).astype(np.int64) - rng.geometric(p, wanted).astype(np.int64)
        accepted = rng.random(wanted) < np.exp(-((np.abs(proposal) - sigma**2 / scale) ** 2) / (2 * sigma**2))
        drawn = np.concatenate((drawn, proposal[accepted]))
    return drawn[:size]
