"""The reports of all periods that have not been settled, in memory proportional to what was sent.

The period that closes next has a slot for each person. Every later period is kept sparsely: a period that somebody claims
takes at most 33 bytes for each person who has reported for it and 1 kB besides, and never more than about 12 bytes for each
person of the partition, since it gets slots as soon as these take less. So a partition of `n` people keeps at most
`12 n (T - t)` bytes for periods after `t + 1`, and that only if most people have reported for all of them; with
`population.ahead` there are only so many such periods. Reports that depend on a cut to come are bounded apart
(`gathering.MAX_UNDECIDED`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from streamproc.gather.kept import NOTHING, SLOT_BYTES, Symbols
from streamproc.gather.reports import FirstReports, LastReports, OpenReports, Settled
from streamproc.privacy.quantities import IntArray
from streamproc.study.population import Duplicates

Arrays: TypeAlias = dict[str, npt.NDArray[np.generic]]

_DENSE, _SPARSE = "open/", "later/"
"""Names of arrays in a checkpoint: those of one period with slots, and those of all sparse periods together."""


class OpenPeriods:
    """Reports by the period they claim. Rows are those of `People`."""

    def __init__(self, rule: Duplicates) -> None:
        self._rule = rule
        self._reports: dict[int, OpenReports] = {}

    @property
    def undecided(self) -> int:
        """Reports kept because another one of their person may or may not lie below a cut."""
        return sum(reports.undecided for reports in self._reports.values())

    def add(
        self, period: int, rows: IntArray, symbols: Symbols, offsets: IntArray, sure: int, *, people: int, is_next: bool
    ) -> IntArray:
        """Reports for one period in the order of the log; it ends at offset `sure` or later.

        `is_next`: whether it closes next. Answers with the offsets of reports that cannot count any more.
        """
        reports = self._of(period)
        repeated = reports.add(rows, symbols, offsets, sure)
        if is_next or reports.sparse_bytes > SLOT_BYTES * people:
            repeated = np.concatenate([repeated, reports.make_dense()])
        return repeated

    def decide(self, sure: Callable[[int], int], people: int) -> IntArray:
        """Each period ends at offset `sure(period)` or later: the offsets of reports that cannot count any more."""
        named = [np.empty(0, dtype=np.int64)]
        for period, reports in self._reports.items() if self._rule == "last" else ():
            named.append(reports.decide(sure(period)))
            if reports.sparse_bytes > SLOT_BYTES * people:
                named.append(reports.make_dense())
        return np.concatenate(named)

    def settle(self, period: int, cut: int, people: int) -> Settled:
        """Each of `people` rows' symbol in this period, from the reports below `cut`; the period is here no longer."""
        settled = self._of(period).settle(cut, people)
        del self._reports[period]
        return settled

    def keep(self, members: npt.NDArray[np.bool_]) -> IntArray:
        """Drop the rows that are not members and renumber the others; return the offsets of the dropped reports."""
        named = [reports.keep(members) for reports in self._reports.values()]
        return np.concatenate([np.empty(0, dtype=np.int64), *named])

    def _of(self, period: int) -> OpenReports:
        if period not in self._reports:
            self._reports[period] = self._new({})
        return self._reports[period]

    def _new(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> OpenReports:
        # The arrays of a checkpoint are what `arrays` gave.
        return FirstReports(**arrays) if self._rule == "first" else LastReports(**arrays)  # type: ignore[arg-type]

    def arrays(self) -> Arrays:
        """Everything, for a checkpoint. Sparse periods are stored together: a file holds only so many arrays."""
        state: Arrays = {}
        sparse: dict[str, list[npt.NDArray[np.generic]]] = {}
        for period, reports in self._reports.items():
            arrays = reports.arrays()
            if "rows" not in arrays:
                state |= {f"{_DENSE}{period}/{name}": array for name, array in arrays.items()}
                continue
            for name, array in arrays.items():
                sparse.setdefault(name, []).append(array)
                if name in _PERIODS_OF:
                    sparse.setdefault(_PERIODS_OF[name], []).append(np.full(len(array), period, dtype=np.uint16))
        return state | {f"{_SPARSE}{name}": np.concatenate(parts) for name, parts in sparse.items()}

    @classmethod
    def restored(cls, rule: Duplicates, state: Mapping[str, npt.NDArray[np.generic]], next_period: int) -> OpenPeriods:
        """Those whose `arrays` are among these; before version 3 of state files every period had slots."""
        self = cls(rule)
        for period in {int(name.split("/")[1]) for name in state if name.startswith(_DENSE)}:
            arrays = _without(state, f"{_DENSE}{period}/")
            self._reports[period] = self._new(arrays if period == next_period else _thinned(arrays))
        sparse = _without(state, _SPARSE)
        periods = {name: sparse.pop(other) for name, other in _PERIODS_OF.items() if other in sparse}
        for period in np.unique(np.concatenate([*periods.values(), np.empty(0, dtype=np.uint16)])).tolist():
            of_period = {name: array[periods[_rows_of(name)] == period] for name, array in sparse.items()}
            self._reports[period] = self._new(of_period)
        return self


_PERIODS_OF = {"rows": "periods", "open_rows": "open_periods"}
"""Beside the rows of sparse reports, the period of each."""


def _rows_of(name: str) -> str:
    return "open_rows" if name.startswith("open_") else "rows"


def _without(state: Mapping[str, npt.NDArray[np.generic]], prefix: str) -> Arrays:
    return {name.removeprefix(prefix): array for name, array in state.items() if name.startswith(prefix)}


def _thinned(arrays: Arrays) -> Arrays:
    """The arrays of a period with slots; sparsely, if few of the slots hold a report."""
    symbols, offsets = arrays["symbols"], arrays["offsets"]
    rows = np.flatnonzero(symbols != NOTHING)
    if 8 * len(rows) > len(symbols):
        return arrays
    rows = rows[np.argsort(offsets[rows], kind="stable")]
    return arrays | {"rows": rows, "symbols": symbols[rows], "offsets": offsets[rows]}
