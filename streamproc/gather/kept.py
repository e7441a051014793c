"""How reports of one open period are kept: a slot for each row, or only the reports there are. NumPy arrays only."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from streamproc.privacy.quantities import IntArray

Symbols: TypeAlias = npt.NDArray[np.uint8]
"""Alphabet indices, `NOTHING` where there is no report."""

NOTHING = np.uint8(255)

BEYOND = np.iinfo(np.int64).max
"""In place of an offset where there is no report: no cut reaches it."""

_REPORT = np.dtype([("row", np.uint32), ("symbol", np.uint8), ("offset", np.int64)])

SLOT_BYTES = 9
"""What `ByRow` takes for each row, whether it has a report or not."""

_FEW = 64
"""Repeats that `SparseByRow` may hold besides as many as there are rows with a report."""


class ByRow:
    """At most one report for each row; it grows as rows turn up."""

    def __init__(self, symbols: Symbols | None = None, offsets: IntArray | None = None) -> None:
        self.symbols = np.empty(0, dtype=np.uint8) if symbols is None else symbols.copy()
        self.offsets = np.empty(0, dtype=np.int64) if offsets is None else offsets.copy()

    def put(self, rows: IntArray, symbols: Symbols, offsets: IntArray, *, latest: bool) -> IntArray:
        """Let the latest or the earliest of each row's reports take its place; the offsets of those that lost theirs."""
        self.grow(int(rows.max(initial=-1)) + 1)
        taken = offsets[:0]
        if not latest:
            fresh = self.symbols[rows] == NOTHING
            taken = offsets[~fresh]
            rows, symbols, offsets = rows[fresh], symbols[fresh], offsets[fresh]
        before = self.offsets[rows]
        order = np.arange(len(rows))
        # Of repeated indices NumPy keeps the last assignment; the offsets overwritten here are written again below.
        turned = slice(None, None, 1 if latest else -1)
        self.offsets[rows[turned]] = order[turned]
        wins = self.offsets[rows] == order
        repeated: IntArray = np.concatenate([taken, before[wins & (before != BEYOND)], offsets[~wins]])
        self.symbols[rows[wins]] = symbols[wins]
        self.offsets[rows[wins]] = offsets[wins]
        return repeated

    def keep(self, members: npt.NDArray[np.bool_]) -> IntArray:
        """Only the members' rows; the offsets of the others' reports."""
        self.grow(len(members))
        strangers: IntArray = self.offsets[: len(members)][~members]
        self.symbols, self.offsets = self.symbols[: len(members)][members], self.offsets[: len(members)][members]
        return strangers[strangers < BEYOND]

    def grow(self, rows: int) -> None:
        """Make room for this many rows, and some more."""
        missing = rows - len(self.symbols)
        if missing > 0:
            room = max(missing, len(self.symbols) // 4)
            self.symbols = np.append(self.symbols, np.full(room, NOTHING))
            self.offsets = np.append(self.offsets, np.full(room, BEYOND))


class InOrder:
    """Any number of reports in the order of the log."""

    def __init__(self) -> None:
        self._room = np.empty(0, dtype=_REPORT)
        self._used = 0

    def __len__(self) -> int:
        return self._used

    @property
    def rows(self) -> IntArray:
        """Of each report."""
        return self._room["row"][: self._used].astype(np.int64)

    @property
    def symbols(self) -> Symbols:
        """Of each report."""
        return self._room["symbol"][: self._used]

    @property
    def offsets(self) -> IntArray:
        """Of each report; they do not descend."""
        return self._room["offset"][: self._used]

    @property
    def nbytes(self) -> int:
        """Memory taken."""
        return self._room.nbytes

    def append(self, rows: IntArray, symbols: Symbols, offsets: IntArray) -> None:
        """Reports that come after those that are here."""
        start, self._used = self._used, self._used + len(rows)
        if self._used > len(self._room):
            more = np.empty(max(self._used, len(self._room) * 5 // 4), dtype=_REPORT)
            more[:start] = self._room[:start]
            self._room = more
        new = self._room[start : self._used]
        new["row"], new["symbol"], new["offset"] = rows, symbols, offsets

    def take_below(self, offset: int) -> InOrder:
        """Those below the offset, which are here no longer."""
        taken = InOrder()
        if self._used and self.offsets[0] < offset:
            count = int(np.searchsorted(self.offsets, offset))
            taken.append(self.rows[:count], self.symbols[:count], self.offsets[:count])
            self._room, self._used = self._room[count : self._used].copy(), self._used - count
        return taken

    def keep(self, members: npt.NDArray[np.bool_]) -> IntArray:
        """Only the members' reports, their rows closing ranks; the offsets of the others'."""
        stays = members[self.rows]
        strangers = self.offsets[~stays]
        self._room = self._room[: self._used][stays]
        self._used = len(self._room)
        self._room["row"] = (np.cumsum(members) - 1)[self.rows]
        return strangers

    def remove_repeats(self, *, latest: bool) -> IntArray:
        """Keep the latest or the earliest report of each row; the offsets of the others."""
        order = np.argsort(self._room["row"][: self._used], kind="stable")
        rows = self._room["row"][order]
        differs = rows[1:] != rows[:-1]
        ends = np.concatenate([differs, [True]]) if latest else np.concatenate([[True], differs])
        stays = np.zeros(self._used, dtype=np.bool_)
        stays[order[ends[: self._used]]] = True
        repeated: IntArray = self.offsets[~stays]
        self._room = self._room[: self._used][stays]
        self._used = len(self._room)
        return repeated


class SparseByRow:
    """At most one report for each row, in memory proportional to the rows that have one.

    Reports are appended, and repeats removed when there may be more of them than rows: so a report takes 13 bytes, and with
    its repeats and the room to grow at most 33.
    """

    def __init__(self) -> None:
        self.reports = InOrder()
        self._distinct = 0
        """Rows that had a report when repeats were last removed."""

    def put(self, rows: IntArray, symbols: Symbols, offsets: IntArray, *, latest: bool) -> IntArray:
        """As `ByRow.put`, but the offsets of those that lost their place may be told by a later call, or by `make_dense`."""
        self.reports.append(rows, symbols, offsets)
        if len(self.reports) <= 2 * self._distinct + _FEW:
            return offsets[:0]
        repeated = self.reports.remove_repeats(latest=latest)
        self._distinct = len(self.reports)
        return repeated

    def make_dense(self, *, latest: bool) -> tuple[ByRow, IntArray]:
        """The same reports with a slot for each row, and the offsets of those that lost their place."""
        dense = ByRow()
        return dense, dense.put(self.reports.rows, self.reports.symbols, self.reports.offsets, latest=latest)

    def keep(self, members: npt.NDArray[np.bool_]) -> IntArray:
        """Only the members' rows; the offsets of the others' reports."""
        return self.reports.keep(members)
