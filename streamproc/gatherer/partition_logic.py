"""What a gatherer does with the records of one partition, without I/O, in closed and in open studies.

Reports are decoded, buffered until their periods are closed, and rejected. Who takes part is decided by the subclasses:
`GathererLogic` for closed studies, `OpenGathererLogic` for open ones.

Tallies depend on the log and the cuts only, not on how records were batched or how often the gatherer was stopped and
resumed. A report belongs to period `t` if it claims `t` and its offset is below the cut of `t`.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

import numpy as np
import numpy.typing as npt

from streamproc.errors import Malformed
from streamproc.gatherer.departed import Departed
from streamproc.gatherer.open_periods import EarlyReports, OpenPeriods, ReportArrays
from streamproc.gatherer.reject_collector import RejectCollector
from streamproc.gatherer.report_buffer import NO_SYMBOL, Symbols
from streamproc.gatherer.report_codes import ReportCodes
from streamproc.log.port import Record
from streamproc.privacy.types import IntArray, Period
from streamproc.protocol.control import Cut
from streamproc.protocol.rejects import Reason, Reject
from streamproc.protocol.reports import ByteStrings, ReportBatch, decode_any, home_partition, split_reports
from streamproc.protocol.tallies import Tally
from streamproc.study import Study

MAX_UNDECIDED = 4_000_000
"""Maximum number of reports that depend on a future cut, under the rule `last` or with `population.ahead`.

Above it the partition pauses. This cannot be a deadlock: all of these reports lie beyond the last known cut, so every known
cut has been reached, and the next cut does not depend on how far a gatherer has read.
"""

UNKNOWN = -1
"""In place of a row: nothing is known about the id yet, or its report is rejected already."""

_OFFSET = attrgetter("offset")


@dataclass(frozen=True)
class PartitionContext:
    """The study, the partition and the secret key that a gatherer works with."""

    study: Study
    partition: int
    key: bytes
    """The study's secret key for hashing ids."""
    roster: Sequence[str] | None = None
    """All ids of the study; None if it has no roster. Only those whose home partition this is are used."""

    @property
    def partitions(self) -> int:
        """The number of partitions `P`, which is fixed for the study."""
        return self.study.broker.partitions

    @property
    def key_fingerprint(self) -> bytes:
        """A keyed hash that identifies the key without revealing it."""
        return hashlib.blake2b(self.study.name.encode(), key=self.key, digest_size=16, person=b"key mark").digest()

    def is_home(self, individual: str) -> bool:
        """Whether this is the home partition of an id. Reports in other partitions do not count."""
        return home_partition(individual, self.partitions) == self.partition


class PartitionLogic(ABC):
    """The state of one partition. Records must be given in the order of the log, cuts in the order of their periods."""

    departed: Departed | None = None
    """In an open study, the people who have left. They are stored in files of their own beside the checkpoint."""

    def __init__(self, context: PartitionContext) -> None:
        self._context = context
        self._study = context.study
        self._period = Period(0)
        self._last_period = Period(context.study.last_period)
        """The last period that the study can have; that of a cut marked `last` once it is known."""
        self._cuts: dict[int, int] = {}
        """The offsets of the known cuts of open periods, in the order of the periods."""
        self._last_cut = 0
        """Offset of the last known cut. Cuts do not descend, so what is below it is below the cut of every later period."""
        self._open = OpenPeriods(context.study.population.duplicates)
        self._ahead = context.study.population.ahead
        self._early = EarlyReports()
        self._rejects = RejectCollector(context.partition)
        self._symbol = context.study.symbol_index
        self._codes = ReportCodes(context.study, context.key)

    # Who takes part

    @property
    @abstractmethod
    def people(self) -> int:
        """Number of people who take part in the study, or may turn out to."""

    @property
    @abstractmethod
    def _fixed_people(self) -> int | None:
        """Number of rows if no more ids are admitted; None while they are."""

    @abstractmethod
    def _rows(self, ids: ByteStrings) -> IntArray:
        """The row of each id in UTF-8; `UNKNOWN` if `_find_rows` must decide; below that if `_reject_departed` must."""

    @abstractmethod
    def _find_rows(self, ids: Sequence[str], periods: IntArray, symbols: Symbols, offsets: IntArray) -> IntArray:
        """The rows of ids that `_rows` does not know, each with its report, in the order of the log.

        An id is admitted if its report allows that. Otherwise the report is rejected, and the row is `UNKNOWN`.
        """

    def _reject_departed(self, rows: IntArray, periods: IntArray, offsets: IntArray) -> None:  # noqa: B027 (a hook)
        """Reject the reports of people whose rows are below `UNKNOWN`. In a closed study there are none."""

    def _note_claims(self, period: int, rows: IntArray, offsets: IntArray) -> None:  # noqa: B027 (a hook)
        """Called with the reports for a period that are not late as far as is known, also those with a wrong symbol."""

    @abstractmethod
    def _close_next(self, cut: int) -> Tally:
        """Close the next period at its cut, and return its tally."""

    @abstractmethod
    def arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """The state without the cuts, for a checkpoint. It contains keyed hashes instead of ids."""

    # Records and cuts

    @property
    def period(self) -> Period:
        """The last closed period."""
        return self._period

    @property
    def paused(self) -> bool:
        """Whether no more records may be ingested before another cut is added."""
        return self._open.undecided + len(self._early) > MAX_UNDECIDED

    def add_cut(self, cut: Cut) -> None:
        """Add a valid cut. Cuts must be added in the order of their periods."""
        self._last_cut = self._cuts[cut.period] = cut.ends[self._context.partition]
        if cut.last:
            self._last_period = cut.period
            for beyond in (self._open.discard_after(cut.period), self._early.discard_after(cut.period)):
                self._rejects.reject(beyond, Reason.PERIOD_OUT_OF_RANGE)
        self._rejects.reject(self._open.decide(self._min_cut, self._fixed_people), Reason.DUPLICATE)
        if self._ahead is not None and len(self._early):
            too_early, others = self._early.add_cut(cut.period, self._last_cut, self._ahead)
            self._rejects.reject(too_early, Reason.TOO_EARLY)
            self._buffer(others)

    def next_cut_offset(self) -> int | None:
        """The offset of the next period's cut; None if that cut is not known."""
        return self._cuts.get(self._period + 1)

    def drain_rejects(self) -> list[Reject]:
        """The rejects that became final since the last call, in the order of the log. Each record has at most one."""
        return self._rejects.drain()

    def drain_reject_counts(self) -> dict[Reason, int]:
        """Number of reports rejected since the last call, for each reason, including rejects that are not final yet."""
        return self._rejects.drain_counts()

    def close_periods(self, position: int) -> list[Tally]:
        """Close every period whose cut is known and at most `position`, and return their tallies.

        All records below `position` must have been ingested.
        """
        tallies = []
        while (cut := self.next_cut_offset()) is not None and cut <= position:
            tallies.append(self._close_next(cut))
        return tallies

    def ingest(self, records: Sequence[Record]) -> None:
        """Add the next records of the log."""
        # Nearly every record is a report of a known individual for this period or the next, with a symbol of the alphabet.
        # Those are decoded together in NumPy, and only the others one by one.
        self._codes.prepare_periods(self._period + 1, self._period + 2)
        ids, tails = split_reports(ByteStrings.of([record.value or b"" for record in records]))
        rows, codes = self._rows(ids), self._codes.lookup(tails)
        offsets = np.fromiter(map(_OFFSET, records), dtype=np.int64, count=len(records))
        done, unknown = 0, dict[int, str]()
        for index in np.flatnonzero((rows == UNKNOWN) | (codes < 0)).tolist():
            report = self._decode(records[index])
            if isinstance(report, ReportBatch):
                self._buffer_codes(unknown, rows, codes, offsets, slice(done, index))
                self._ingest_batch(report, records[index].offset)
                done, unknown = index + 1, {}
            elif report is None:
                rows[index] = UNKNOWN
            else:
                individual, codes[index] = report
                if rows[index] == UNKNOWN:
                    unknown[index] = individual
        self._buffer_codes(unknown, rows, codes, offsets, slice(done, None))

    def _decode(self, record: Record) -> tuple[str, int] | ReportBatch | None:
        """Decode a record that the fast path does not recognise: an id and a code, a batch, or None after a reject."""
        try:
            report = decode_any(record.value)
        except Malformed:
            self._rejects.reject_one(record.offset, Reason.UNDECODABLE)
            return None
        if isinstance(report, ReportBatch):
            return report
        individual, period, symbol = report
        if not 1 <= period <= self._last_period:
            self._rejects.reject_one(record.offset, Reason.PERIOD_OUT_OF_RANGE)
            return None
        return individual, self._codes.encode(period, symbol)

    def _buffer_codes(
        self, unknown: dict[int, str], rows: IntArray, codes: IntArray, offsets: IntArray, part: slice
    ) -> None:
        """Buffer a part of the records that are being read; `unknown` has the ids of those whose rows are not known."""
        if unknown:
            at = np.array(list(unknown))
            rows[at] = self._find_rows(list(unknown.values()), *self._codes.decode(codes[at]), offsets[at])
        self._buffer_known(ReportArrays(rows[part], *self._codes.decode(codes[part]), offsets[part]))

    def _ingest_batch(self, batch: ReportBatch, offset: int) -> None:
        if len(batch.ids) > 1:
            self._rejects.expect_batch(offset, len(batch.ids))
        rows, periods = self._rows(batch.encoded_ids), batch.periods.astype(np.int64)
        symbols = np.where(batch.symbols < self._study.q, batch.symbols, NO_SYMBOL)
        offsets = np.full(len(rows), offset)
        unknown = np.flatnonzero(rows == UNKNOWN)
        if len(unknown):
            ids = [batch.ids[index] for index in unknown.tolist()]
            rows[unknown] = self._find_rows(ids, periods[unknown], symbols[unknown], offsets[unknown])
        self._buffer_known(ReportArrays(rows, periods, symbols, offsets))

    def _buffer_known(self, reports: ReportArrays) -> None:
        if (departed := reports.rows < UNKNOWN).any():
            self._reject_departed(reports.rows[departed], reports.periods[departed], reports.offsets[departed])
        here = reports.rows >= 0
        if here.any():
            self._buffer(reports.where(here))

    def _buffer(self, reports: ReportArrays) -> None:
        """Add reports to the periods that they claim."""
        if self._ahead is not None:
            reports = self._in_time(reports, self._ahead)
        reports = self._of_open_periods(reports)
        rows, periods, symbols, offsets = reports
        if not len(rows):
            return
        if (first := int(periods[0])) == periods.min() == periods.max():
            self._buffer_period(first, rows, symbols, offsets)
            return
        # One sort instead of one pass for each period: the time must not grow with the product of reports and periods.
        order = np.argsort(periods, kind="stable")
        starts = np.flatnonzero(np.diff(periods[order], prepend=-1)).tolist()
        for start, end in zip(starts, [*starts[1:], len(order)], strict=True):
            here = order[start:end]
            self._buffer_period(int(periods[here[0]]), rows[here], symbols[here], offsets[here])

    def _of_open_periods(self, reports: ReportArrays) -> ReportArrays:
        """The reports that claim an open period of the study. The others are rejected."""
        outside = (reports.periods < 1) | (reports.periods > self._last_period)
        late = ~outside & (reports.periods <= self._period)
        self._rejects.reject(reports.offsets[outside], Reason.PERIOD_OUT_OF_RANGE)
        self._rejects.reject(reports.offsets[late], Reason.LATE)
        closed = outside | late
        return reports.where(~closed) if closed.any() else reports

    @property
    def _known_cuts(self) -> IntArray:
        """The offsets of the known cuts of the open periods, from the next period on."""
        return np.fromiter(self._cuts.values(), dtype=np.int64, count=len(self._cuts))

    def _is_early(self, periods: IntArray, offsets: IntArray, ahead: int) -> npt.NDArray[np.bool_]:
        """Whether each report is too early as far as is known: final for one below the last known cut."""
        # Records that are read now lie beyond the cuts of the closed periods.
        closed = self._period + np.searchsorted(self._known_cuts, offsets, side="right")
        early: npt.NDArray[np.bool_] = (periods > closed + ahead) & (periods <= self._last_period)
        return early

    def _in_time(self, reports: ReportArrays, ahead: int) -> ReportArrays:
        """The reports that are not too early. The others are rejected, or kept until a cut beyond them is known."""
        early = self._is_early(reports.periods, reports.offsets, ahead)
        if not early.any():
            return reports
        final = reports.offsets < self._last_cut
        self._rejects.reject(reports.offsets[early & final], Reason.TOO_EARLY)
        self._early.append(reports.where(early & ~final))
        return reports.where(~early)

    def _buffer_period(self, period: int, rows: IntArray, symbols: Symbols, offsets: IntArray) -> None:
        cut = self._cuts.get(period)
        if cut is not None and (late := offsets >= cut).any():
            self._rejects.reject(offsets[late], Reason.LATE)
            rows, symbols, offsets = rows[~late], symbols[~late], offsets[~late]
        self._note_claims(period, rows, offsets)
        if (wrong := symbols == NO_SYMBOL).any():
            self._rejects.reject(offsets[wrong], Reason.UNKNOWN_SYMBOL)
            rows, symbols, offsets = rows[~wrong], symbols[~wrong], offsets[~wrong]
        repeated = self._open.add(
            period,
            rows,
            symbols,
            offsets,
            self._min_cut(period),
            people=self._fixed_people,
            is_next=period == self._period + 1,
        )
        self._rejects.reject(repeated, Reason.DUPLICATE)

    def _min_cut(self, period: int) -> int:
        """A lower bound of the offset of this open period's cut."""
        return self._cuts.get(period, self._last_cut)
