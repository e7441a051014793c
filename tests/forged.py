"""Ledgers whose chain, digests and announcements hold although somebody has changed what the records say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from streamproc.panel.column_packing import column_digest, pack_symbols
from streamproc.privacy.accountant import total_spent
from streamproc.privacy.types import IntArray, Period, Rho
from streamproc.protocol.columns import ColumnChunk, decode_synthetic
from streamproc.protocol.ledger import (
    Intent,
    MeasurementChunk,
    PeriodRecord,
    StudyRecord,
    decode_ledger,
    digest,
    measurements_digest,
)

Change = Callable[[PeriodRecord], PeriodRecord]
Ledger = list[bytes]


def rechained(values: Sequence[bytes], change: Change) -> Ledger:
    """The ledger with each period record changed; totals, chain and announcements are made to fit."""
    head, announced = b"", {}
    records = []
    for value in values:
        record = decode_ledger(value)
        if isinstance(record, StudyRecord):
            head = digest(value)
        elif isinstance(record, PeriodRecord):
            changed = replace(change(record), previous=head)
            spent = total_spent([release.rho_spent for release in changed.releases.values()])
            record = replace(changed, rho_spent=spent)
            head = announced[digest(value)] = digest(record.encode())
        records.append(record)
    return [
        (
            replace(record, digest=announced.get(record.digest, record.digest)) if isinstance(record, Intent) else record
        ).encode()
        for record in records
    ]


def with_release(release: str, periods: Sequence[int] | None = None, **values: Any) -> Change:
    """Replace fields of one release, in some periods; a callable is given the field's value."""

    def change(record: PeriodRecord) -> PeriodRecord:
        if periods is not None and record.period not in periods:
            return record
        entry = record.releases[release]
        new = {name: value(getattr(entry, name)) if callable(value) else value for name, value in values.items()}
        return replace(record, releases={**record.releases, release: replace(entry, **new)})

    return change


def cheaper(values: Sequence[bytes], release: str, factor: float) -> Ledger:
    """One release states this factor of its true spending, in every period."""
    scaled = with_release(release, rho=lambda rho: Rho(rho * factor * 1.000001), rho_spent=lambda rho: Rho(rho * factor))
    return rechained(values, scaled)


def with_unpaid_redraw(values: Sequence[bytes], period: int) -> Ledger:
    """A period names an announced draw as abandoned, and charges nothing for it."""
    lost = bytes([7] * 32)
    place = next(
        place
        for place, value in enumerate(values)
        if isinstance(intent := decode_ledger(value), Intent) and intent.period == period
    )
    announced = [*values[:place], Intent(Period(period), lost).encode(), *values[place:]]
    return rechained(announced, lambda record: replace(record, abandoned=(lost,)) if record.period == period else record)


def with_measurements(values: Sequence[bytes], release: str, period: int, change: Callable[[IntArray], IntArray]) -> Ledger:
    """Other measurements of one release and period (of one chunk)."""
    new: list[bytes] = []
    stated = b""
    for value in values:
        record = decode_ledger(value)
        if isinstance(record, MeasurementChunk) and (record.release, record.period) == (release, period):
            data = change(record.data.copy())
            stated = measurements_digest([data])
            record = replace(record, data=data, total=len(data))
        new.append(record.encode())
    return rechained(new, with_release(release, [period], measurements=stated))


def with_column(
    ledger: Sequence[bytes], columns: Sequence[bytes], release: str, period: int, change: Callable[[Any], Any]
) -> tuple[Ledger, list[bytes]]:
    """Another column of one release and period (of one chunk), and the ledger with its digest."""
    new: list[bytes] = []
    stated = b""
    for value in columns:
        record = decode_synthetic(value)
        if isinstance(record, ColumnChunk) and record.period == period:
            symbols = change(record.symbols().copy())
            stated = column_digest(symbols, record.bits)
            new.append(replace(record, data=pack_symbols(symbols, record.bits)).encode())
        else:
            new.append(value)

    def change_digest(stated_columns: Any) -> Any:
        return tuple((each, stated if each == period else old) for each, old in stated_columns)

    return rechained(ledger, with_release(release, columns=change_digest)), new
