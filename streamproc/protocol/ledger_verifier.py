"""Verifies a ledger: every record is valid, chained to the previous one, and its spending adds up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from streamproc.errors import Malformed, VerificationFailed
from streamproc.privacy.accountant import total_spent
from streamproc.privacy.types import IntArray, Period, Rho
from streamproc.protocol.ledger import (
    Intent,
    MeasurementChunk,
    PeriodRecord,
    ReleasePeriod,
    StudyRecord,
    decode_ledger,
    digest,
    measurements_digest,
)
from streamproc.protocol.snapshots import has_summary


@dataclass(frozen=True, eq=False)
class VerifiedLedger:
    """A verified ledger, or the verified beginning of one."""

    study: StudyRecord
    periods: tuple[PeriodRecord, ...]
    """The records of periods `first`, `first + 1`, ... without a gap."""
    measurements: Mapping[tuple[str, Period], IntArray]
    """Measurements by release and period. The array is empty if the period measured nothing."""
    head: bytes
    """Digest of the last period record, or of the study record."""
    intents: tuple[bytes, ...]
    """Digests announced for the next period, each once, in order. The first binds."""
    first: Period = Period(1)
    """The period of the first record in `periods`. It is not 1 if the verifier keeps only the newest ones."""
    contracts: Mapping[str, bytes | None] = field(default_factory=dict)
    """For each release that has a column, the digest of its contract; None if its first record states none."""
    study_digest: bytes = b""
    """Digest of the study record."""

    @property
    def period(self) -> Period:
        """The last period in the ledger; 0 if there is none."""
        return Period(self.first - 1 + len(self.periods))

    @property
    def is_over(self) -> bool:
        """Whether the last period is released: that of the horizon, or one whose record is marked as the last."""
        return bool(self.periods) and (self.periods[-1].last or self.period == self.study.horizon)

    def record(self, period: int) -> PeriodRecord:
        """The record of a period that is kept."""
        if not self.first <= period <= self.period:
            raise LookupError(f"period {period} is not among the kept periods {self.first}..{self.period}")
        return self.periods[period - self.first]

    def records_after(self, period: int) -> tuple[PeriodRecord, ...]:
        """The records of later periods, as far as they are kept."""
        return self.periods[max(period + 1 - self.first, 0) :]

    def column_digests(self, release: str) -> tuple[bytes, ...]:
        """Digests of the columns that the records in `periods` released, in order.

        If `first` is not 1, the study is open, and the columns before are one for each earlier period.
        """
        return tuple(digest for record in self.periods for _, digest in record.releases[release].columns)

    def column_count(self, release: str) -> int:
        """Number of columns of a release, also those of periods before `first`."""
        return self.first - 1 + sum(len(record.releases[release].columns) for record in self.periods)


def verify_chain(values: Iterable[bytes | None]) -> VerifiedLedger | None:
    """Check the ledger's records, given by their values in the order of the topic; None if there are none yet.

    Raises VerificationFailed with one line that names the record, counted from 0, and what is wrong with it.
    """
    verifier = LedgerVerifier()
    for value in values:
        verifier.add(value)
    return verifier.verified()


@dataclass(eq=False)
class LedgerVerifier:
    """Incremental version of `verify_chain`, for tailing a ledger. Unusable after the first VerificationFailed."""

    keep: int | None = None
    """In an open study, which may have any number of periods, keep the records of the newest so many; None keeps all."""
    _records: int = 0
    _study: StudyRecord | None = None
    _study_digest: bytes = b""
    _head: bytes = b""
    _periods: list[PeriodRecord] = field(default_factory=list)
    _dropped: int = 0
    """Number of periods before `_periods`."""
    _columns: dict[str, int] = field(default_factory=dict)
    """Number of released columns of each release."""
    _contracts: dict[str, bytes | None] = field(default_factory=dict)
    _abandoned: int = 0
    """Number of abandoned draws so far."""
    _intents: list[bytes] = field(default_factory=list)
    _open: dict[str, list[IntArray]] = field(default_factory=dict)
    """Chunks of measurements whose period record was not added yet."""
    _measurements: dict[tuple[str, Period], IntArray] = field(default_factory=dict)

    @classmethod
    def start_at(cls, study: bytes | None, period: bytes | None) -> LedgerVerifier:
        """A verifier that starts with a period record that holds a summary, and trusts it for what came before.

        It checks nothing of that but that the study record is the one that the summary names. Raises VerificationFailed.
        """
        verifier = cls()
        begun = verifier.add(study)
        try:
            record = decode_ledger(period)
        except Malformed as malformed:
            raise verifier._failed(f"is malformed: {malformed.reason}") from None
        assert isinstance(begun, StudyRecord) and study is not None and period is not None
        summary = record.summary if isinstance(record, PeriodRecord) else None
        if not isinstance(record, PeriodRecord) or summary is None or not begun.is_open:
            raise verifier._failed("holds no summary of an open study")
        verifier._expect(summary.study == verifier._study_digest, "is the summary of another study")
        verifier._periods, verifier._dropped = [record], record.period - 1
        verifier._head, verifier._abandoned = digest(period), summary.abandoned
        verifier._contracts = {name: release.contract for name, release in summary.releases.items()}
        verifier._columns = dict.fromkeys(record.releases, int(record.period))
        return verifier

    def add(self, value: bytes | None) -> StudyRecord | Intent | MeasurementChunk | PeriodRecord:
        """Verify the next record, and return it. Raises VerificationFailed."""
        try:
            record = decode_ledger(value)
        except Malformed as malformed:
            raise self._failed(f"is malformed: {malformed.reason}") from None
        assert value is not None
        if isinstance(record, StudyRecord) != (self._study is None):
            raise self._failed("a study record comes first, and once")
        is_repeated = isinstance(record, Intent) and self._is_of_last_period(record)
        self._expect(is_repeated or not self._is_over, "comes after the last period of the study")
        match record:
            case StudyRecord():
                self._study, self._head = record, digest(value)
                self._study_digest = self._head
            case Intent():
                self._announced(record)
            case MeasurementChunk():
                self._measured(record)
            case _:
                self._closed(record, digest(value))
        self._records += 1
        return record

    def verified(self) -> VerifiedLedger | None:
        """The ledger so far; None before the first record."""
        if self._study is None:
            return None
        periods, intents, first = tuple(self._periods), tuple(self._intents), Period(self._dropped + 1)
        measured, contracts = dict(self._measurements), dict(self._contracts)
        return VerifiedLedger(self._study, periods, measured, self._head, intents, first, contracts, self._study_digest)

    @property
    def has_begun(self) -> bool:
        """Whether measurements were added without their period record. Both are committed together."""
        return bool(self._open)

    @property
    def _next(self) -> Period:
        return Period(self._dropped + len(self._periods) + 1)

    @property
    def _is_open(self) -> bool:
        return self._study is not None and self._study.is_open

    @property
    def _is_over(self) -> bool:
        """Whether an open study has ended."""
        if self._study is None or not self._is_open or not self._periods:
            return False
        return self._periods[-1].last or self._study.horizon == self._periods[-1].period

    def _is_of_last_period(self, intent: Intent) -> bool:
        """Whether a synthesizer that did not know that its commit had succeeded has repeated the last period's intent."""
        return intent.period == self._next - 1 and intent.digest == self._head

    def _announced(self, intent: Intent) -> None:
        if self._is_of_last_period(intent):
            return
        self._expect(intent.period == self._next, f"announces period {intent.period}, but {self._next} is next")
        if intent.digest not in self._intents:
            self._intents.append(intent.digest)

    def _measured(self, chunk: MeasurementChunk) -> None:
        self._expect(chunk.period == self._next, f"measures period {chunk.period}, but {self._next} is next")
        before = self._open.setdefault(chunk.release, [])
        position = sum(map(len, before))
        self._expect(chunk.first == position, f"holds measurements from {chunk.first} on, but {position} is next")
        before.append(chunk.data)

    def _closed(self, record: PeriodRecord, record_digest: bytes) -> None:
        self._expect(record.period == self._next, f"is of period {record.period}, but {self._next} is next")
        self._expect(record.previous == self._head, "is not chained to the record before it")
        self._expect(set(record.abandoned) <= set(self._intents), "abandons a draw that was never announced")
        binding = [intent for intent in self._intents if intent not in record.abandoned]
        # Another announced draw may have been seen. Its cost is counted only if the record names it as abandoned.
        self._expect(binding == [record_digest], "is not the one draw that was announced and not abandoned")
        before = self._periods[-1].releases if self._periods else None
        self._expect(before is None or before.keys() == record.releases.keys(), "has other releases than the one before")
        self._expect(self._open.keys() <= record.releases.keys(), "has no release for some measurements before it")
        self._expect(self._is_open or not record.last, "is marked as the last, but only an open study can end early")
        for name, release in record.releases.items():
            self._check_release(name, release, before[name] if before else None)
        self._abandoned += len(record.abandoned)
        self._check_summary(record)
        spent = total_spent([release.rho_spent for release in record.releases.values()])
        self._expect(record.rho_spent == spent, "states a total that its releases do not add up to")
        self._periods.append(record)
        self._drop_old_periods()
        self._head = record_digest
        self._intents, self._open = [], {}

    def _check_release(self, name: str, release: ReleasePeriod, before: ReleasePeriod | None) -> None:
        measured = self._open.get(name, [])
        self._expect(measurements_digest(measured) == release.measurements, f"does not match the measurements of {name}")
        self._measurements[name, self._next] = _joined(measured)
        spent_before = before.rho_spent if before else Rho(0.0)
        grown = Fraction(release.rho_spent) - Fraction(spent_before)
        self._expect(0 <= grown <= Fraction(release.rho), f"states a spending of {name} that does not follow")
        out = self._columns.get(name, 0)
        periods = [period for period, _ in release.columns]
        wanted = list(range(out + 1, self._next + 1)) if periods or out else []
        self._expect(periods == wanted, f"lacks a column of {name}, or has one too many")
        self._columns[name] = out + len(periods)
        if periods and not out:
            self._contracts[name] = release.contract
        if self._is_open:
            self._expect((release.contract is None) == (out > 0), f"must state the contract of {name} once, in period 1")
            rows_before = before.n_star if before is not None and before.n_star is not None else 0
            grows = release.n_star is not None and release.n_star >= rows_before
            self._expect(grows, f"states fewer synthetic people of {name} than there were")
        elif before is not None and before.n_star is not None:
            self._expect(release.n_star == before.n_star, f"changes the number of synthetic people of {name}")

    def _check_summary(self, record: PeriodRecord) -> None:
        """A summary repeats what earlier records say. `ReleaseAudit` compares the rest of it with the columns."""
        due, summary = self._is_open and has_summary(record.period), record.summary
        self._expect((summary is not None) == due, "lacks a summary that is due, or has one that is not")
        if summary is not None:
            self._expect(summary.study == self._study_digest, "has the summary of another study")
            self._expect(summary.abandoned == self._abandoned, "has a summary of another number of lost draws")
            stated = {name: release.contract for name, release in summary.releases.items()}
            self._expect(stated == self._contracts, "has a summary that states another contract")

    def _drop_old_periods(self) -> None:
        while self.keep is not None and self._is_open and len(self._periods) > self.keep:
            dropped = self._periods.pop(0)
            self._dropped += 1
            for name in dropped.releases:
                self._measurements.pop((name, dropped.period), None)

    def _expect(self, holds: bool, problem: str) -> None:
        if not holds:
            raise self._failed(problem)

    def _failed(self, problem: str) -> VerificationFailed:
        return VerificationFailed(f"ledger record {self._records}: {problem}")


def _joined(parts: list[IntArray]) -> IntArray:
    return np.concatenate([np.zeros(0, dtype=np.int64), *parts])
