"""Reports of one open period, kept so that any cut can still decide which of them count.

A gatherer may read past a cut before it learns of it, so a report is kept with its offset until the period is settled.
"""

from __future__ import annotations

from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from streamproc.privacy.quantities import IntArray

Symbols: TypeAlias = npt.NDArray[np.uint8]
"""Alphabet indices, `NOTHING` where there is no report."""

NOTHING = np.uint8(255)

_BEYOND = np.iinfo(np.int64).max
"""In place of an offset where there is no report: no cut reaches it."""


class OpenReports(Protocol):
    """The reports of one period that has not been settled. Rows are those of `People`."""

    def add(self, rows: IntArray, symbols: Symbols, offsets: IntArray) -> None:
        """Reports in the order of the log; a row may occur several times."""
        ...

    def settled(self, cut: int, people: int) -> Symbols:
        """Each of `people` rows' symbol by the rule, from the reports below `cut`."""
        ...

    def late(self, cut: int) -> IntArray:
        """The offsets of the kept reports at or beyond `cut`, ascending."""
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
        self._symbols = np.empty(0, dtype=np.uint8) if symbols is None else symbols.copy()
        self._offsets = np.empty(0, dtype=np.int64) if offsets is None else offsets.copy()

    def add(self, rows: IntArray, symbols: Symbols, offsets: IntArray) -> None:
        """Of a row's reports the earliest stays."""
        if not len(rows):
            return
        self._grow(int(rows.max()) + 1)
        fresh = self._symbols[rows] == NOTHING
        # Of repeated indices NumPy keeps the last assignment, so the earliest report is assigned last.
        rows, symbols, offsets = rows[fresh][::-1], symbols[fresh][::-1], offsets[fresh][::-1]
        self._symbols[rows] = symbols
        self._offsets[rows] = offsets

    def settled(self, cut: int, people: int) -> Symbols:
        """The earliest report, if it lies below the cut."""
        self._grow(people)
        return np.where(self._offsets[:people] < cut, self._symbols[:people], NOTHING)

    def late(self, cut: int) -> IntArray:
        """Reports that came first but too late."""
        return np.sort(self._offsets[(self._offsets >= cut) & (self._offsets != _BEYOND)])

    def keep(self, members: npt.NDArray[np.bool_]) -> IntArray:
        """Drop strangers' reports."""
        self._grow(len(members))
        strangers = self._offsets[: len(members)][~members]
        self._symbols, self._offsets = self._symbols[: len(members)][members], self._offsets[: len(members)][members]
        return np.sort(strangers[strangers != _BEYOND])

    def arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """By row."""
        return {"symbols": self._symbols, "offsets": self._offsets}

    def _grow(self, rows: int) -> None:
        missing = rows - len(self._symbols)
        if missing > 0:
            room = max(missing, len(self._symbols) // 4)
            self._symbols = np.append(self._symbols, np.full(room, NOTHING))
            self._offsets = np.append(self._offsets, np.full(room, _BEYOND))


class LastReports:
    """The rule `last`: every report is kept, since the latest may lie beyond the cut while an earlier one does not."""

    def __init__(
        self, rows: IntArray | None = None, symbols: Symbols | None = None, offsets: IntArray | None = None
    ) -> None:
        self._rows = [np.empty(0, dtype=np.int64) if rows is None else rows]
        self._symbols = [np.empty(0, dtype=np.uint8) if symbols is None else symbols]
        self._offsets = [np.empty(0, dtype=np.int64) if offsets is None else offsets]

    def __len__(self) -> int:
        return sum(len(rows) for rows in self._rows)

    def add(self, rows: IntArray, symbols: Symbols, offsets: IntArray) -> None:
        """All stay."""
        self._rows.append(rows)
        self._symbols.append(symbols)
        self._offsets.append(offsets)

    def settled(self, cut: int, people: int) -> Symbols:
        """The latest report below the cut."""
        rows, symbols, offsets = self._joined()
        below = offsets < cut
        settled = np.full(people, NOTHING)
        settled[rows[below]] = symbols[below]
        return settled

    def late(self, cut: int) -> IntArray:
        """All beyond the cut."""
        offsets = np.concatenate(self._offsets)
        return offsets[offsets >= cut]

    def keep(self, members: npt.NDArray[np.bool_]) -> IntArray:
        """Drop strangers' reports."""
        rows, symbols, offsets = self._joined()
        stays = members[rows]
        new_rows = np.cumsum(members) - 1
        self._rows, self._symbols, self._offsets = [new_rows[rows[stays]]], [symbols[stays]], [offsets[stays]]
        return offsets[~stays]

    def arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """In the order of the log."""
        rows, symbols, offsets = self._joined()
        return {"rows": rows, "symbols": symbols, "offsets": offsets}

    def _joined(self) -> tuple[IntArray, Symbols, IntArray]:
        return np.concatenate(self._rows), np.concatenate(self._symbols), np.concatenate(self._offsets)
