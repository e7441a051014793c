"""Reports that are further ahead of the last known cut than the study allows (`population.ahead`).

How far ahead a report is depends on the cuts at or below its offset. A gatherer may read past a cut before it knows the cut,
so such a report is kept until a cut beyond it is known. From then on no other cut can lie below it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streamproc.gatherer.report_buffer import Symbols
from streamproc.privacy.types import IntArray

_EARLY = np.dtype([("period", np.uint16), ("row", np.uint32), ("symbol", np.uint8), ("offset", np.int64)])


class ReportArrays(NamedTuple):
    """Reports of any periods. Each array has one entry for each report."""

    rows: IntArray
    periods: IntArray
    symbols: Symbols
    offsets: IntArray

    def where(self, chosen: npt.NDArray[np.bool_]) -> ReportArrays:
        """The reports whose entry in `chosen` is True."""
        return ReportArrays(self.rows[chosen], self.periods[chosen], self.symbols[chosen], self.offsets[chosen])


class EarlyReports:
    """Reports that wait for a cut, in the order of the log. Rows are those of `MemberIndex`."""

    def __init__(self) -> None:
        self._buffer = np.empty(0, dtype=_EARLY)
        self._used = 0

    def __len__(self) -> int:
        return self._used

    @property
    def _kept(self) -> npt.NDArray[np.void]:
        return self._buffer[: self._used]

    def append(self, reports: ReportArrays) -> None:
        """Add reports that come after the present ones in the log."""
        start, self._used = self._used, self._used + len(reports.rows)
        if self._used > len(self._buffer):
            more = np.empty(max(self._used, len(self._buffer) * 5 // 4), dtype=_EARLY)
            more[:start] = self._buffer[:start]
            self._buffer = more
        new = self._buffer[start : self._used]
        new["row"], new["period"], new["symbol"], new["offset"] = reports

    def add_cut(self, closed: int, end: int, ahead: int) -> tuple[IntArray, ReportArrays]:
        """Add the cut of period `closed`, which is at offset `end`. The earlier cuts must have been added.

        Returns the offsets of reports that are too early, and the reports that are not. The others are kept.
        """
        below = self._kept["offset"] < end
        in_time = ~below & (self._kept["period"] <= closed + ahead)
        early = self._kept["offset"][below]
        found = self._kept[in_time]
        self._keep_only(~below & ~in_time)
        return early, ReportArrays(
            found["row"].astype(np.int64), found["period"].astype(np.int64), found["symbol"].copy(), found["offset"].copy()
        )

    def retain(self, members: npt.NDArray[np.bool_]) -> IntArray:
        """Drop the reports of non-members and renumber the rows; return the offsets of the dropped reports."""
        stays = members[self._kept["row"]]
        dropped: IntArray = self._kept["offset"][~stays]
        self._keep_only(stays)
        self._buffer["row"] = (np.cumsum(members) - 1)[self._buffer["row"]]
        return dropped

    def _keep_only(self, stays: npt.NDArray[np.bool_]) -> None:
        self._buffer = self._kept[stays]
        self._used = len(self._buffer)

    def arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """All reports, for a checkpoint; empty if there are none."""
        return {f"early/{name}": self._kept[name].copy() for name in _EARLY.names or ()} if self._used else {}

    @classmethod
    def restored(cls, state: Mapping[str, npt.NDArray[np.generic]]) -> EarlyReports:
        """The reports whose `arrays` are among these."""
        self = cls()
        if "early/offset" in state:
            self._buffer = np.empty(len(state["early/offset"]), dtype=_EARLY)
            for name in _EARLY.names or ():
                self._buffer[name] = state[f"early/{name}"]
            self._used = len(self._buffer)
        return self
