"""The members of a partition: maps ids to row numbers. A checkpoint contains keyed hashes of the ids only."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from streamproc.gatherer.byte_hash_table import ByteHashTable
from streamproc.privacy.types import IntArray
from streamproc.protocol.reports import ByteStrings

Hashes: TypeAlias = npt.NDArray[np.void]
"""A 16-byte keyed hash for each row."""

HASH = np.dtype("V16")


class MemberIndex:
    """Maps an id to its row. An id is hashed once; afterwards the id itself is kept, in memory only."""

    def __init__(self, key: bytes, capacity: int) -> None:
        self._key = key
        self._capacity = capacity
        self._hashes = bytearray()
        self._restored: dict[bytes, int] = {}
        """Rows from a checkpoint, by hash, whose id has not been seen since the restart."""
        self.known: dict[str, int] = {}
        """Rows, by id, whose id has been seen since the restart."""
        self._table = ByteHashTable(self._key)
        """As `known`, for many ids in one call, without long ids and without those in `_pending`, which are added later."""
        self._pending: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._hashes) // HASH.itemsize

    @property
    def hashes(self) -> Hashes:
        """A copy of the hashes, in the order of rows."""
        return np.frombuffer(bytes(self._hashes), dtype=HASH)

    def find(self, individual: str) -> int | None:
        """The row that a checkpoint has for an id which is not in `known` yet; None if it has none."""
        if not self._restored:
            return None
        row = self._restored.pop(self._hash(individual), None)
        if row is not None:
            self._remember(individual, row)
        return row

    def rows(self, ids: ByteStrings) -> IntArray:
        """The rows of many ids in UTF-8; -1 for an id that may still be in `known` or found by `find`."""
        if self._pending:
            self._table.put(ByteStrings.of_text(list(self._pending)), np.array(list(self._pending.values())))
            self._pending = {}
        return self._table.find(ids)

    def admit(self, individual: str) -> int | None:
        """A new row for an id that `find` does not find; None if the partition is full."""
        row = len(self)
        if row >= self._capacity:
            return None
        self._hashes += self._hash(individual)
        self._remember(individual, row)
        return row

    def admit_all(self, individuals: Iterable[str]) -> None:
        """Give each id of a roster a row, once. The capacity does not apply, because the roster defines the size."""
        for individual in individuals:
            if individual not in self.known:
                self._remember(individual, len(self))
                self._hashes += self._hash(individual)

    def retain(self, members: npt.NDArray[np.bool_]) -> None:
        """Remove the rows that are not members, and renumber the others."""
        if members.all():
            return
        rows = (np.cumsum(members) - 1).tolist()
        kept = members.tolist()
        self._hashes = bytearray(self.hashes[members].tobytes())
        self.known = {individual: rows[row] for individual, row in self.known.items() if kept[row]}
        self._table, self._pending = ByteHashTable(self._key), dict(self.known)
        self._restored = {hashed: rows[row] for hashed, row in self._restored.items() if kept[row]}

    def restore(self, hashes: Hashes) -> None:
        """Restore the rows of a checkpoint. Ids are recognised by their hash when they occur."""
        self._hashes = bytearray(hashes.tobytes())
        self._restored = {hashed.tobytes(): row for row, hashed in enumerate(hashes)}
        self.known, self._table, self._pending = {}, ByteHashTable(self._key), {}

    def _remember(self, individual: str, row: int) -> None:
        self.known[individual] = self._pending[individual] = row

    def _hash(self, individual: str) -> bytes:
        return hashlib.blake2b(individual.encode(), key=self._key, digest_size=HASH.itemsize).digest()
