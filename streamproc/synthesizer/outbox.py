"""The transactional outbox: all records of a period, fixed to the byte before the first of them is sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from streamproc.panel.column_packing import column_digest
from streamproc.privacy.directed_rounding import float_up
from streamproc.privacy.types import Period, Rho
from streamproc.protocol.columns import ContractRecord, NewRows, encode_column
from streamproc.protocol.ledger import (
    PeriodRecord,
    ReleasePeriod,
    ReleaseSummary,
    Summary,
    digest,
    measurement_chunks,
    measurements_digest,
)
from streamproc.protocol.snapshots import has_summary, snapshot_chunks, snapshot_digest
from streamproc.protocol.topics import Topics
from streamproc.releases.step import Step
from streamproc.releases.synthesis import Synthesis


@dataclass(frozen=True)
class OutgoingRecord:
    """A record to be appended to a topic of one partition."""

    topic: str
    value: bytes


@dataclass(frozen=True)
class PendingRelease:
    """A period that is ready to be announced and published."""

    period: Period
    digest: bytes
    """Digest of its ledger record, which the intent announces."""
    previous: bytes
    """Digest of the previous ledger record."""
    outgoing: tuple[OutgoingRecord, ...]
    """All records of the period in the order in which they are sent; the ledger record is the last."""
    last: bool = False
    """Whether an open study ends with this period."""


def build_pending_release(
    topics: Topics,
    before: Synthesis,
    after: Synthesis,
    steps: Mapping[str, Step],
    previous: bytes,
    salt: bytes,
    abandoned: tuple[bytes, ...] = (),
    *,
    last: bool = False,
    study_digest: bytes = b"",
) -> PendingRelease:
    """The records that the step from `before` to `after` publishes.

    `abandoned` are the digests of announced draws that were lost. `salt` is random: the intent publishes the digest of the
    ledger record before the record, and without a salt the record could be found by trying all possible ones, of which there
    are few if the noise is small. `last` says that an open study ends with this period. `study_digest` is
    that of the study record, which a summary states.
    """
    columns: list[OutgoingRecord] = []
    measurements: list[OutgoingRecord] = []
    releases: dict[str, ReleasePeriod] = {}
    for name, step in steps.items():
        columns += [OutgoingRecord(topics.synthetic(name), value) for value in _column_records(before, after, name, step)]
        chunks = measurement_chunks(name, step.period, step.measurements)
        measurements += [OutgoingRecord(topics.ledger, chunk.encode()) for chunk in chunks]
        releases[name] = _release_period(before, after, name, step)
    summary = _summary(after, study_digest) if has_summary(after.period) else None
    record = PeriodRecord(after.period, releases, after.spent, previous, abandoned, salt, last, summary).encode()
    ledger = (*measurements, OutgoingRecord(topics.ledger, record))
    return PendingRelease(after.period, digest(record), previous, (*columns, *ledger), last)


def _release_period(before: Synthesis, after: Synthesis, name: str, step: Step) -> ReleasePeriod:
    spent = after.accountants[name].spent
    added = Rho(float_up(Fraction(spent) - Fraction(before.accountants[name].spent)))
    record, periods = _contract_record(after, name), _column_periods(step)
    digests = [column_digest(column, record.bits) for column in step.columns]
    return ReleasePeriod(
        rho=added,
        rho_spent=spent,
        clamped=step.clamped,
        n_star=after.rows(name),
        columns=tuple(zip(periods, digests, strict=True)),
        measurements=measurements_digest(step.measurements),
        contract=record.digest() if periods[:1] == [1] else None,
    )


def _column_records(before: Synthesis, after: Synthesis, name: str, step: Step) -> list[bytes]:
    """The columns that this step releases. The contract of the release precedes the first column."""
    record, periods = _contract_record(after, name), _column_periods(step)
    values = record.encode() if periods[:1] == [1] else []
    for period, column in zip(periods, step.columns, strict=True):
        new = _new_rows(before, after, name) if record.contract.is_open else None
        values += encode_column(name, period, column, record.contract.column_codes, new)
    panel = record.contract.panel_state(after.states[name]) if has_summary(after.period) else None
    if panel is not None:
        values += [chunk.encode() for chunk in snapshot_chunks(name, panel.period, panel.present)]
    return values


def _summary(after: Synthesis, study_digest: bytes) -> Summary | None:
    """The summary of an open study; None of a closed one."""
    releases = {}
    for name, contract in after.contracts.items():
        panel = contract.panel_state(after.states[name])
        if panel is None:
            return None
        snapshot = snapshot_digest(snapshot_chunks(name, panel.period, panel.present))
        estimates = panel.estimates.astype(">f8").tobytes()
        stated = _contract_record(after, name).digest()
        releases[name] = ReleaseSummary(stated, len(panel.present.numbers), estimates, snapshot)
    abandoned = sum(period <= after.period for period in after.redrawn)
    return Summary(study_digest, abandoned, releases)


def _new_rows(before: Synthesis, after: Synthesis, name: str) -> NewRows:
    """The synthetic people who enter in the one period between the two."""
    numbered = before.rows(name) or 0
    return NewRows(numbered, (after.rows(name) or 0) - numbered)


def _column_periods(step: Step) -> list[Period]:
    return [Period(step.period - later) for later in reversed(range(len(step.columns)))]


def _contract_record(after: Synthesis, name: str) -> ContractRecord:
    contract = after.contracts[name]
    rows = None if contract.is_open else after.rows(name)
    return ContractRecord(contract, contract.expected_rows if rows is None else rows)
