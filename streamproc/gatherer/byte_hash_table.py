"""A hash table from short byte strings to integers that looks up thousands of strings in one call.

A dictionary accesses memory several times for each string, one access after the other. NumPy does these accesses for all
strings together, which is several times as fast.
"""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt

from streamproc.privacy.types import IntArray
from streamproc.protocol.reports import ByteStrings

MAX_WORDS = 8
"""Maximum length of a key, in words of 8 bytes. One byte holds the length, so strings of up to 63 bytes are stored."""

_MIN_SLOTS = 64


class ByteHashTable:
    """An open-addressing hash table in NumPy. It does not store long strings; look those up elsewhere."""

    def __init__(self, key: bytes) -> None:
        """Make an empty table. `key` is secret, so that strings with the same home slot cannot be chosen on purpose."""
        digest = hashlib.blake2b(key=key, digest_size=8 * MAX_WORDS, person=b"byte hash table")
        self._factors = np.frombuffer(digest.digest(), dtype=np.uint64) | np.uint64(1)
        self._used = 0
        self._allocate(words=1, slots=_MIN_SLOTS)

    def _allocate(self, words: int, slots: int) -> None:
        self._words = words
        self._keys = np.zeros((slots, words), dtype=np.uint64)
        """The length of a string, its bytes, and zeros; only zeros in an empty slot."""
        self._numbers = np.zeros(slots, dtype=np.int32)
        self._key_masks = _key_masks(words)

    def find(self, strings: ByteStrings) -> IntArray:
        """The number of each string; -1 if the string is not in the table."""
        keys, held = self._keys_of(strings)
        slots = self._home_slots(keys)
        there = _take_rows(self._keys, slots)
        same = held & _rows_equal(there, keys)
        found: IntArray = np.where(same, self._numbers[slots], np.int64(-1))
        left = np.flatnonzero(held & ~same & (there[:, 0] != 0))
        while len(left):
            slots[left] = here = (slots[left] + 1) % len(self._numbers)
            there = _take_rows(self._keys, here)
            same = _rows_equal(there, _take_rows(keys, left))
            found[left[same]] = self._numbers[here[same]]
            left = left[~same & (there[:, 0] != 0)]
        return found

    def put(self, strings: ByteStrings, numbers: IntArray) -> None:
        """Add strings, or replace their numbers. Empty strings and strings of 64 bytes or more are ignored.

        A string that is in the table already counts twice in the size of the table until `discard_negative`.
        """
        longest = int(strings.lengths.max(initial=0, where=strings.lengths < 8 * MAX_WORDS))
        words = max(longest // 8 + 1, self._words)
        slots = len(self._numbers)
        while 2 * (self._used + len(strings.lengths)) > slots:
            slots *= 2
        if words > self._words or slots > len(self._numbers):
            self._rebuild(words, slots)
        keys, held = self._keys_of(strings)
        self._insert(keys[held], numbers[held])

    def renumber(self, numbers: IntArray) -> None:
        """Replace each number that is not negative by its entry in `numbers`."""
        taken = np.flatnonzero((self._keys[:, 0] != 0) & (self._numbers >= 0))
        self._numbers[taken] = numbers[self._numbers[taken]]

    def discard_negative(self) -> None:
        """Remove the strings whose number is negative, and release their memory."""
        stays = (self._keys[:, 0] != 0) & (self._numbers >= 0)
        keys, numbers = self._keys[stays], self._numbers[stays]
        slots = _MIN_SLOTS
        while 2 * len(keys) > slots:
            slots *= 2
        self._allocate(self._words, slots)
        self._used = 0
        self._insert(keys, numbers)

    def _rebuild(self, words: int, slots: int) -> None:
        taken = self._keys[:, 0] != 0
        keys, numbers = np.pad(self._keys[taken], ((0, 0), (0, words - self._words))), self._numbers[taken]
        self._allocate(words, slots)
        self._used = 0
        self._insert(keys, numbers)

    def _insert(self, keys: npt.NDArray[np.uint64], numbers: npt.NDArray[np.integer]) -> None:
        self._used += len(keys)
        slots = self._home_slots(keys)
        left = np.arange(len(keys))
        while len(left):
            here = slots[left]
            free = self._keys[here, 0] == 0
            # If several keys are written to one slot, the last one stays, and the others go on to the next slot.
            self._keys[here[free]] = keys[left[free]]
            same = _rows_equal(_take_rows(self._keys, here), _take_rows(keys, left))
            self._numbers[here[same]] = numbers[left[same]]
            left = left[~same]
            slots[left] = (slots[left] + 1) % len(self._numbers)

    def _keys_of(self, strings: ByteStrings) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.bool_]]:
        """The key of each string, and whether the string is short enough to have one."""
        held = (strings.lengths > 0) & (strings.lengths < 8 * self._words)
        lengths = np.where(held, strings.lengths, 0)
        block = strings.blocks(8 * self._words, before=1)
        block[:, 0] = lengths
        keys: npt.NDArray[np.uint64] = block.view(np.uint64)
        keys &= _take_rows(self._key_masks, lengths)
        return keys, held

    def _home_slots(self, keys: npt.NDArray[np.uint64]) -> IntArray:
        """The slot where the search for each key begins: the leading bits of a random linear function, mixed once."""
        mixed: npt.NDArray[np.uint64] = keys @ self._factors[: self._words]
        mixed = (mixed ^ (mixed >> np.uint64(32))) * self._factors[0]
        return (mixed >> np.uint64(65 - len(self._numbers).bit_length())).astype(np.int64)


def _take_rows(keys: npt.NDArray[np.uint64], at: IntArray) -> npt.NDArray[np.uint64]:
    """Equal to `keys[at]`, which is slow on short rows."""
    whole = keys.view(f"V{keys.itemsize * keys.shape[1]}").ravel()
    return whole[at].view(np.uint64).reshape(-1, keys.shape[1])


def _rows_equal(some: npt.NDArray[np.uint64], others: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
    """Equal to `(some == others).all(axis=1)`, which is slow on short rows."""
    same: npt.NDArray[np.bool_] = some[:, 0] == others[:, 0]
    for word in range(1, some.shape[1]):
        same &= some[:, word] == others[:, word]
    return same


def _key_masks(words: int) -> npt.NDArray[np.uint64]:
    """For each length of a string, a mask that keeps the length byte and the bytes of the string, and clears the rest."""
    ends = np.where(np.arange(8 * words) <= np.arange(8 * words)[:, None], 0xFF, 0).astype(np.uint8)
    return ends.view(np.uint64)
