"""Maps the ids of people who are present in an open study, or may enter in the period that closes next, to row numbers.

An id is looked up as it is, in a table that serves many ids in one call. What the table does not know is hashed and looked
up by hash. Ids themselves are nowhere but in that table, which is in memory only.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from streamproc.gatherer.byte_hash_table import ByteHashTable
from streamproc.gatherer.hash_index import NO_HASHES, Hashes, HashIndex
from streamproc.privacy.types import IntArray
from streamproc.protocol.reports import ByteStrings

SPARE_IDS = 65_536
"""Number of ids of people without a row that the table may hold beyond one for each row."""


class PresentIndex:
    """A row for each person. Rows are numbered from 0 without gaps, in the order of admission."""

    def __init__(self, key: bytes) -> None:
        """`key` is the study's secret key."""
        self._key = key
        self._by_id = ByteHashTable(key)
        """Numbers of ids: a row, or what `remember` or `remove` was given."""
        self._by_hash = HashIndex(np.int32)
        self._without_row = 0
        """Maximum number of ids in the table that have no row."""
        self._hashes = NO_HASHES
        """The hash of each person, in the order of rows. Only the first `_used` entries are valid."""
        self._used = 0

    def __len__(self) -> int:
        return self._used

    @property
    def hashes(self) -> Hashes:
        """The hash of each person, in the order of rows."""
        return self._hashes.first(self._used)

    def rows(self, ids: ByteStrings) -> IntArray:
        """The number that the table has for each id in UTF-8; -1 if `find` must decide."""
        return self._by_id.find(ids)

    def find(self, hashes: Hashes) -> IntArray:
        """The row of each hash; -1 if there is none."""
        return self._by_hash.find(hashes)

    def remember(self, ids: Sequence[str], numbers: IntArray) -> None:
        """Add ids to the table of `rows`, each with its row, or with a number below -1 if the person has none."""
        distinct = dict(zip(ids, numbers.tolist(), strict=True))
        if distinct:
            values = np.array(list(distinct.values()))
            self._by_id.put(ByteStrings.of_text(list(distinct)), values)
            self._without_row += int(np.count_nonzero(values < 0))
            self._forget_ids()

    def admit(self, ids: Sequence[str], hashes: Hashes) -> IntArray:
        """Give new rows to people who have none, and return them."""
        rows = np.arange(len(self), len(self) + len(hashes))
        self._used += len(hashes)
        if self._used > len(self._hashes):
            self._hashes = self._hashes.resized(max(self._used, len(self._hashes) * 5 // 4))
        self._hashes.high[rows], self._hashes.low[rows] = hashes.high, hashes.low
        self._by_hash.add(hashes, rows)
        self.remember(ids, rows)
        return rows

    def remove(self, removed: npt.NDArray[np.bool_], number: int) -> None:
        """Remove rows, and renumber the others. From now on `rows` has `number` for the removed people."""
        self._hashes = self.hashes.where(~removed)
        self._used = len(self._hashes)
        self._by_hash.renumber(np.where(removed, -1, np.cumsum(~removed) - 1))
        self._by_id.renumber(np.where(removed, number, np.cumsum(~removed) - 1))
        self._without_row += int(np.count_nonzero(removed))
        self._forget_ids()

    def _forget_ids(self) -> None:
        if self._without_row > len(self) + SPARE_IDS:
            self._by_id.discard_negative()
            self._without_row = 0

    def restore(self, hashes: Hashes) -> None:
        """Restore the rows of a checkpoint. Ids are recognised by their hash when they occur."""
        self._hashes, self._used = hashes, len(hashes)
        self._by_id, self._by_hash, self._without_row = ByteHashTable(self._key), HashIndex(np.int32), 0
        self._by_hash.add(hashes, np.arange(len(hashes)))
