"""Who is in a partition: ids on the way in, keyed hashes and row numbers inside, hashes only on disk."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from streamproc.gatherer.byte_hash_table import ByteHashTable
from streamproc.privacy.types import IntArray
from streamproc.protocol.byte_strings import ByteStrings

Hashes: TypeAlias = npt.NDArray[np.void]
"""A 16-byte keyed hash per row."""

HASH = np.dtype("V16")


class MemberIndex:
    """The index from an id to its row. An id is hashed once; afterwards it is known by itself, in memory only."""

    def __init__(self, key: bytes, capacity: int) -> None:
        self._key = key
        self._capacity = capacity
        self._hashes = bytearray()
        self._returning: dict[bytes, int] = {}
        """Rows read from disk whose id has not been seen since."""
        self.known: dict[str, int] = {}
        """Rows whose id has been seen."""
        self._quick = ByteHashTable(self._key)
        """The same for many ids at once, but for those in `_fresh`, which are on their way there, and for long ones."""
        self._fresh: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._hashes) // HASH.itemsize

    @property
    def hashes(self) -> Hashes:
        """A copy, in the order of rows."""
        return np.frombuffer(bytes(self._hashes), dtype=HASH)

    def find(self, individual: str) -> int | None:
        """The row of somebody not in `known` yet who was here before a restart."""
        if not self._returning:
            return None
        row = self._returning.pop(self._hash(individual), None)
        if row is not None:
            self._remember(individual, row)
        return row

    def rows(self, ids: ByteStrings) -> IntArray:
        """The rows of many ids in UTF-8; -1 for those that `known` or `find` may still know."""
        if self._fresh:
            self._quick.put(ByteStrings.of_text(list(self._fresh)), np.array(list(self._fresh.values())))
            self._fresh = {}
        return self._quick.find(ids)

    def admit(self, individual: str) -> int | None:
        """A new row for somebody `find` does not know; None if the partition is full."""
        row = len(self)
        if row >= self._capacity:
            return None
        self._hashes += self._hash(individual)
        self._remember(individual, row)
        return row

    def admit_all(self, individuals: Iterable[str]) -> None:
        """A row for each, once, whatever the capacity: a roster is public about its size."""
        for individual in individuals:
            if individual not in self.known:
                self._remember(individual, len(self))
                self._hashes += self._hash(individual)

    def retain(self, members: npt.NDArray[np.bool_]) -> None:
        """Forget everybody who is not a member, and renumber the rows of the others."""
        if members.all():
            return
        rows = (np.cumsum(members) - 1).tolist()
        kept = members.tolist()
        self._hashes = bytearray(self.hashes[members].tobytes())
        self.known = {individual: rows[row] for individual, row in self.known.items() if kept[row]}
        self._quick, self._fresh = ByteHashTable(self._key), dict(self.known)
        self._returning = {hashed: rows[row] for hashed, row in self._returning.items() if kept[row]}

    def restore(self, hashes: Hashes) -> None:
        """Take up the rows of a checkpoint; ids are recognised by their hash as they turn up."""
        self._hashes = bytearray(hashes.tobytes())
        self._returning = {hashed.tobytes(): row for row, hashed in enumerate(hashes)}
        self.known, self._quick, self._fresh = {}, ByteHashTable(self._key), {}

    def _remember(self, individual: str, row: int) -> None:
        self.known[individual] = self._fresh[individual] = row

    def _hash(self, individual: str) -> bytes:
        return hashlib.blake2b(individual.encode(), key=self._key, digest_size=HASH.itemsize).digest()
