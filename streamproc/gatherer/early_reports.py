"""Reports that are further ahead of the last cut than the study allows, unless a cut that is not known yet precedes them.

How far ahead a report is depends on the cuts at or below its offset. A gatherer may read past a cut before it learns of it,
so such a report waits until a cut beyond it is known: from then on no further cut can lie below it.
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
    """Reports of any periods, an entry of each array for each."""

    rows: IntArray
    periods: IntArray
    symbols: Symbols
    offsets: IntArray

    def where(self, chosen: npt.NDArray[np.bool_]) -> ReportArrays:
        """Those that are chosen."""
        return ReportArrays(self.rows[chosen], self.periods[chosen], self.symbols[chosen], self.offsets[chosen])


class EarlyReports:
    """Reports in the order of the log that wait for a cut. Rows are those of `People`."""

    def __init__(self) -> None:
        self._room = np.empty(0, dtype=_EARLY)
        self._used = 0

    def __len__(self) -> int:
        return self._used

    @property
    def _kept(self) -> npt.NDArray[np.void]:
        return self._room[: self._used]

    def append(self, reports: ReportArrays) -> None:
        """Reports that come after those that are here."""
        start, self._used = self._used, self._used + len(reports.rows)
        if self._used > len(self._room):
            more = np.empty(max(self._used, len(self._room) * 5 // 4), dtype=_EARLY)
            more[:start] = self._room[:start]
            self._room = more
        new = self._room[start : self._used]
        new["row"], new["period"], new["symbol"], new["offset"] = reports

    def add_cut(self, closed: int, end: int, ahead: int) -> tuple[IntArray, ReportArrays]:
        """The cut of period `closed` is known to lie at `end`; those before it are known already.

        Answers with the offsets of reports that are too early, and with reports that turn out not to be. The others wait on.
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
        """Only the members' reports, their rows closing ranks; the offsets of the others'."""
        stays = members[self._kept["row"]]
        strangers: IntArray = self._kept["offset"][~stays]
        self._keep_only(stays)
        self._room["row"] = (np.cumsum(members) - 1)[self._room["row"]]
        return strangers

    def _keep_only(self, stays: npt.NDArray[np.bool_]) -> None:
        self._room = self._kept[stays]
        self._used = len(self._room)

    def arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """Everything, for a checkpoint; nothing if there is nothing."""
        return {f"early/{name}": self._kept[name].copy() for name in _EARLY.names or ()} if self._used else {}

    @classmethod
    def restored(cls, state: Mapping[str, npt.NDArray[np.generic]]) -> EarlyReports:
        """Those whose `arrays` are among these."""
        self = cls()
        if "early/offset" in state:
            self._room = np.empty(len(state["early/offset"]), dtype=_EARLY)
            for name in _EARLY.names or ():
                self._room[name] = state[f"early/{name}"]
            self._used = len(self._room)
        return self
