"""Sources of noise: exact noise seeded by the operating system, and repeatable noise from a seed, marked as insecure."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from streamproc.privacy.noise import Entropy, NoiseSource
from streamproc.privacy.types import IntArray, Period
from streamproc.protocol.ledger import SALT_BYTES
from streamproc.storage.noise_client import NoiseProcess

MAX_MAGNITUDE = 2**61
"""Limit of counts plus noise. OpenDP's integers saturate at 2^63 without an error."""


class SystemEntropy:
    """Exact noise that protects people: OpenDP's discrete Gaussian on the integers, seeded by the operating system.

    Each draw uses a process of its own, which seeds its generator when it draws its first number. So a copy of this process
    draws other noise, even if it has the same process id.
    """

    insecure = False

    def draw(self, release: str, period: Period) -> NoiseSource:
        """Return fresh randomness, independent of the release and period, from a process that ends with the draw."""
        return _SystemDraw()

    def salt(self, period: Period) -> bytes:
        """Return random bytes from the operating system."""
        return secrets.token_bytes(SALT_BYTES)


@contextmanager
def shared_process_entropy() -> Iterator[Entropy]:
    """Yield a `SystemEntropy` whose draws share one new process, which is faster when a study is replayed many times."""
    process = NoiseProcess()
    try:
        yield _SharedProcess(process)
    finally:
        process.close()


class _SharedProcess(SystemEntropy):
    def __init__(self, process: NoiseProcess) -> None:
        self._process = process

    def draw(self, release: str, period: Period) -> NoiseSource:
        return _SystemDraw(self._process)


class _SystemDraw:
    def __init__(self, process: NoiseProcess | None = None) -> None:
        self._process = process

    def gaussian(self, exact: IntArray, sigma: float) -> IntArray:
        _check_magnitude(exact, sigma)
        if sigma <= 0:
            raise ValueError("scale 0 would return the exact data")
        if not exact.size:
            return exact.copy()
        if self._process is None:
            self._process = NoiseProcess()
        return self._process.gaussian(exact, sigma)

    def rng(self) -> np.random.Generator:
        # The constructor of `SeedSequence` reads entropy from the operating system.
        return np.random.Generator(np.random.SFC64(np.random.SeedSequence()))


class SeededEntropy:
    """The same distributions from a seed, with a stream for each (release, period). For tests and demonstrations only."""

    insecure = True

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def draw(self, release: str, period: Period) -> NoiseSource:
        """Return the randomness of this release and period. It is the same for each call."""
        return _SeededDraw(_derived(self._seed, release, period))

    def salt(self, period: Period) -> bytes:
        """Return the salt of this period. It is the same for each call."""
        return hashlib.sha256(f"streamproc\0{self._seed}\0salt\0{period}".encode()).digest()


class _SeededDraw:
    def __init__(self, seed: np.random.SeedSequence) -> None:
        noise, choices = seed.spawn(2)
        self._noise = np.random.Generator(np.random.PCG64(noise))
        self._choices = np.random.Generator(np.random.SFC64(choices))

    def gaussian(self, exact: IntArray, sigma: float) -> IntArray:
        _check_magnitude(exact, sigma)
        return exact + discrete_gaussian(sigma, exact.size, self._noise).reshape(exact.shape)

    def rng(self) -> np.random.Generator:
        return self._choices


def _derived(seed: int, release: str, period: Period) -> np.random.SeedSequence:
    digest = hashlib.sha256(f"streamproc\0{seed}\0{release}\0{period}".encode()).digest()
    return np.random.SeedSequence(np.frombuffer(digest, dtype=np.uint32).tolist())


def _check_magnitude(exact: IntArray, sigma: float) -> None:
    largest = max(int(exact.max(initial=0)), -int(exact.min(initial=0)))
    if largest + 64 * sigma >= MAX_MAGNITUDE:
        raise ValueError("counts or noise too large for exact 64-bit integers")


def discrete_gaussian(sigma: float, size: int, rng: np.random.Generator) -> IntArray:
    """Draw discrete Gaussian integers by rejection from a discrete Laplace (Canonne, Kamath, Steinke 2020, Algorithm 3).

    This uses a NumPy generator and floating-point arithmetic, so it has the right distribution but protects nobody.
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
