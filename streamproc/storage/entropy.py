"""Entropy: exact noise from the operating system, or repeatable stand-ins that are marked insecure."""

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
"""OpenDP's integers saturate at 2^63 without a word, so neither counts nor noise may come near it."""


class SystemEntropy:
    """Exact noise that protects people: OpenDP's discrete Gaussian on the integers, seeded by the operating system.

    Each draw has a process of its own, which seeds its generator at its first number: a copy of this process, also one that
    keeps its process id, draws other noise.
    """

    insecure = False

    def draw(self, release: str, period: Period) -> NoiseSource:
        """Fresh randomness, whatever the release and period, from a process that ends with the draw."""
        return _SystemDraw()

    def salt(self, period: Period) -> bytes:
        """From the operating system."""
        return secrets.token_bytes(SALT_BYTES)


@contextmanager
def shared_process_entropy() -> Iterator[Entropy]:
    """`SystemEntropy` whose draws share one new process: for one run of many over the same data, all of which is there."""
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
        # `SeedSequence` reads the operating system's entropy when it is made.
        return np.random.Generator(np.random.SFC64(np.random.SeedSequence()))


class SeededEntropy:
    """The same distributions from a seed, each (release, period) with a stream of its own: for tests and demonstrations."""

    insecure = True

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def draw(self, release: str, period: Period) -> NoiseSource:
        """The randomness of this release and period under this seed, the same every time."""
        return _SeededDraw(_derived(self._seed, release, period))

    def salt(self, period: Period) -> bytes:
        """That of this period under this seed, the same every time."""
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
