"""Finds the newest summary of an open study, by reading the ends of its topics in growing steps.

Nothing here checks what came before the summary. A reader who starts with it trusts it for that.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

from streamproc.errors import Malformed, NoSuchTopic, TopicLost, VerificationFailed
from streamproc.log.port import Offset, Record
from streamproc.log.topic_tail import ReadableLog
from streamproc.privacy.types import Period
from streamproc.protocol.columns import ContractRecord, LongContract, MatrixChunk, decode_synthetic
from streamproc.protocol.ledger import PeriodRecord, Summary, decode_ledger
from streamproc.protocol.snapshots import SnapshotAssembler, SnapshotChunk
from streamproc.releases.step import PanelState

FIRST_STEP = 256
"""Offsets that are read first, back from the end of a topic. Each further step is four times as long."""

VISIBLE_AFTER_S = 30.0
"""Seconds to wait for a snapshot whose ledger record can be read: a transaction becomes visible topic by topic."""

Found = TypeVar("Found")


@dataclass(frozen=True, eq=False)
class NewestSummary:
    """A period record with a summary, as it is in the ledger."""

    study: bytes | None = field(repr=False)
    """Value of the study record."""
    value: bytes | None = field(repr=False)
    """Value of the period record."""
    record: PeriodRecord
    summary: Summary
    next: Offset
    """The offset after the record."""


@dataclass(frozen=True, eq=False)
class ReleaseStart:
    """One release at a summary: its contract, its panel, and where its topic goes on."""

    contract: ContractRecord
    panel: PanelState
    next: Offset
    """The offset after the snapshot."""


async def find_newest_summary(log: ReadableLog, topic: str) -> NewestSummary | None:
    """The newest period record with a summary; None if the ledger has none."""

    async def newest(start: Offset, end: Offset) -> tuple[Record, PeriodRecord, Summary] | None:
        found = None
        async for record in _read(log, topic, start, end):
            period = _period_record(record)
            if period is not None and period.summary is not None:
                found = record, period, period.summary
        return found

    try:
        found = await _backwards(log, topic, newest)
    except NoSuchTopic:
        return None
    if found is None:
        return None
    async for first in _read(log, topic, Offset(0), await log.last_stable_offset(topic, 0)):
        return NewestSummary(first.value, found[0].value, found[1], found[2], Offset(found[0].offset + 1))
    raise VerificationFailed(f"topic {topic}: its first record is gone")


def _period_record(record: Record) -> PeriodRecord | None:
    try:
        decoded = decode_ledger(record.value)
    except Malformed as malformed:
        raise VerificationFailed(f"the ledger record at offset {record.offset} is malformed: {malformed.reason}") from None
    return decoded if isinstance(decoded, PeriodRecord) else None


async def read_release_at(log: ReadableLog, topic: str, name: str, newest: NewestSummary) -> ReleaseStart:
    """The contract of a release and its panel at a summary.

    Raises VerificationFailed unless contract and snapshot have the digests that the summary states.
    """
    contract = await _read_contract(log, topic)
    stated = newest.summary.releases.get(name)
    if stated is None or contract is None or contract.release != name or contract.digest() != stated.contract:
        raise VerificationFailed(f"release {name}: its contract is not the one that the ledger states")
    deadline = asyncio.get_running_loop().time() + VISIBLE_AFTER_S
    period = newest.record.period
    while (found := await _find_snapshot(log, topic, name, period)) is None:
        if asyncio.get_running_loop().time() > deadline:
            raise VerificationFailed(f"release {name}: its topic lacks the snapshot of period {period}")
        await asyncio.sleep(0.05)
    snapshot, following = found
    present = snapshot.present()
    if (len(present.numbers), snapshot.digest) != (stated.present, stated.snapshot):
        raise VerificationFailed(f"release {name}: the snapshot of period {period} is not the one that the ledger states")
    rows = newest.record.releases[name].n_star
    panel = PanelState(period, rows or 0, present, stated.numbers)
    return ReleaseStart(contract, panel, following)


async def _read_contract(log: ReadableLog, topic: str) -> ContractRecord | None:
    begun: LongContract | None = None
    async for record in _read(log, topic, Offset(0), await log.last_stable_offset(topic, 0), max_records=1):
        decoded = _synthetic(record)
        if isinstance(decoded, ContractRecord) and begun is None:
            return decoded
        if isinstance(decoded, LongContract) and begun is None:
            begun = decoded
        elif isinstance(decoded, MatrixChunk) and begun is not None:
            try:
                complete = begun.add(decoded)
            except Malformed as malformed:
                raise VerificationFailed(f"topic {topic}: its contract is malformed: {malformed.reason}") from None
            if complete is not None:
                return complete
        else:
            return None
    return None


async def _find_snapshot(log: ReadableLog, topic: str, name: str, period: Period) -> tuple[SnapshotAssembler, Offset] | None:
    """The snapshot of a period, and the offset after it; None if it cannot be read yet."""

    async def whole(start: Offset, end: Offset) -> tuple[SnapshotAssembler, Offset] | None:
        assembler: SnapshotAssembler | None = None
        async for record in _read(log, topic, start, end):
            chunk = _synthetic(record)
            if not isinstance(chunk, SnapshotChunk) or chunk.period != period:
                continue
            if assembler is None:
                if chunk.first:
                    return None
                assembler = SnapshotAssembler(name, period, chunk.total)
            if assembler.add(chunk, keep=True):
                return assembler, Offset(record.offset + 1)
        return None

    return await _backwards(log, topic, whole)


def _synthetic(record: Record) -> object:
    try:
        return decode_synthetic(record.value)
    except Malformed as malformed:
        raise VerificationFailed(f"a record of a synthetic topic is malformed: {malformed.reason}") from None


async def _backwards(
    log: ReadableLog, topic: str, search: Callable[[Offset, Offset], Awaitable[Found | None]]
) -> Found | None:
    """What `search` finds in ever longer ends of a topic; None if it finds nothing in the whole topic."""
    if await log.start_offset(topic, 0) > 0:
        raise VerificationFailed(str(TopicLost(topic, "its first records are gone; it must be kept forever")))
    end, step = await log.last_stable_offset(topic, 0), FIRST_STEP
    while True:
        start = Offset(max(end - step, 0))
        found = await search(start, end)
        if found is not None or start == 0:
            return found
        step *= 4


async def _read(
    log: ReadableLog, topic: str, start: Offset, end: Offset, *, max_records: int = 10_000
) -> AsyncGenerator[Record, None]:
    """The committed records of a topic from offset `start` to before `end`."""
    reader = await log.reader(topic, 0, start)
    try:
        while reader.position < end:
            for record in await reader.read(max_records=max_records):
                if record.offset < end:
                    yield record
    finally:
        await reader.close()
