"""The reports of one open period, stored so that any future cut can decide which of them count.

A gatherer may read past a cut before it knows the cut, so a report is stored with its offset until the period is closed.
Reports are stored sparsely at first, in memory proportional to their number. `make_dense` gives each row a slot, which is
faster, and smaller when most people have reported.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from streamproc.privacy.types import IntArray


class ClosedReports(NamedTuple):
    """The result of closing a period at its cut."""

    symbols: Symbols
    """The symbol of each row; `NO_SYMBOL` where no report counts."""
    late: IntArray
    """Offsets of stored reports at or beyond the cut, ascending."""
    repeated: IntArray
    """Offsets of reports that another one of the same person supersedes and that no earlier call returned."""
    counted: IntArray
    """Offsets of the reports that count."""


class PeriodReports(Protocol):
    """The reports of one open period. Rows are those of `MemberIndex`.

    The offset of each report that does not count is returned once: by `add`, `decide`, `retain`, `make_dense` or `close`.
    """

    @property
    def undecided(self) -> int:
        """Number of reports of which the cut decides whether they count."""
        ...

    @property
    def sparse_bytes(self) -> int:
        """Bytes of memory of reports that are stored sparsely; 0 when each row has a slot."""
        ...

    def make_dense(self) -> IntArray:
        """Give each row a slot unless rows have slots; return the offsets of reports that cannot count any more."""
        ...

    def add(self, rows: IntArray, symbols: Symbols, offsets: IntArray, min_cut: int) -> IntArray:
        """Add reports in the order of the log; a row may occur several times. The cut is at offset `min_cut` or later.

        Returns the offsets of reports that cannot count any more, because another one does.
        """
        ...

    def decide(self, min_cut: int) -> IntArray:
        """Note that the cut is at offset `min_cut` or later; return the offsets of reports that cannot count any more."""
        ...

    def close(self, cut: int, people: int) -> ClosedReports:
        """The symbol of each of `people` rows by the rule, from the reports below `cut`."""
        ...

    def retain(self, members: npt.NDArray[np.bool_]) -> IntArray:
        """Drop the rows that are not members and renumber the others; return the offsets of the dropped reports."""
        ...

    @property
    def offsets(self) -> IntArray:
        """The offsets of all stored reports, also of superseded ones that no call has returned."""
        ...

    def mark_rows(self, found: npt.NDArray[np.bool_]) -> None:
        """Set the entry of each row that has a report."""
        ...

    def arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """All reports, for a checkpoint."""
        ...


class KeepFirst:
    """The rule `first`. Only the earliest report of each person is stored: if it lies beyond the cut, all others do."""

    undecided = 0

    def __init__(
        self, symbols: Symbols | None = None, offsets: IntArray | None = None, rows: IntArray | None = None
    ) -> None:
        """Take what `arrays` returned. If `rows` is None, there is an entry for each row."""
        self._first = _kept_from(symbols, offsets, rows)

    @property
    def sparse_bytes(self) -> int:
        """Bytes of memory of reports that are stored sparsely; 0 when each row has a slot."""
        return _sparse_bytes(self._first)

    def make_dense(self) -> IntArray:
        """Give each row a slot; return the offsets of reports that cannot count any more."""
        self._first, repeated = _dense(self._first, latest=False)
        return repeated

    def add(self, rows: IntArray, symbols: Symbols, offsets: IntArray, min_cut: int = 0) -> IntArray:
        """Store the earliest report of each row; return the offsets of the others."""
        return self._first.put(rows, symbols, offsets, latest=False)

    def decide(self, min_cut: int) -> IntArray:
        """Return no offsets: which report of a person can count does not depend on the cut."""
        return np.empty(0, dtype=np.int64)

    def close(self, cut: int, people: int) -> ClosedReports:
        """The symbol of each row's earliest report, if that lies below the cut."""
        dense, repeated = _dense(self._first, latest=False)
        dense.grow(people)
        symbols, offsets = dense.symbols[:people], dense.offsets[:people]
        late = np.sort(offsets[(offsets >= cut) & (offsets != NO_OFFSET)])
        return ClosedReports(np.where(offsets < cut, symbols, NO_SYMBOL), late, repeated, offsets[offsets < cut])

    def retain(self, members: npt.NDArray[np.bool_]) -> IntArray:
        """Drop the reports of non-members; return their offsets."""
        return np.sort(self._first.retain(members))

    @property
    def offsets(self) -> IntArray:
        """The offsets of all stored reports."""
        return self._first.reported_offsets

    def mark_rows(self, found: npt.NDArray[np.bool_]) -> None:
        """Set the entry of each row that has a report."""
        found[self._first.reported_rows] = True

    def arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """All reports, for a checkpoint; with `rows` if they are stored sparsely."""
        return _arrays(self._first)


class KeepLast:
    """The rule `last`: a person's latest report below the cut counts.

    Below `min_cut`, only the latest report of each person is stored. From there on every report is stored, because the
    latest one may lie beyond the cut while an earlier one does not.
    """

    def __init__(
        self,
        symbols: Symbols | None = None,
        offsets: IntArray | None = None,
        open_rows: IntArray | None = None,
        open_symbols: Symbols | None = None,
        open_offsets: IntArray | None = None,
        rows: IntArray | None = None,
    ) -> None:
        """Take what `arrays` returned. If `rows` is None, there is an entry of decided reports for each row."""
        self._last = _kept_from(symbols, offsets, rows)
        self._open = ReportQueue()
        if open_rows is not None and open_symbols is not None and open_offsets is not None:
            self._open.append(open_rows, open_symbols, open_offsets)

    @property
    def undecided(self) -> int:
        """Number of reports at or beyond the last `min_cut`."""
        return len(self._open)

    @property
    def sparse_bytes(self) -> int:
        """Bytes of memory of decided reports that are stored sparsely; 0 when each row has a slot."""
        return _sparse_bytes(self._last)

    def make_dense(self) -> IntArray:
        """Give each row a slot for its decided report; return the offsets of reports that cannot count any more."""
        self._last, repeated = _dense(self._last, latest=True)
        return repeated

    def add(self, rows: IntArray, symbols: Symbols, offsets: IntArray, min_cut: int) -> IntArray:
        """Store every report that could still be the latest one below the cut; return the offsets of the others."""
        self._open.append(rows, symbols, offsets)
        return self.decide(min_cut)

    def decide(self, min_cut: int) -> IntArray:
        """Keep only the latest report of each row below `min_cut`; return the offsets of the others."""
        below = self._open.take_below(min_cut)
        if not len(below):
            return np.empty(0, dtype=np.int64)
        return self._last.put(below.rows, below.symbols, below.offsets, latest=True)

    def close(self, cut: int, people: int) -> ClosedReports:
        """The symbol of each row's latest report below the cut."""
        superseded = self.decide(cut)
        dense, repeated = _dense(self._last, latest=True)
        dense.grow(people)
        counted = dense.offsets[:people]
        named = np.concatenate([superseded, repeated])
        return ClosedReports(dense.symbols[:people].copy(), self._open.offsets.copy(), named, counted[counted != NO_OFFSET])

    def retain(self, members: npt.NDArray[np.bool_]) -> IntArray:
        """Drop the reports of non-members; return their offsets."""
        return np.sort(np.concatenate([self._last.retain(members), self._open.retain(members)]))

    @property
    def offsets(self) -> IntArray:
        """The offsets of all stored reports."""
        return np.concatenate([self._last.reported_offsets, self._open.offsets])

    def mark_rows(self, found: npt.NDArray[np.bool_]) -> None:
        """Set the entry of each row that has a report."""
        found[self._last.reported_rows] = True
        found[self._open.rows] = True

    def arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """All reports, for a checkpoint. Undecided reports are in the order of the log."""
        return _arrays(self._last) | {
            "open_rows": self._open.rows,
            "open_symbols": self._open.symbols,
            "open_offsets": self._open.offsets,
        }


def _kept_from(
    symbols: Symbols | None, offsets: IntArray | None, rows: IntArray | None
) -> ReportPerRow | SparseReportPerRow:
    if rows is None and symbols is not None:
        return ReportPerRow(symbols, offsets)
    sparse = SparseReportPerRow()
    if rows is not None and symbols is not None and offsets is not None:
        sparse.reports.append(rows, symbols, offsets)
    return sparse


def _sparse_bytes(kept: ReportPerRow | SparseReportPerRow) -> int:
    return kept.reports.nbytes if isinstance(kept, SparseReportPerRow) else 0


def _dense(kept: ReportPerRow | SparseReportPerRow, *, latest: bool) -> tuple[ReportPerRow, IntArray]:
    """The reports with a slot for each row, and the offsets of repeats that no earlier call returned."""
    return kept.make_dense(latest=latest) if isinstance(kept, SparseReportPerRow) else (kept, np.empty(0, dtype=np.int64))


def _arrays(kept: ReportPerRow | SparseReportPerRow) -> dict[str, npt.NDArray[np.generic]]:
    if isinstance(kept, ReportPerRow):
        return {"symbols": kept.symbols, "offsets": kept.offsets}
    return {"rows": kept.reports.rows, "symbols": kept.reports.symbols, "offsets": kept.reports.offsets}


Symbols: TypeAlias = npt.NDArray[np.uint8]
"""Alphabet indices, `NO_SYMBOL` where there is no report."""

NO_SYMBOL = np.uint8(255)

NO_OFFSET = np.iinfo(np.int64).max
"""In place of an offset where there is no report: no cut reaches it."""

_REPORT = np.dtype([("row", np.uint32), ("symbol", np.uint8), ("offset", np.int64)])

SLOT_BYTES = 9
"""Bytes of memory that `ReportPerRow` takes for each row, with or without a report."""

_MIN_REPEATS = 64
"""Number of repeats that `SparseReportPerRow` may hold in addition to one for each row with a report."""


class ReportPerRow:
    """At most one report for each row. The number of rows grows as needed."""

    def __init__(self, symbols: Symbols | None = None, offsets: IntArray | None = None) -> None:
        self.symbols = np.empty(0, dtype=np.uint8) if symbols is None else symbols.copy()
        self.offsets = np.empty(0, dtype=np.int64) if offsets is None else offsets.copy()

    def put(self, rows: IntArray, symbols: Symbols, offsets: IntArray, *, latest: bool) -> IntArray:
        """Store the latest (or earliest) report of each row. Returns the offsets of the reports that it supersedes."""
        self.grow(int(rows.max(initial=-1)) + 1)
        taken = offsets[:0]
        if not latest:
            fresh = self.symbols[rows] == NO_SYMBOL
            taken = offsets[~fresh]
            rows, symbols, offsets = rows[fresh], symbols[fresh], offsets[fresh]
        before = self.offsets[rows]
        order = np.arange(len(rows))
        # NumPy keeps the last assignment of repeated indices. The offsets that are overwritten here are restored below.
        turned = slice(None, None, 1 if latest else -1)
        self.offsets[rows[turned]] = order[turned]
        wins = self.offsets[rows] == order
        repeated: IntArray = np.concatenate([taken, before[wins & (before != NO_OFFSET)], offsets[~wins]])
        self.symbols[rows[wins]] = symbols[wins]
        self.offsets[rows[wins]] = offsets[wins]
        return repeated

    def retain(self, members: npt.NDArray[np.bool_]) -> IntArray:
        """Keep the rows of members only; return the offsets of the dropped reports."""
        self.grow(len(members))
        dropped: IntArray = self.offsets[: len(members)][~members]
        self.symbols, self.offsets = self.symbols[: len(members)][members], self.offsets[: len(members)][members]
        return dropped[dropped < NO_OFFSET]

    @property
    def reported_rows(self) -> IntArray:
        """The rows that have a report."""
        return np.flatnonzero(self.symbols != NO_SYMBOL)

    @property
    def reported_offsets(self) -> IntArray:
        """The offset of each stored report."""
        reported: IntArray = self.offsets[self.offsets != NO_OFFSET]
        return reported

    def grow(self, rows: int) -> None:
        """Allocate at least this many rows."""
        missing = rows - len(self.symbols)
        if missing > 0:
            room = max(missing, len(self.symbols) // 4)
            self.symbols = np.append(self.symbols, np.full(room, NO_SYMBOL))
            self.offsets = np.append(self.offsets, np.full(room, NO_OFFSET))


class ReportQueue:
    """Reports in the order of the log, any number for each row."""

    def __init__(self) -> None:
        self._buffer = np.empty(0, dtype=_REPORT)
        self._used = 0

    def __len__(self) -> int:
        return self._used

    @property
    def rows(self) -> IntArray:
        """Row of each report."""
        return self._buffer["row"][: self._used].astype(np.int64)

    @property
    def symbols(self) -> Symbols:
        """Symbol of each report."""
        return self._buffer["symbol"][: self._used]

    @property
    def offsets(self) -> IntArray:
        """Offset of each report, not descending."""
        return self._buffer["offset"][: self._used]

    @property
    def nbytes(self) -> int:
        """Bytes of memory allocated."""
        return self._buffer.nbytes

    def append(self, rows: IntArray, symbols: Symbols, offsets: IntArray) -> None:
        """Add reports that come after the present ones in the log."""
        start, self._used = self._used, self._used + len(rows)
        if self._used > len(self._buffer):
            more = np.empty(max(self._used, len(self._buffer) * 5 // 4), dtype=_REPORT)
            more[:start] = self._buffer[:start]
            self._buffer = more
        new = self._buffer[start : self._used]
        new["row"], new["symbol"], new["offset"] = rows, symbols, offsets

    def take_below(self, offset: int) -> ReportQueue:
        """Remove and return the reports below an offset."""
        taken = ReportQueue()
        if self._used and self.offsets[0] < offset:
            count = int(np.searchsorted(self.offsets, offset))
            taken.append(self.rows[:count], self.symbols[:count], self.offsets[:count])
            self._buffer, self._used = self._buffer[count : self._used].copy(), self._used - count
        return taken

    def retain(self, members: npt.NDArray[np.bool_]) -> IntArray:
        """Drop the reports of non-members and renumber the rows; return the offsets of the dropped reports."""
        stays = members[self.rows]
        dropped = self.offsets[~stays]
        self._buffer = self._buffer[: self._used][stays]
        self._used = len(self._buffer)
        self._buffer["row"] = (np.cumsum(members) - 1)[self.rows]
        return dropped

    def remove_repeats(self, *, latest: bool) -> IntArray:
        """Keep the latest (or earliest) report of each row; return the offsets of the others."""
        order = np.argsort(self._buffer["row"][: self._used], kind="stable")
        rows = self._buffer["row"][order]
        differs = rows[1:] != rows[:-1]
        ends = np.concatenate([differs, [True]]) if latest else np.concatenate([[True], differs])
        stays = np.zeros(self._used, dtype=np.bool_)
        stays[order[ends[: self._used]]] = True
        repeated: IntArray = self.offsets[~stays]
        self._buffer = self._buffer[: self._used][stays]
        self._used = len(self._buffer)
        return repeated


class SparseReportPerRow:
    """At most one report for each row, in memory proportional to the rows that have one.

    Reports are appended, and repeats are removed when there may be more of them than rows. So a report takes 13 bytes, and
    at most 33 with its repeats and the spare capacity.
    """

    def __init__(self) -> None:
        self.reports = ReportQueue()
        self._distinct = 0
        """Number of rows that had a report when repeats were last removed."""

    def put(self, rows: IntArray, symbols: Symbols, offsets: IntArray, *, latest: bool) -> IntArray:
        """As `ReportPerRow.put`, but a later call or `make_dense` may return the offsets of the superseded reports."""
        self.reports.append(rows, symbols, offsets)
        if len(self.reports) <= 2 * self._distinct + _MIN_REPEATS:
            return offsets[:0]
        repeated = self.reports.remove_repeats(latest=latest)
        self._distinct = len(self.reports)
        return repeated

    def make_dense(self, *, latest: bool) -> tuple[ReportPerRow, IntArray]:
        """The reports with a slot for each row, and the offsets of the superseded reports."""
        dense = ReportPerRow()
        return dense, dense.put(self.reports.rows, self.reports.symbols, self.reports.offsets, latest=latest)

    def retain(self, members: npt.NDArray[np.bool_]) -> IntArray:
        """Keep the rows of members only; return the offsets of the dropped reports."""
        dropped = self.reports.retain(members)
        self._distinct = min(self._distinct, len(self.reports))
        return dropped

    @property
    def reported_rows(self) -> IntArray:
        """The row of each stored report."""
        return self.reports.rows

    @property
    def reported_offsets(self) -> IntArray:
        """The offset of each stored report, also of superseded ones that no call has returned."""
        return self.reports.offsets
