"""Reports of one open period, kept so that any cut can still decide which of them count.

A gatherer may read past a cut before it learns of it, so a report is kept with its offset until the period is settled.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from streamproc.gather.kept import BEYOND, NOTHING, ByRow, InOrder, Symbols
from streamproc.privacy.quantities import IntArray


class Settled(NamedTuple):
    """What became of a period's reports at its cut."""

    symbols: Symbols
    """By row."""
    late: IntArray
    """Offsets of kept reports at or beyond the cut, ascending."""
    repeated: IntArray
    """Offsets of reports that another one of the same person supersedes, as far as they were not named before."""


class OpenReports(Protocol):
    """The reports of one period that has not been settled. Rows are those of `People`.

    Whatever is not counted is named once: by `add`, by `decide`, by `keep`, or in the end by `settle`.
    """

    def add(self, rows: IntArray, symbols: Symbols, offsets: IntArray, sure: int) -> IntArray:
        """Reports in the order of the log; a row may occur several times. The period ends at offset `sure` or later.

        Answers with the offsets of reports that cannot count any more, because another one does.
        """
        ...

    def decide(self, sure: int) -> IntArray:
        """The period ends at offset `sure` or later: answers with the offsets of reports that cannot count any more."""
        ...

    def settle(self, cut: int, people: int) -> Settled:
        """Each of `people` rows' symbol by the rule, from the reports below `cut`."""
        ...

    def keep(self, members: npt.NDArray[np.bool_]) -> IntArray:
        """Drop the rows that are not members, and close ranks; answers with the offsets of their reports."""
        ...

    def arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """Everything, for a checkpoint."""
        ...


class FirstReports:
    """The rule `first`: a person's earliest report is enough, since if it lies beyond the cut so do all others."""

    def __init__(self, symbols: Symbols | None = None, offsets: IntArray | None = None) -> None:
        self._first = ByRow(symbols, offsets)

    def add(self, rows: IntArray, symbols: Symbols, offsets: IntArray, sure: int = 0) -> IntArray:
        """Of a row's reports the earliest stays."""
        self._first.grow(int(rows.max(initial=-1)) + 1)
        fresh = self._first.symbols[rows] == NOTHING
        repeated = self._first.put(rows[fresh], symbols[fresh], offsets[fresh], latest=False)
        return np.concatenate([offsets[~fresh], repeated])

    def decide(self, sure: int) -> IntArray:
        """Nothing: what cannot count was told when it was added."""
        return np.empty(0, dtype=np.int64)

    def settle(self, cut: int, people: int) -> Settled:
        """The earliest report, if it lies below the cut."""
        self._first.grow(people)
        symbols, offsets = self._first.symbols[:people], self._first.offsets[:people]
        late = np.sort(offsets[(offsets >= cut) & (offsets != BEYOND)])
        return Settled(np.where(offsets < cut, symbols, NOTHING), late, self.decide(cut))

    def keep(self, members: npt.NDArray[np.bool_]) -> IntArray:
        """Drop strangers' reports."""
        return np.sort(self._first.keep(members))

    def arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """By row."""
        return {"symbols": self._first.symbols, "offsets": self._first.offsets}


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
    ) -> None:
        self._last = ByRow(symbols, offsets)
        self._open = InOrder()
        if open_rows is not None and open_symbols is not None and open_offsets is not None:
            self._open.append(open_rows, open_symbols, open_offsets)

    @property
    def undecided(self) -> int:
        """Reports kept beyond what surely belongs to the period."""
        return len(self._open)

    def add(self, rows: IntArray, symbols: Symbols, offsets: IntArray, sure: int) -> IntArray:
        """All stay of which it is not sure that they are superseded."""
        self._open.append(rows, symbols, offsets)
        return self.decide(sure)

    def decide(self, sure: int) -> IntArray:
        """Of what lies below `sure`, only each row's latest stays."""
        below = self._open.take_below(sure)
        return self._last.put(below.rows, below.symbols, below.offsets, latest=True)

    def settle(self, cut: int, people: int) -> Settled:
        """The latest report below the cut."""
        repeated = self.decide(cut)
        self._last.grow(people)
        return Settled(self._last.symbols[:people].copy(), self._open.offsets.copy(), repeated)

    def keep(self, members: npt.NDArray[np.bool_]) -> IntArray:
        """Drop strangers' reports."""
        return np.sort(np.concatenate([self._last.keep(members), self._open.keep(members)]))

    def arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """By row what is decided, in the order of the log what is not."""
        return {
            "symbols": self._last.symbols,
            "offsets": self._last.offsets,
            "open_rows": self._open.rows,
            "open_symbols": self._open.symbols,
            "open_offsets": self._open.offsets,
        }
