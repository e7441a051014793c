"""The logic of a gatherer of a closed study: its members are those of the roster, or the people who report in period 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from streamproc.gatherer.member_index import HASH, MemberIndex
from streamproc.gatherer.open_periods import EarlyReports, OpenPeriods
from streamproc.gatherer.partition_logic import UNKNOWN, PartitionContext, PartitionLogic
from streamproc.gatherer.report_buffer import NO_SYMBOL, KeepFirst, Symbols
from streamproc.privacy.types import IntArray, Period
from streamproc.protocol.rejects import Reason
from streamproc.protocol.reports import ByteStrings
from streamproc.protocol.tallies import Tally
from streamproc.releases.tally_state import TallyState

__all__ = ["GathererLogic", "PartitionContext"]

UNKNOWN_SIZE = 10_000_000
"""Maximum number of people that a partition admits if the study does not state its size."""


class GathererLogic(PartitionLogic):
    """The state of one partition of a closed study."""

    def __init__(self, context: PartitionContext) -> None:
        super().__init__(context)
        size = context.study.population.size
        self._people = MemberIndex(context.key, UNKNOWN_SIZE if size is None else 2 * size)
        self._joined = _nobody()
        """Without a roster: the people who reported in period 1, with any symbol."""
        self._cohort: TallyState | None = None
        self._last = np.empty(0, dtype=np.uint8)
        if context.roster is not None:
            self._people.admit_all(individual for individual in context.roster if context.is_home(individual))
            self._enrol()

    @property
    def people(self) -> int:
        """Number of rows in use. Before period 1 is closed, some may be of people who will not be members."""
        return len(self._people)

    @property
    def _fixed_people(self) -> int | None:
        """Number of rows once the members are decided; None while ids are still admitted."""
        return None if self._cohort is None else len(self._people)

    def _rows(self, ids: ByteStrings) -> IntArray:
        return self._people.rows(ids)

    def _find_rows(self, ids: Sequence[str], periods: IntArray, symbols: Symbols, offsets: IntArray) -> IntArray:
        rows, known = np.full(len(ids), UNKNOWN), self._people.known
        for index, (individual, period, offset) in enumerate(zip(ids, periods.tolist(), offsets.tolist(), strict=True)):
            row = known.get(individual)
            if row is None:
                row = self._row_of(individual, period, offset)
            if row is not None:
                rows[index] = row
        return rows

    def _note_claims(self, period: int, rows: IntArray, offsets: IntArray) -> None:
        if period == 1 and self._cohort is None:
            self._joined.add(rows, np.zeros(len(rows), dtype=np.uint8), offsets)

    def _row_of(self, individual: str, period: int, offset: int) -> int | None:
        """The row of an id that was not seen since the start, which is admitted if possible; otherwise a reject and None."""
        row = self._people.find(individual)
        if row is not None:
            return row
        if not 1 <= period <= self._last_period:
            self._rejects.reject_one(offset, Reason.PERIOD_OUT_OF_RANGE)
        elif not self._context.is_home(individual):
            self._rejects.reject_one(offset, Reason.FOREIGN_PARTITION)
        elif period != 1 or self._cohort is not None or offset >= self._cuts.get(1, offset + 1):
            # Only a report for period 1 admits an id, because ids without one must not use up the capacity.
            self._rejects.reject_one(offset, Reason.UNKNOWN_PERSON)
        elif (row := self._people.admit(individual)) is None:
            self._rejects.reject_one(offset, Reason.NOT_ADMITTED)
        return row

    def _close_next(self, cut: int) -> Tally:
        period = Period(self._period + 1)
        if self._cohort is None:
            self._decide_members(cut)
            self._enrol()
        assert self._cohort is not None
        closed_reports = self._open.close(period, cut, len(self._people))
        self._rejects.reject(closed_reports.late, Reason.LATE)
        self._rejects.reject(closed_reports.repeated, Reason.DUPLICATE)
        self._rejects.count(closed_reports.counted)
        fill = self._study.population.missing.fill
        instead = self._last if fill is None else np.uint8(self._symbol[fill])
        self._last = np.where(closed_reports.symbols == NO_SYMBOL, instead, closed_reports.symbols)
        self._cohort, counts = self._cohort.fold(self._last)
        self._period = period
        del self._cuts[period]
        return Tally(self._context.partition, period, len(self._people), counts)

    def _decide_members(self, cut: int) -> None:
        """Without a roster, the members of the study are the people who reported in period 1, below its cut."""
        members = self._joined.close(cut, len(self._people)).symbols != NO_SYMBOL
        self._people.retain(members)
        self._rejects.reject(self._open.retain(members), Reason.UNKNOWN_PERSON)
        self._rejects.reject(self._open.fix_rows(len(self._people)), Reason.DUPLICATE)
        self._rejects.reject(self._early.retain(members), Reason.UNKNOWN_PERSON)
        self._joined = _nobody()

    def _enrol(self) -> None:
        """Create the tally state, once the members are known."""
        self._cohort = TallyState.of(self._study, len(self._people))
        self._last = np.full(len(self._people), self._symbol[self._study.population.initial], dtype=np.uint8)

    def arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """The state without the cuts, for a checkpoint. It contains keyed hashes instead of ids."""
        state: dict[str, npt.NDArray[np.generic]] = {
            "period": np.array([self._period]),
            "hashes": self._people.hashes.view(np.uint8),
            "last": self._last,
        }
        if self._cohort is None:
            state |= {f"joined/{name}": array for name, array in self._joined.arrays().items()}
        else:
            state["windows"] = self._cohort.windows
            state |= {f"weights/{release}": ones for release, ones in self._cohort.weights.items()}
        return state | self._open.arrays() | self._early.arrays() | self._rejects.arrays()

    @classmethod
    def restored(cls, context: PartitionContext, state: Mapping[str, npt.NDArray[np.generic]]) -> GathererLogic:
        """The logic whose `arrays` these are. The cuts of the open periods must be added again."""
        logic = cls(context)
        logic._period = Period(int(state["period"][0]))
        logic._people.restore(np.ascontiguousarray(state["hashes"]).view(HASH))
        logic._last = np.array(state["last"], dtype=np.uint8)
        if "windows" in state:
            weights = {name: state[f"weights/{name}"] for name in TallyState.releases_with_state(context.study)}
            logic._cohort = TallyState(context.study, logic._period, state["windows"], weights)  # type: ignore[arg-type]
        else:
            logic._cohort = None
            logic._joined = KeepFirst(state["joined/symbols"], state["joined/offsets"])  # type: ignore[arg-type]
        logic._early = EarlyReports.restored(state)
        logic._rejects.restore(state)
        logic._open = OpenPeriods.restored(context.study.population.duplicates, state, logic._period + 1)
        return logic


def _nobody() -> KeepFirst:
    """An empty buffer with a slot for each person."""
    return KeepFirst(np.empty(0, dtype=np.uint8), np.empty(0, dtype=np.int64))
