"""Reports of one open period, kept so that any cut can still decide which of them count.

A gatherer may read past a cut before it learns of it, so a report is kept with its offset until the period is settled.
Reports are kept sparsely at first, in memory proportional to their number; `make_dense` gives each row a slot, which is
quicker, and smaller when most people have reported.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from streamproc.gather.kept import BEYOND, NOTHING, ByRow, InOrder, SparseByRow, Symbols
from streamproc.privacy.quantities import IntArray


class Settled(NamedTuple):
    """What became of a period's reports at its cut."""

    symbols: Symbols
    """By row."""
    late: IntArray
    """Offsets of kept reports at or beyond the cut, ascending."""
    repeated: IntArray
    """Offsets of reports that another one of the same person supersedes, as far as they were not named before."""
    counted: IntArray
    """Offsets of the reports that count."""


class OpenReports(Protocol):
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

    def add(self, rows: IntArray, symbols: Symbols, offsets: IntArray, sure: int) -> IntArray:
        """Reports in the order of the log; a row may occur several times. The period ends at offset `sure` or later.

        Returns the offsets of reports that cannot count any more, because another one does.
        """
        ...

    def decide(self, sure: int) -> IntArray:
        """The period ends at offset `sure` or later: return the offsets of reports that cannot count any more."""
        ...

    def settle(self, cut: int, people: int) -> Settled:
        """Each of `people` rows' symbol by the rule, from the reports below `cut`."""
        ...

    def keep(self, members: npt.NDArray[np.bool_]) -> IntArray:
        """Drop the rows that are not members and renumber the others; return the offsets of the dropped reports."""
        ...

    def arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """Everything, for a checkpoint."""
        ...


class FirstReports:
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

    def add(self, rows: IntArray, symbols: Symbols, offsets: IntArray, sure: int = 0) -> IntArray:
        """Of a row's reports the earliest stays."""
        return self._first.put(rows, symbols, offsets, latest=False)

    def decide(self, sure: int) -> IntArray:
        """Nothing: whether a report can count does not depend on the cut."""
        return np.empty(0, dtype=np.int64)

    def settle(self, cut: int, people: int) -> Settled:
        """The earliest report, if it lies below the cut."""
        dense, repeated = _dense(self._first, latest=False)
        dense.grow(people)
        symbols, offsets = dense.symbols[:people], dense.offsets[:people]
        late = np.sort(offsets[(offsets >= cut) & (offsets != BEYOND)])
        return Settled(np.where(offsets < cut, symbols, NOTHING), late, repeated, offsets[offsets < cut])

    def keep(self, members: npt.NDArray[np.bool_]) -> IntArray:
        """Drop strangers' reports."""
        return np.sort(self._first.keep(members))

    def arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """By row, or sparsely."""
        return _arrays(self._first)


class LastReports:
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
        self._open = InOrder()
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

    def add(self, rows: IntArray, symbols: Symbols, offsets: IntArray, sure: int) -> IntArray:
        """All stay of which it is not sure that they are superseded."""
        self._open.append(rows, symbols, offsets)
        return self.decide(sure)

    def decide(self, sure: int) -> IntArray:
        """Of what lies below `sure`, only each row's latest stays."""
        below = self._open.take_below(sure)
        if not len(below):
            return np.empty(0, dtype=np.int64)
        return self._last.put(below.rows, below.symbols, below.offsets, latest=True)

    def settle(self, cut: int, people: int) -> Settled:
        """The latest report below the cut."""
        superseded = self.decide(cut)
        dense, repeated = _dense(self._last, latest=True)
        dense.grow(people)
        counted = dense.offsets[:people]
        named = np.concatenate([superseded, repeated])
        return Settled(dense.symbols[:people].copy(), self._open.offsets.copy(), named, counted[counted != BEYOND])

    def keep(self, members: npt.NDArray[np.bool_]) -> IntArray:
        """Drop strangers' reports."""
        return np.sort(np.concatenate([self._last.keep(members), self._open.keep(members)]))

    def arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """By row or sparsely what is decided, in the order of the log what is not."""
        return _arrays(self._last) | {
            "open_rows": self._open.rows,
            "open_symbols": self._open.symbols,
            "open_offsets": self._open.offsets,
        }


def _kept_from(symbols: Symbols | None, offsets: IntArray | None, rows: IntArray | None) -> ByRow | SparseByRow:
    if rows is None and symbols is not None:
        return ByRow(symbols, offsets)
    sparse = SparseByRow()
    if rows is not None and symbols is not None and offsets is not None:
        sparse.reports.append(rows, symbols, offsets)
    return sparse


def _sparse_bytes(kept: ByRow | SparseByRow) -> int:
    return kept.reports.nbytes if isinstance(kept, SparseByRow) else 0


def _dense(kept: ByRow | SparseByRow, *, latest: bool) -> tuple[ByRow, IntArray]:
    """The same reports with a slot for each row, and the offsets of repeats that were not named before."""
    return kept.make_dense(latest=latest) if isinstance(kept, SparseByRow) else (kept, np.empty(0, dtype=np.int64))


def _arrays(kept: ByRow | SparseByRow) -> dict[str, npt.NDArray[np.generic]]:
    if isinstance(kept, ByRow):
        return {"symbols": kept.symbols, "offsets": kept.offsets}
    return {"rows": kept.reports.rows, "symbols": kept.reports.symbols, "offsets": kept.reports.offsets}
