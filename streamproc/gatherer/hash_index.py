"""Maps keyed 128-bit hashes to small integers, in sorted NumPy arrays: 16 bytes for each hash, and the bytes of its number.

Hashes are added to the end of a sequence of sorted runs. A run is merged with the one before it unless that one is more than
twice as long, or both together would exceed `MAX_RUN`. So there are few runs, and a hash is moved as often as the logarithm
of their number. A merge takes at most 18 bytes more for each hash of its two runs, which is at most 302 MB.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from streamproc.privacy.types import IntArray

HASH_BYTES = 16

Words: TypeAlias = npt.NDArray[np.uint64]

MAX_RUN = 2**24
"""Maximum number of hashes in a run that is made by a merge. 100 million hashes are in about 7 runs."""

ABSENT = -1
"""The number of a hash that is not in an index."""


@dataclass(frozen=True, eq=False)
class Hashes:
    """Hashes of 16 bytes, each as two big-endian integers of 8 bytes."""

    high: Words
    low: Words

    @classmethod
    def of_bytes(cls, data: bytes) -> Hashes:
        """The hashes that lie one after the other in `data`."""
        words = np.frombuffer(data, dtype=">u8").astype(np.uint64).reshape(-1, 2)
        return cls(words[:, 0].copy(), words[:, 1].copy())

    @classmethod
    def of_ids(cls, ids: Sequence[str], key: bytes) -> Hashes:
        """The keyed hash of each id."""
        hashed = (hashlib.blake2b(each.encode(), key=key, digest_size=HASH_BYTES).digest() for each in ids)
        return cls.of_bytes(b"".join(hashed))

    def __len__(self) -> int:
        return len(self.high)

    def where(self, chosen: npt.NDArray[np.bool_] | IntArray) -> Hashes:
        """The hashes that a mask or indices choose."""
        return Hashes(self.high[chosen], self.low[chosen])

    def order(self) -> IntArray:
        """The indices that sort the hashes."""
        return np.lexsort((self.low, self.high))

    def to_bytes(self) -> bytes:
        """The hashes one after the other."""
        return np.column_stack((self.high, self.low)).astype(">u8").tobytes()

    def first(self, count: int) -> Hashes:
        """The first hashes, in the same memory."""
        return Hashes(self.high[:count], self.low[:count])

    def resized(self, count: int) -> Hashes:
        """A copy with zeros at its end."""
        more = max(count - len(self), 0)
        return Hashes(np.pad(self.high[:count], (0, more)), np.pad(self.low[:count], (0, more)))

    def extended(self, more: Hashes) -> Hashes:
        """These hashes and then `more`."""
        return Hashes(np.append(self.high, more.high), np.append(self.low, more.low))


_Number = TypeVar("_Number", bound=np.generic)

NO_HASHES = Hashes(np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.uint64))


@dataclass
class _Run:
    """Hashes, ascending by their first word, and their numbers."""

    high: Words
    low: Words
    numbers: npt.NDArray[np.integer]

    def __len__(self) -> int:
        return len(self.high)

    def find(self, hashes: Hashes) -> IntArray:
        at = np.searchsorted(self.high, hashes.high)
        found = np.full(len(hashes), ABSENT, dtype=np.int64)
        # Hashes with the same first word lie one after the other; in practice there are no two.
        left = np.flatnonzero(at < len(self))
        while len(left):
            here = at[left]
            left, here = _where(self.high[here] == hashes.high[left], left, here)
            same = self.low[here] == hashes.low[left]
            found[left[same]] = self.numbers[here[same]]
            at[left] += 1
            left = left[~same & (here + 1 < len(self))]
        return found

    def merge(self, other: _Run) -> None:
        at = np.searchsorted(self.high, other.high)
        at += np.arange(len(other))
        from_other = np.zeros(len(self) + len(other), dtype=np.bool_)
        from_other[at] = True
        del at
        # One array after the other, so that only one of them is in memory twice.
        self.high = _merged(self.high, other.high, from_other)
        self.low = _merged(self.low, other.low, from_other)
        self.numbers = _merged(self.numbers, other.numbers, from_other)


def _merged(
    some: npt.NDArray[_Number], others: npt.NDArray[_Number], from_other: npt.NDArray[np.bool_]
) -> npt.NDArray[_Number]:
    merged = np.empty(len(from_other), dtype=some.dtype)
    merged[from_other] = others
    merged[~from_other] = some
    return merged


def _where(chosen: npt.NDArray[np.bool_], *arrays: IntArray) -> tuple[IntArray, ...]:
    return tuple(array[chosen] for array in arrays)


class HashIndex:
    """A number for each hash. Hashes are added and looked up in bulk."""

    def __init__(self, dtype: type[np.integer]) -> None:
        """Make an empty index of numbers of this type, which are not negative."""
        self._dtype = dtype
        self._runs: list[_Run] = []

    def __len__(self) -> int:
        return sum(map(len, self._runs))

    @property
    def nbytes(self) -> int:
        """Bytes of memory of all arrays."""
        return sum(run.high.nbytes + run.low.nbytes + run.numbers.nbytes for run in self._runs)

    def find(self, hashes: Hashes) -> IntArray:
        """The number of each hash; `ABSENT` if it is not in the index."""
        order = np.argsort(hashes.high)  # The search for sorted hashes finds what it reads in the processor's cache.
        ordered = hashes.where(order)
        numbers = np.full(len(hashes), ABSENT, dtype=np.int64)
        for run in self._runs:
            np.maximum(numbers, run.find(ordered), out=numbers)
        found = np.empty_like(numbers)
        found[order] = numbers
        return found

    def add(self, hashes: Hashes, numbers: npt.NDArray[np.integer]) -> None:
        """Add hashes that differ from each other and are not in the index."""
        if not len(hashes):
            return
        order = np.argsort(hashes.high)
        self._runs.append(_Run(hashes.high[order], hashes.low[order], numbers[order].astype(self._dtype)))
        while len(self._runs) > 1:
            before, last = len(self._runs[-2]), len(self._runs[-1])
            if before > 2 * last or before + last > MAX_RUN:
                break
            run = self._runs.pop()
            self._runs[-1].merge(run)

    def renumber(self, numbers: IntArray) -> None:
        """Replace each number by its entry in `numbers`, and remove the hashes whose entry is negative."""
        for run in self._runs:
            replaced = numbers[run.numbers]
            stays = replaced >= 0
            run.high, run.low = run.high[stays], run.low[stays]
            run.numbers = replaced[stays].astype(self._dtype)
        self._runs = [run for run in self._runs if len(run)]
