"""The logic of a gatherer, without I/O: it takes records and cuts of one partition, and returns tallies and rejects.

Its tallies depend on the log and the cuts only, not on how records were batched or how often the gatherer was stopped and
resumed. A report belongs to period `t` if it claims `t` and its offset is below the cut of `t`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

import numpy as np
import numpy.typing as npt

from streamproc.errors import Malformed
from streamproc.gatherer.byte_hash_table import ByteHashTable
from streamproc.gatherer.member_index import HASH, MemberIndex
from streamproc.gatherer.open_periods import EarlyReports, OpenPeriods, ReportArrays
from streamproc.gatherer.reject_collector import RejectCollector
from streamproc.gatherer.report_buffer import NO_SYMBOL, KeepFirst, Symbols
from streamproc.log.port import Record
from streamproc.privacy.types import IntArray, Period
from streamproc.protocol.control import Cut
from streamproc.protocol.rejects import Reason, Reject
from streamproc.protocol.reports import ByteStrings, ReportBatch, decode_any, home_partition, split_reports, tail_of
from streamproc.protocol.tallies import Tally
from streamproc.releases.tally_state import TallyState
from streamproc.study import Study

UNKNOWN_SIZE = 10_000_000
"""Maximum number of people that a partition admits if the study does not state its size."""

MAX_UNDECIDED = 4_000_000
"""Maximum number of reports that depend on a future cut, under the rule `last` or with `population.ahead`.

Above it the partition pauses. This cannot be a deadlock: all of these reports lie beyond the last known cut, so every known
cut has been reached, and the next cut does not depend on how far a gatherer has read.
"""

_SYMBOLS = 256
"""More than an alphabet can have, and more than `NO_SYMBOL`."""

_MAX_PERIODS = 512
"""Maximum number of periods in the hash table. Each takes a few kB, and a report can claim any period."""

_OFFSET = attrgetter("offset")


class GathererLogic:
    """The state of one partition. Records must be given in the order of the log, cuts in the order of their periods."""

    def __init__(self, context: PartitionContext) -> None:
        self._context = context
        self._study = context.study
        size = context.study.population.size
        self._people = MemberIndex(context.key, UNKNOWN_SIZE if size is None else 2 * size)
        self._period = Period(0)
        self._cuts: dict[int, int] = {}
        self._last_cut = 0
        """Offset of the last known cut. Cuts do not descend, so what is below it is below the cut of every later period."""
        self._open = OpenPeriods(context.study.population.duplicates)
        self._joined = _nobody()
        """Without a roster: the people who reported in period 1, with any symbol."""
        self._cohort: TallyState | None = None
        self._last = np.empty(0, dtype=np.uint8)
        self._ahead = context.study.population.ahead
        self._early = EarlyReports()
        self._rejects = RejectCollector(context.partition)
        self._symbol = context.study.symbol_index
        self._codes = ReportCodes(context.study, context.key)
        if context.roster is not None:
            self._people.admit_all(individual for individual in context.roster if context.is_home(individual))
            self._enrol()

    @property
    def period(self) -> Period:
        """The last closed period."""
        return self._period

    @property
    def people(self) -> int:
        """Number of rows in use. Before period 1 is closed, some may be of people who will not be members."""
        return len(self._people)

    @property
    def _fixed_people(self) -> int | None:
        """Number of rows once the members are decided; None while ids are still admitted."""
        return None if self._cohort is None else len(self._people)

    @property
    def paused(self) -> bool:
        """Whether no more records may be ingested before another cut is added."""
        return self._open.undecided + len(self._early) > MAX_UNDECIDED

    def add_cut(self, cut: Cut) -> None:
        """Add a valid cut. Cuts must be added in the order of their periods."""
        self._last_cut = self._cuts[cut.period] = cut.ends[self._context.partition]
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

    def ingest(self, records: Sequence[Record]) -> None:
        """Add the next records of the log."""
        # Nearly every record is a report of a known individual for this period or the next, with a symbol of the alphabet.
        # Those are decoded together in NumPy, and only the others one by one.
        self._codes.prepare_periods(self._period + 1, self._period + 2)
        ids, tails = split_reports(ByteStrings.of([record.value or b"" for record in records]))
        rows, codes = self._people.rows(ids), self._codes.lookup(tails)
        offsets = np.fromiter(map(_OFFSET, records), dtype=np.int64, count=len(records))
        done = 0
        for index in np.flatnonzero((rows < 0) | (codes < 0)).tolist():
            report = self._decode(records[index])
            if isinstance(report, ReportBatch):
                self._buffer_codes(rows[done:index], codes[done:index], offsets[done:index])
                self._ingest_batch(report, records[index].offset)
                done = index + 1
            else:
                rows[index], codes[index] = report or (-1, -1)
        self._buffer_codes(rows[done:], codes[done:], offsets[done:])

    def _decode(self, record: Record) -> tuple[int, int] | ReportBatch | None:
        """Decode a record that the fast path does not recognise: a row and a code, a batch, or None after a reject."""
        try:
            report = decode_any(record.value)
        except Malformed:
            self._rejects.reject_one(record.offset, Reason.UNDECODABLE)
            return None
        if isinstance(report, ReportBatch):
            return report
        individual, period, symbol = report
        row = self._people.known.get(individual)
        if row is None:
            row = self._row_of(individual, period, record.offset)
            if row is None:
                return None
        if not 1 <= period <= self._study.last_period:
            self._rejects.reject_one(record.offset, Reason.PERIOD_OUT_OF_RANGE)
            return None
        return row, self._codes.encode(period, symbol)

    def _buffer_codes(self, rows: IntArray, codes: IntArray, offsets: IntArray) -> None:
        here = rows >= 0
        if here.any():
            periods, symbols = self._codes.decode(codes[here])
            self._buffer(ReportArrays(rows[here], periods, symbols, offsets[here]))

    def close_periods(self, position: int) -> list[Tally]:
        """Close every period whose cut is known and at most `position`, and return their tallies.

        All records below `position` must have been ingested.
        """
        tallies = []
        while (cut := self.next_cut_offset()) is not None and cut <= position:
            tallies.append(self._close_next(cut))
        return tallies

    def _ingest_batch(self, batch: ReportBatch, offset: int) -> None:
        if len(batch.ids) > 1:
            self._rejects.expect_batch(offset, len(batch.ids))
        known = self._people.known
        rows = self._people.rows(batch.encoded_ids)
        for index in np.flatnonzero(rows < 0).tolist():
            individual = batch.ids[index]
            row = known.get(individual)
            if row is None:
                row = self._row_of(individual, int(batch.periods[index]), offset)
            rows[index] = -1 if row is None else row
        here = rows >= 0
        symbols = np.where(batch.symbols < self._study.q, batch.symbols, NO_SYMBOL)
        periods, offsets = batch.periods[here].astype(np.int64), np.full(np.count_nonzero(here), offset)
        self._buffer(ReportArrays(rows[here], periods, symbols[here], offsets))

    def _row_of(self, individual: str, period: int, offset: int) -> int | None:
        """The row of an id that was not seen since the start, which is admitted if possible; otherwise a reject and None."""
        row = self._people.find(individual)
        if row is not None:
            return row
        if not 1 <= period <= self._study.last_period:
            self._rejects.reject_one(offset, Reason.PERIOD_OUT_OF_RANGE)
        elif not self._context.is_home(individual):
            self._rejects.reject_one(offset, Reason.FOREIGN_PARTITION)
        elif period != 1 or self._cohort is not None or offset >= self._cuts.get(1, offset + 1):
            # Only a report for period 1 admits an id, because ids without one must not use up the capacity.
            self._rejects.reject_one(offset, Reason.UNKNOWN_PERSON)
        elif (row := self._people.admit(individual)) is None:
            self._rejects.reject_one(offset, Reason.NOT_ADMITTED)
        return row

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
        outside = (reports.periods < 1) | (reports.periods > self._study.last_period)
        late = ~outside & (reports.periods <= self._period)
        self._rejects.reject(reports.offsets[outside], Reason.PERIOD_OUT_OF_RANGE)
        self._rejects.reject(reports.offsets[late], Reason.LATE)
        closed = outside | late
        return reports.where(~closed) if closed.any() else reports

    def _in_time(self, reports: ReportArrays, ahead: int) -> ReportArrays:
        """The reports that are not too early. The others are rejected, or kept until a cut beyond them is known."""
        # Records that are read now lie beyond the cuts of the closed periods.
        cuts = np.array([self._cuts[period] for period in sorted(self._cuts)], dtype=np.int64)
        closed = self._period + np.searchsorted(cuts, reports.offsets, side="right")
        early = (reports.periods > closed + ahead) & (reports.periods <= self._study.last_period)
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
        if period == 1 and self._cohort is None:
            self._joined.add(rows, np.zeros_like(symbols), offsets)
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


class ReportCodes:
    """Encodes a period of the study and a symbol, known or not, as one integer, and decodes it."""

    def __init__(self, study: Study, key: bytes) -> None:
        """`key` is the study's secret key."""
        self._key = key
        self._symbol = study.symbol_index
        self._horizon = study.last_period
        self._prepared: set[int] = set()
        self._by_tail = ByteHashTable(self._key)

    def prepare_periods(self, *periods: int) -> None:
        """Add the reports of these periods to the hash table. Periods outside of the study are ignored."""
        for period in periods:
            if period not in self._prepared and 1 <= period <= self._horizon:
                if len(self._prepared) >= _MAX_PERIODS:
                    self._prepared, self._by_tail = set(), ByteHashTable(self._key)
                self._prepared.add(period)
                tails = ByteStrings.of([tail_of(period, symbol) for symbol in self._symbol])
                self._by_tail.put(tails, np.array([self.encode(period, symbol) for symbol in self._symbol]))

    def encode(self, period: int, symbol: str) -> int:
        """The code of a period of the study and a symbol. The period is prepared, because more reports will claim it."""
        self.prepare_periods(period)
        return period * _SYMBOLS + self._symbol.get(symbol, int(NO_SYMBOL))

    def lookup(self, tails: ByteStrings) -> IntArray:
        """The codes of the tails of canonical reports; -1 for a tail that was not prepared."""
        return self._by_tail.find(tails)

    def decode(self, codes: IntArray) -> tuple[IntArray, Symbols]:
        """The periods and the symbols of these codes."""
        return codes // _SYMBOLS, (codes % _SYMBOLS).astype(np.uint8)
