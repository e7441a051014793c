"""The reports of all open periods, in memory proportional to the number of reports that were sent.

The period that closes next has a slot for each person. Every later period is stored sparsely: it takes at most 33 bytes for
each person who has reported for it, and 1 kB. Once the members are decided (with a roster from the start, otherwise when
period 1 is closed), a period gets a slot for each person as soon as slots take less memory, so it takes at most about 12
bytes for each person of the partition. Before that the number of rows still grows, and the memory of slots for all rows
would not be bounded by what was sent. `RejectCollector` keeps at most 15 bytes for each batch record that holds one of these
reports, and 12 bytes for each reason for which other reports of that record were rejected. `population.ahead` limits the
number of open periods. The number of reports that depend on a future cut has a limit of its own (`logic.MAX_UNDECIDED`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from streamproc.gatherer.report_buffer import (
    NO_SYMBOL,
    SLOT_BYTES,
    ClosedReports,
    KeepFirst,
    KeepLast,
    PeriodReports,
    Symbols,
)
from streamproc.privacy.types import IntArray
from streamproc.study.study import Duplicates

Arrays: TypeAlias = dict[str, npt.NDArray[np.generic]]

_DENSE, _SPARSE, _UNDECIDED = "dense/", "sparse/", "undecided/"
"""Names of arrays in a checkpoint. Each array holds all periods of its kind one after the other; `periods` and `lengths` say
which periods, and how many entries each has. Undecided reports are stored in the same way with and without slots."""

_BEFORE_3 = "open/"
"""Prefix of array names in state files before version 3. The period follows; its reports have a slot for each row."""

_OPEN = "open_"
"""Prefix of the names of undecided reports in `PeriodReports.arrays`."""


class OpenPeriods:
    """The reports of each open period. Rows are those of `MemberIndex`."""

    def __init__(self, rule: Duplicates) -> None:
        self._rule = rule
        self._reports: dict[int, PeriodReports] = {}

    @property
    def undecided(self) -> int:
        """Number of reports of which a future cut decides whether they count."""
        return sum(reports.undecided for reports in self._reports.values())

    def add(
        self,
        period: int,
        rows: IntArray,
        symbols: Symbols,
        offsets: IntArray,
        min_cut: int,
        *,
        people: int | None,
        is_next: bool,
    ) -> IntArray:
        """Add reports for one period in the order of the log; the period's cut is at offset `min_cut` or later.

        `people` is None until the members are decided. `is_next` says whether the period closes next. Returns the offsets of
        reports that cannot count any more.
        """
        reports = self._of(period)
        repeated = reports.add(rows, symbols, offsets, min_cut)
        if is_next or _is_smaller_dense(reports, people):
            repeated = np.concatenate([repeated, reports.make_dense()])
        return repeated

    def decide(self, min_cut: Callable[[int], int], people: int | None) -> IntArray:
        """Note that each period's cut is at offset `min_cut(period)` or later.

        Returns the offsets of reports that cannot count any more.
        """
        superseded = [np.empty(0, dtype=np.int64)]
        for period, reports in self._reports.items() if self._rule == "last" else ():
            superseded.append(reports.decide(min_cut(period)))
            if _is_smaller_dense(reports, people):
                superseded.append(reports.make_dense())
        return np.concatenate(superseded)

    def close(self, period: int, cut: int, people: int) -> ClosedReports:
        """Remove a period, and return the symbol of each of `people` rows from the reports below `cut`."""
        closed_reports = self._of(period).close(cut, people)
        del self._reports[period]
        return closed_reports

    def retain(self, members: npt.NDArray[np.bool_]) -> IntArray:
        """Drop the rows that are not members and renumber the others; return the offsets of the dropped reports."""
        superseded = [reports.retain(members) for reports in self._reports.values()]
        return np.concatenate([np.empty(0, dtype=np.int64), *superseded])

    def fix_rows(self, people: int) -> IntArray:
        """Give slots to the periods for which they take less memory, once the members are decided.

        Returns the offsets of reports that cannot count any more.
        """
        superseded = [reports.make_dense() for reports in self._reports.values() if _is_smaller_dense(reports, people)]
        return np.concatenate([np.empty(0, dtype=np.int64), *superseded])

    def discard_after(self, last: int) -> IntArray:
        """Drop the reports for periods after `last`; return their offsets."""
        dropped = [np.empty(0, dtype=np.int64)]
        for period in [period for period in self._reports if period > last]:
            dropped.append(self._reports.pop(period).offsets)
        return np.concatenate(dropped)

    def rows_with_reports(self, people: int) -> npt.NDArray[np.bool_]:
        """For each of `people` rows, whether there is a report of any open period."""
        found = np.zeros(people, dtype=np.bool_)
        for reports in self._reports.values():
            reports.mark_rows(found)
        return found

    def _of(self, period: int) -> PeriodReports:
        if period not in self._reports:
            self._reports[period] = self._new({})
        return self._reports[period]

    def _new(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> PeriodReports:
        # The arrays have the names of the parameters, because `arrays` gave them these names.
        return KeepFirst(**arrays) if self._rule == "first" else KeepLast(**arrays)  # type: ignore[arg-type]

    def arrays(self) -> Arrays:
        """Everything, for a checkpoint. The number of arrays does not depend on the number of periods."""
        parts: dict[str, list[npt.NDArray[np.generic]]] = {}
        for period, reports in sorted(self._reports.items()):
            arrays = reports.arrays()
            decided = _SPARSE if "rows" in arrays else _DENSE
            for name, array in arrays.items():
                kind = _UNDECIDED if name.startswith(_OPEN) else decided
                if not len(array) and kind != _DENSE:
                    continue
                parts.setdefault(kind + name.removeprefix(_OPEN), []).append(array)
                if name.removeprefix(_OPEN) == "offsets":
                    parts.setdefault(f"{kind}periods", []).append(_narrow(np.array([period])))
                    parts.setdefault(f"{kind}lengths", []).append(np.array([len(array)], dtype=np.int64))
        return {name: np.concatenate(arrays) for name, arrays in parts.items()}

    @classmethod
    def restored(cls, rule: Duplicates, state: Mapping[str, npt.NDArray[np.generic]], next_period: int) -> OpenPeriods:
        """The open periods whose `arrays` are among these. A checkpoint is written when period 1 is closed or later."""
        self = cls(rule)
        by_period: dict[int, Arrays] = {}
        for period in {int(name.split("/")[1]) for name in state if name.startswith(_BEFORE_3)}:
            arrays = _without(state, f"{_BEFORE_3}{period}/")
            by_period[period] = arrays if period == next_period else _thinned(arrays)
        for kind in (_DENSE, _SPARSE, _UNDECIDED):
            for period, arrays in _split(_without(state, kind)):
                prefix = _OPEN if kind == _UNDECIDED else ""
                by_period.setdefault(period, {}).update({prefix + name: array for name, array in arrays.items()})
        self._reports = {period: self._new(arrays) for period, arrays in by_period.items()}
        return self


def _narrow(periods: IntArray) -> npt.NDArray[np.generic]:
    """Periods as a checkpoint holds them: in 2 bytes each if they fit."""
    return periods.astype(np.uint16 if periods.max(initial=0) < 2**16 else np.uint32)


def _is_smaller_dense(reports: PeriodReports, people: int | None) -> bool:
    return people is not None and reports.sparse_bytes > SLOT_BYTES * people


def _split(arrays: Arrays) -> Iterator[tuple[int, Arrays]]:
    """The arrays of each period, from those of all periods together. Raises ValueError if their lengths do not fit."""
    if not arrays:
        return
    periods, lengths = arrays.pop("periods").tolist(), arrays.pop("lengths").astype(np.int64)
    ends = np.cumsum(lengths)
    if (lengths < 0).any() or any(len(array) != lengths.sum() for array in arrays.values()):
        raise ValueError
    for period, start, end in zip(periods, (ends - lengths).tolist(), ends.tolist(), strict=True):
        yield period, {name: array[start:end] for name, array in arrays.items()}


def _without(state: Mapping[str, npt.NDArray[np.generic]], prefix: str) -> Arrays:
    return {name.removeprefix(prefix): array for name, array in state.items() if name.startswith(prefix)}


def _thinned(arrays: Arrays) -> Arrays:
    """The arrays of a period with slots; sparsely, if few of the slots hold a report."""
    symbols, offsets = arrays["symbols"], arrays["offsets"]
    rows = np.flatnonzero(symbols != NO_SYMBOL)
    if 8 * len(rows) > len(symbols):
        return arrays
    rows = rows[np.argsort(offsets[rows], kind="stable")]
    return arrays | {"rows": rows, "symbols": symbols[rows], "offsets": offsets[rows]}


_EARLY = np.dtype([("period", np.uint32), ("row", np.uint32), ("symbol", np.uint8), ("offset", np.int64)])


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

    def discard_after(self, last: int) -> IntArray:
        """Drop the reports for periods after `last`; return their offsets."""
        beyond = self._kept["period"] > last
        dropped: IntArray = self._kept["offset"][beyond]
        self._keep_only(~beyond)
        return dropped

    def mark_rows(self, found: npt.NDArray[np.bool_]) -> None:
        """Set the entry of each row that has a report."""
        found[self._kept["row"]] = True

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

    def arrays(self) -> Arrays:
        """All reports, for a checkpoint; empty if there are none."""
        if not self._used:
            return {}
        state: Arrays = {f"early/{name}": self._kept[name].copy() for name in _EARLY.names or ()}
        return state | {"early/period": _narrow(self._kept["period"])}

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
