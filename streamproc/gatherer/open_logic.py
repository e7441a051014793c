"""The logic of a gatherer of an open study: people enter in any period, are present for a while, and leave for good.

A report admits an id that was never seen if it has a symbol of the alphabet, lies in the home partition and below the cut
of the period that it claims, and the id is on the roster (if there is one) and in the sample (if there is one). Its row is
provisional: the person enters when the first period closes in which a report counts, and the row is removed if none is left.
Who enters, stays and leaves when is a function of that person's own reports (`releases.open_presence`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from streamproc.gatherer.departed import Departed
from streamproc.gatherer.hash_index import Hashes, HashIndex
from streamproc.gatherer.open_periods import EarlyReports, OpenPeriods
from streamproc.gatherer.partition_logic import UNKNOWN, PartitionContext, PartitionLogic
from streamproc.gatherer.present_index import PresentIndex
from streamproc.gatherer.report_buffer import NO_SYMBOL, Symbols
from streamproc.privacy.types import IntArray, Period
from streamproc.protocol.rejects import Reason
from streamproc.protocol.reports import ByteStrings
from streamproc.protocol.tallies import Tally
from streamproc.releases.open_presence import ABSENT, TENURE_OVER, PresenceState

_REASONS = {TENURE_OVER: Reason.TENURE_OVER, ABSENT: Reason.LEFT}
"""Why reports of people who have left are rejected, by why they have left."""

_Mask = npt.NDArray[np.bool_]


class OpenGathererLogic(PartitionLogic):
    """The state of one partition of an open study."""

    departed: Departed

    def __init__(self, context: PartitionContext) -> None:
        super().__init__(context)
        self._present = PresentIndex(context.key)
        self._presence = PresenceState.of(context.study, 0)
        """The state of each row at the last close. Rows that were admitted since then have not entered."""
        self.departed = Departed()
        self._sample_end = _sample_end(context.study.population.sample)
        self._allowed: HashIndex | None = None
        """The members of the roster whose home partition this is."""
        if context.roster is not None:
            at_home = dict.fromkeys(individual for individual in context.roster if context.is_home(individual))
            self._allowed = HashIndex(np.uint8)
            self._allowed.add(Hashes.of_ids(list(at_home), context.key), np.zeros(len(at_home), dtype=np.uint8))

    @property
    def people(self) -> int:
        """Number of people who were present after the last closed period."""
        return self._presence.present

    @property
    def _fixed_people(self) -> int | None:
        return None

    # Admission

    def _rows(self, ids: ByteStrings) -> IntArray:
        return self._present.rows(ids)

    def _find_rows(self, ids: Sequence[str], periods: IntArray, symbols: Symbols, offsets: IntArray) -> IntArray:
        hashes = Hashes.of_ids(ids, self._context.key)
        rows = self._present.find(hashes)
        reasons = self.departed.find(hashes)
        left = (rows < 0) & (reasons >= 0)
        rows[left] = UNKNOWN - reasons[left]
        known = np.flatnonzero(rows != UNKNOWN)
        self._present.remember([ids[index] for index in known.tolist()], rows[known])
        new = np.flatnonzero(rows == UNKNOWN)
        new = new[self._may_enter(hashes.where(new), periods[new], symbols[new], offsets[new])]
        if len(new):
            rows[new] = self._admit([ids[index] for index in new.tolist()], hashes.where(new), offsets[new])
        return rows

    def _may_enter(self, hashes: Hashes, periods: IntArray, symbols: Symbols, offsets: IntArray) -> _Mask:
        """Whether each report would admit its id, as far as hash and report say. The other reports are rejected."""
        cuts = np.append(self._known_cuts, np.iinfo(np.int64).max)
        cut = cuts[np.clip(periods - self._period - 1, 0, len(cuts) - 1)]
        refused: dict[Reason, _Mask] = {
            Reason.PERIOD_OUT_OF_RANGE: (periods < 1) | (periods > self._last_period),
            Reason.LATE: (periods <= self._period) | (offsets >= cut),
            Reason.UNKNOWN_SYMBOL: symbols == NO_SYMBOL,
        }
        if self._sample_end is not None:
            refused[Reason.NOT_SAMPLED] = hashes.high >= self._sample_end
        if self._ahead is not None:
            early = self._is_early(periods, offsets, self._ahead)
            refused[Reason.TOO_EARLY] = early & (offsets < self._last_cut)
        may_enter = np.ones(len(hashes), dtype=np.bool_)
        for reason, mask in refused.items():
            self._rejects.reject(offsets[may_enter & mask], reason)
            may_enter &= ~mask
        return may_enter

    def _admit(self, ids: Sequence[str], hashes: Hashes, offsets: IntArray) -> IntArray:
        """Give rows to ids, which may repeat, if their home partition and the roster allow it."""
        number = {individual: place for place, individual in enumerate(dict.fromkeys(ids))}
        places = np.array([number[individual] for individual in ids])
        first = np.unique(places, return_index=True)[1]
        home = np.fromiter(map(self._context.is_home, number), dtype=np.bool_, count=len(number))
        admitted = home.copy()
        if self._allowed is not None:
            admitted &= self._allowed.find(hashes.where(first)) >= 0
        rows = np.full(len(number), UNKNOWN)
        distinct = [individual for individual, place in number.items() if admitted[place]]
        rows[admitted] = self._present.admit(distinct, hashes.where(first[admitted]))
        self._rejects.reject(offsets[~home[places]], Reason.FOREIGN_PARTITION)
        self._rejects.reject(offsets[(home & ~admitted)[places]], Reason.UNKNOWN_PERSON)
        found: IntArray = rows[places]
        return found

    def _reject_departed(self, rows: IntArray, periods: IntArray, offsets: IntArray) -> None:
        outside = (periods < 1) | (periods > self._last_period)
        late = ~outside & (periods <= self._period)
        self._rejects.reject(offsets[outside], Reason.PERIOD_OUT_OF_RANGE)
        self._rejects.reject(offsets[late], Reason.LATE)
        for why, reason in _REASONS.items():
            self._rejects.reject(offsets[~outside & ~late & (rows == UNKNOWN - why)], reason)

    # Closing

    def _close_next(self, cut: int) -> Tally:
        period = Period(self._period + 1)
        closed = self._open.close(period, cut, len(self._present))
        self._rejects.reject(closed.late, Reason.LATE)
        self._rejects.reject(closed.repeated, Reason.DUPLICATE)
        self._presence, counts = self._presence_of_all_rows().fold(closed.symbols)
        # A person whose tenure is over leaves in this period, whether they have reported for it or not.
        over = self._presence.gone[closed.symbols != NO_SYMBOL] == TENURE_OVER
        self._rejects.reject(closed.counted[over], Reason.TENURE_OVER)
        self._rejects.count(closed.counted[~over])
        self._period = period
        del self._cuts[period]
        for why, reason in _REASONS.items():
            leaving = self._presence.gone == why
            self.departed.add(self._present.hashes.where(leaving), why)
            self._remove_rows(leaving, UNKNOWN - why, reason)
        self._remove_unused_rows()
        is_last = period == self._last_period < self._study.last_period
        return Tally(self._context.partition, period, self._presence.present, counts, is_last)

    def _presence_of_all_rows(self) -> PresenceState:
        return self._presence.with_rows(len(self._present))

    def _remove_unused_rows(self) -> None:
        """Remove the rows of people who have not entered and of whom no report is left: all were late or too early."""
        unused = self._presence.ages == 0
        if unused.any():
            reported = self._open.rows_with_reports(len(unused))
            self._early.mark_rows(reported)
            self._remove_rows(unused & ~reported, UNKNOWN, Reason.LATE)

    def _remove_rows(self, removed: _Mask, number: int, reason: Reason) -> None:
        """Remove rows, and reject their reports for later periods."""
        if removed.any():
            self._rejects.reject(self._open.retain(~removed), reason)
            self._rejects.reject(self._early.retain(~removed), reason)
            self._presence = self._presence.retain(~removed)
            self._present.remove(removed, number)

    # Checkpoints

    def arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """The state without the cuts, for a checkpoint. It contains keyed hashes instead of ids.

        Segments of `departed` that are noted as stored are not part of it.
        """
        presence = self._presence_of_all_rows()
        state: dict[str, npt.NDArray[np.generic]] = {
            "period": np.array([self._period]),
            "last_period": np.array([self._last_period]),
            "hashes": np.frombuffer(self._present.hashes.to_bytes(), dtype=np.uint8),
            "ages": presence.ages,
            "missed": presence.missed,
            "last": presence.last,
        }
        state |= {f"places/{release}": places for release, places in presence.places.items()}
        state |= self.departed.arrays()
        return state | self._open.arrays() | self._early.arrays() | self._rejects.arrays()

    @classmethod
    def restored(
        cls,
        context: PartitionContext,
        state: Mapping[str, npt.NDArray[np.generic]],
        segments: Iterable[Mapping[str, npt.NDArray[np.generic]]],
    ) -> OpenGathererLogic:
        """The logic whose `arrays` these are; `segments` are the stored segments of `departed`.

        The cuts of the open periods must be added again. Raises ValueError if the arrays do not fit together.
        """
        logic = cls(context)
        logic._period, logic._last_period = (Period(int(state[name][0])) for name in ("period", "last_period"))
        logic._present.restore(Hashes.of_bytes(state["hashes"].tobytes()))
        rows = len(logic._present)
        logic._presence = PresenceState(
            context.study,
            logic._period,
            np.array(state["ages"], dtype=np.uint16),
            np.array(state["missed"], dtype=np.uint16),
            np.array(state["last"], dtype=np.uint8),
            np.zeros(rows, dtype=np.uint8),
            {r.name: np.array(state[f"places/{r.name}"], dtype=np.uint16) for r in context.study.releases},
        )
        if {len(array) for array in logic._presence.arrays_by_row()} != {rows}:
            raise ValueError
        logic.departed = Departed.restored(state, segments)
        logic._early = EarlyReports.restored(state)
        logic._rejects.restore(state)
        logic._open = OpenPeriods.restored(context.study.population.duplicates, state, logic._period + 1)
        return logic


def _sample_end(sample: float | None) -> np.uint64 | None:
    """Ids enter if the first 8 bytes of their hash are below this number; None if all may."""
    end = 2**64 if sample is None else math.ceil(sample * 2.0**64)
    return np.uint64(end) if end < 2**64 else None
