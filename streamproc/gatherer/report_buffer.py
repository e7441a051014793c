"""Reports of one open period, kept so that any cut can still decide which of them count.

A gatherer may read past a cut before it learns of it, so a report is kept with its offset until the period is settled.
Reports are kept sparsely at first, in memory proportional to their number; `make_dense` gives each row a slot, which is
quicker, and smaller when most people have reported.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from streamproc.privacy.types import IntArray


class ClosedReports(NamedTuple):
    """What became of a period's reports at its cut."""

    symbols: Symbols
    """By row."""
    late: IntArray
    """Offsets of kept reports at or beyond the cut, ascending."""
    repeated: IntArray
    """Offsets of reports that another one of the same person supersedes, as far as they were not named before."""
    counted: IntArray
    """Offsets of the reports that count."""


class PeriodReports(Protocol):
    """The reports of one period that has not been settled. Rows are those of `People`.

    Whatever is not counted is named once: by `add`, by `decide`, by `keep`, by `make_dense`, or in the end by `settle`.
    """

    @property
    def undecided(self) -> int:
        """Reports kept because another one of their person may or may not lie below the cut."""
        ...

    @property
    def sparse_bytes(self) -> int:
        """Memory taken by reports that are kept sparsely; 0 when each row has a slot."""
        ...

    def make_dense(self) -> IntArray:
        """Give each row a slot unless it has one; return the offsets of reports that cannot count any more."""
        ...

    def add(self, rows: IntArray, symbols: Symbols, offsets: IntArray, min_cut: int) -> IntArray:
        """Reports in the order of the log; a row may occur several times. The period ends at offset `sure` or later.

        Returns the offsets of reports that cannot count any more, because another one does.
        """
        ...

    def decide(self, min_cut: int) -> IntArray:
        """The period ends at offset `sure` or later: return the offsets of reports that cannot count any more."""
        ...

    def close(self, cut: int, people: int) -> ClosedReports:
        """Each of `people` rows' symbol by the rule, from the reports below `cut`."""
        ...

    def retain(self, members: npt.NDArray[np.bool_]) -> IntArray:
        """Drop the rows that are not members and renumber the others; return the offsets of the dropped reports."""
        ...

    def arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """Everything, for a checkpoint."""
        ...


class KeepFirst:
    """The rule `first`: a person's earliest report is enough, since if it lies beyond the cut so do all others."""

    undecided = 0

    def __init__(
        self, symbols: Symbols | None = None, offsets: IntArray | None = None, rows: IntArray | None = None
    ) -> None:
        """What `arrays` gave; by row if `rows` is None."""
        self._first = _kept_from(symbols, offsets, rows)

    @property
    def sparse_bytes(self) -> int:
        """Memory taken by reports that are kept sparsely; 0 when each row has a slot."""
        return _sparse_bytes(self._first)

    def make_dense(self) -> IntArray:
        """Give each row a slot."""
        self._first, repeated = _dense(self._first, latest=False)
        return repeated

    def add(self, rows: IntArray, symbols: Symbols, offsets: IntArray, min_cut: int = 0) -> IntArray:
        """Of a row's reports the earliest stays."""
        return self._first.put(rows, symbols, offsets, latest=False)

    def decide(self, min_cut: int) -> IntArray:
        """Nothing: whether a report can count does not depend on the cut."""
        return np.empty(0, dtype=np.int64)

    def close(self, cut: int, people: int) -> ClosedReports:
        """The earliest report, if it lies below the cut."""
        dense, repeated = _dense(self._first, latest=False)
        dense.grow(people)
        symbols, offsets = dense.symbols[:people], dense.offsets[:people]
        late = np.sort(offsets[(offsets >= cut) & (offsets != NO_OFFSET)])
        return ClosedReports(np.where(offsets < cut, symbols, NO_SYMBOL), late, repeated, offsets[offsets < cut])

    def retain(self, members: npt.NDArray[np.bool_]) -> IntArray:
        """Drop strangers' reports."""
        return np.sort(self._first.retain(members))

    def arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """By row, or sparsely."""
        return _arrays(self._first)


class KeepLast:
    """The rule `last`: a person's latest report below the cut.

    Below an offset that surely belongs to the period the latest is enough; beyond it every report is kept, since the latest
    may turn out to lie beyond the cut while an earlier one does not.
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
        """What `arrays` gave; decided ones by row if `rows` is None."""
        self._last = _kept_from(symbols, offsets, rows)
        self._open = ReportQueue()
        if open_rows is not None and open_symbols is not None and open_offsets is not None:
            self._open.append(open_rows, open_symbols, open_offsets)

    @property
    def undecided(self) -> int:
        """Reports kept beyond what surely belongs to the period."""
        return len(self._open)

    @property
    def sparse_bytes(self) -> int:
        """Memory taken by decided reports that are kept sparsely; 0 when each row has a slot."""
        return _sparse_bytes(self._last)

    def make_dense(self) -> IntArray:
        """Give each row a slot for its decided report."""
        self._last, repeated = _dense(self._last, latest=True)
        return repeated

    def add(self, rows: IntArray, symbols: Symbols, offsets: IntArray, min_cut: int) -> IntArray:
        """All stay of which it is not sure that they are superseded."""
        self._open.append(rows, symbols, offsets)
        return self.decide(min_cut)

    def decide(self, min_cut: int) -> IntArray:
        """Of what lies below `sure`, only each row's latest stays."""
        below = self._open.take_below(min_cut)
        if not len(below):
            return np.empty(0, dtype=np.int64)
        return self._last.put(below.rows, below.symbols, below.offsets, latest=True)

    def close(self, cut: int, people: int) -> ClosedReports:
        """The latest report below the cut."""
        superseded = self.decide(cut)
        dense, repeated = _dense(self._last, latest=True)
        dense.grow(people)
        counted = dense.offsets[:people]
        named = np.concatenate([superseded, repeated])
        return ClosedReports(dense.symbols[:people].copy(), self._open.offsets.copy(), named, counted[counted != NO_OFFSET])

    def retain(self, members: npt.NDArray[np.bool_]) -> IntArray:
        """Drop strangers' reports."""
        return np.sort(np.concatenate([self._last.retain(members), self._open.retain(members)]))

    def arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """By row or sparsely what is decided, in the order of the log what is not."""
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
    """The same reports with a slot for each row, and the offsets of repeats that were not named before."""
    return kept.make_dense(latest=latest) if isinstance(kept, SparseReportPerRow) else (kept, np.empty(0, dtype=np.int64))


def _arrays(kept: ReportPerRow | SparseReportPerRow) -> dict[str, npt.NDArray[np.generic]]:
    if isinstance(kept, ReportPerRow):
        return {"symbols": kept.symbols, "offsets": kept.offsets}
    return {"rows": kept.reports.rows, "symbols": kept.reports.symbols, "offsets": kept.reports.offsets}


Symbols: TypeAlias = npt.NDArray[np.uint8]
"""Alphabet indices, `NOTHING` where there is no report."""

NO_SYMBOL = np.uint8(255)

NO_OFFSET = np.iinfo(np.int64).max
"""In place of an offset where there is no report: no cut reaches it."""

_REPORT = np.dtype([("row", np.uint32), ("symbol", np.uint8), ("offset", np.int64)])

SLOT_BYTES = 9
"""What `ByRow` takes for each row, whether it has a report or not."""

_MIN_REPEATS = 64
"""Repeats that `SparseByRow` may hold besides as many as there are rows with a report."""


class ReportPerRow:
    """At most one report for each row; it grows as rows turn up."""

    def __init__(self, symbols: Symbols | None = None, offsets: IntArray | None = None) -> None:
        self.symbols = np.empty(0, dtype=np.uint8) if symbols is None else symbols.copy()
        self.offsets = np.empty(0, dtype=np.int64) if offsets is None else offsets.copy()

    def put(self, rows: IntArray, symbols: Symbols, offsets: IntArray, *, latest: bool) -> IntArray:
        """Let the latest or the earliest of each row's reports take its place; the offsets of those that lost theirs."""
        self.grow(int(rows.max(initial=-1)) + 1)
        taken = offsets[:0]
        if not latest:
            fresh = self.symbols[rows] == NO_SYMBOL
            taken = offsets[~fresh]
            rows, symbols, offsets = rows[fresh], symbols[fresh], offsets[fresh]
        before = self.offsets[rows]
        order = np.arange(len(rows))
        # Of repeated indices NumPy keeps the last assignment; the offsets overwritten here are written again below.
        turned = slice(None, None, 1 if latest else -1)
        self.offsets[rows[turned]] = order[turned]
        wins = self.offsets[rows] == order
        repeated: IntArray = np.concatenate([taken, before[wins & (before != NO_OFFSET)], offsets[~wins]])
        self.symbols[rows[wins]] = symbols[wins]
        self.offsets[rows[wins]] = offsets[wins]
        return repeated

    def retain(self, members: npt.NDArray[np.bool_]) -> IntArray:
        """Only the members' rows; the offsets of the others' reports."""
        self.grow(len(members))
        strangers: IntArray = self.offsets[: len(members)][~members]
        self.symbols, self.offsets = self.symbols[: len(members)][members], self.offsets[: len(members)][members]
        return strangers[strangers < NO_OFFSET]

    def grow(self, rows: int) -> None:
        """Make room for this many rows, and some more."""
        missing = rows - len(self.symbols)
        if missing > 0:
            room = max(missing, len(self.symbols) // 4)
            self.symbols = np.append(self.symbols, np.full(room, NO_SYMBOL))
            self.offsets = np.append(self.offsets, np.full(room, NO_OFFSET))


class ReportQueue:
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

    def take_below(self, offset: int) -> ReportQueue:
        """Those below the offset, which are here no longer."""
        taken = ReportQueue()
        if self._used and self.offsets[0] < offset:
            count = int(np.searchsorted(self.offsets, offset))
            taken.append(self.rows[:count], self.symbols[:count], self.offsets[:count])
            self._room, self._used = self._room[count : self._used].copy(), self._used - count
        return taken

    def retain(self, members: npt.NDArray[np.bool_]) -> IntArray:
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


class SparseReportPerRow:
    """At most one report for each row, in memory proportional to the rows that have one.

    Reports are appended, and repeats removed when there may be more of them than rows: so a report takes 13 bytes, and with
    its repeats and the room to grow at most 33.
    """

    def __init__(self) -> None:
        self.reports = ReportQueue()
        self._distinct = 0
        """Rows that had a report when repeats were last removed."""

    def put(self, rows: IntArray, symbols: Symbols, offsets: IntArray, *, latest: bool) -> IntArray:
        """As `ByRow.put`, but the offsets of those that lost their place may be told by a later call, or by `make_dense`."""
        self.reports.append(rows, symbols, offsets)
        if len(self.reports) <= 2 * self._distinct + _MIN_REPEATS:
            return offsets[:0]
        repeated = self.reports.remove_repeats(latest=latest)
        self._distinct = len(self.reports)
        return repeated

    def make_dense(self, *, latest: bool) -> tuple[ReportPerRow, IntArray]:
        """The same reports with a slot for each row, and the offsets of those that lost their place."""
        dense = ReportPerRow()
        return dense, dense.put(self.reports.rows, self.reports.symbols, self.reports.offsets, latest=latest)

    def retain(self, members: npt.NDArray[np.bool_]) -> IntArray:
        """Only the members' rows; the offsets of the others' reports."""
        return self.reports.retain(members)
