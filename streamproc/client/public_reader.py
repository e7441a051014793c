"""What everybody may see of a study: its ledger and its columns, followed and checked against each other."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from streamproc.errors import InvalidInput, Malformed, NoSuchTopic, StudyError, VerificationFailed
from streamproc.log.port import Offset, Reader
from streamproc.panel import Panel
from streamproc.privacy.types import Period
from streamproc.protocol.columns import ColumnAssembler, ContractRecord, DecodedColumn, decode_synthetic
from streamproc.protocol.ledger import StudyRecord
from streamproc.protocol.ledger_verifier import LedgerVerifier, VerifiedLedger
from streamproc.protocol.release_audit import ReleaseAudit, check_due_columns, check_same_people
from streamproc.protocol.topics import Topics
from streamproc.releases.contracts import stated_contracts
from streamproc.releases.kind import Contract
from streamproc.study import Study
from streamproc.study.fingerprint import public_values

OFFLOAD_BYTES = 65_536
"""Bytes of a record above which unpacking and digesting it is left to a thread."""


class ReadableLog(Protocol):
    """What following takes of a log: a reader of public topics needs no more."""

    async def topics(self) -> Mapping[str, int]: ...
    async def start_offset(self, topic: str, partition: int) -> Offset: ...
    async def high_watermark(self, topic: str, partition: int) -> Offset: ...
    async def last_stable_offset(self, topic: str, partition: int) -> Offset: ...
    async def reader(self, topic: str, partition: int, offset: Offset) -> Reader: ...


class TopicTail:
    """A topic of one partition that may not exist yet, read from its start."""

    def __init__(self, log: ReadableLog, topic: str) -> None:
        self._log = log
        self._topic = topic
        self._reader: Reader | None = None

    async def poll(self, *, timeout: float) -> Sequence[bytes | None]:
        """The values that have come, waiting up to `timeout` seconds for one; none if the topic is not there."""
        if self._reader is None:
            start = await self._start()
            if start is None:
                await asyncio.sleep(timeout)
                return ()
            if start > 0:
                raise VerificationFailed(f"topic {self._topic}: its first records are gone")
            self._reader = await self._log.reader(self._topic, 0, Offset(0))
        return [record.value for record in await self._reader.read(timeout=timeout)]

    async def _start(self) -> Offset | None:
        """Where the topic starts; None if it is not there. Asked by name: of a list, what is denied is missing too."""
        try:
            return await self._log.start_offset(self._topic, 0)
        except NoSuchTopic:
            return None

    async def is_caught_up(self) -> bool:
        """Whether everything that is there now has been read."""
        if self._reader is None:
            return await self._start() is None
        return self._reader.position >= await self._log.last_stable_offset(self._topic, 0)

    async def is_at_end(self) -> bool:
        """Whether everything has been read, and no transaction is open on it."""
        if self._reader is None:
            return await self._start() is None
        return self._reader.position >= await self._log.high_watermark(self._topic, 0)

    async def close(self) -> None:
        """Stop reading."""
        if self._reader is not None:
            await self._reader.close()


@dataclass
class ReleaseTail:
    """One release's topic as far as it was read."""

    topic: TopicTail
    contract: ContractRecord | None = None
    assembler: ColumnAssembler | None = None
    columns: list[DecodedColumn] = field(default_factory=list)
    """Whole columns; those that the ledger does not know yet wait at the end."""
    taken: int = 0
    """How many columns before these were handed out for good."""

    @property
    def whole(self) -> int:
        """Columns that were read to their end."""
        return self.taken + len(self.columns)

    async def poll(self, *, timeout: float) -> None:
        """Take in what has come."""
        for value in await self.topic.poll(timeout=timeout):
            if value is not None and len(value) > OFFLOAD_BYTES:
                await asyncio.to_thread(self._take, value)
            else:
                self._take(value)

    def _take(self, value: bytes | None) -> None:
        try:
            record = decode_synthetic(value)
        except Malformed as malformed:
            raise VerificationFailed(f"a record of a synthetic topic is malformed: {malformed.reason}") from None
        if isinstance(record, ContractRecord):
            if self.contract is not None:
                raise VerificationFailed(f"release {record.release}: a second contract")
            self.contract, self.assembler = record, ColumnAssembler(record)
        elif self.assembler is None:
            raise VerificationFailed(f"release {record.release}: a column before its contract")
        elif (column := self.assembler.add(record)) is not None:
            self.columns.append(column)


class PublicReader:
    """Follows the ledger and the synthetic topics. Reads only; needs no running process."""

    def __init__(self, log: ReadableLog, study: Study, *, only: str | None = None) -> None:
        """`only` is the release to follow beside the ledger; None for all of them."""
        topics = Topics(study.name)
        self.study = study
        self._ledger = TopicTail(log, topics.ledger)
        self._walker = LedgerVerifier()
        self.ledger: VerifiedLedger | None = None
        """The ledger so far, its chain checked; None before the study began."""
        self._checked: VerifiedLedger | None = None
        """The one that was last compared with the releases of the study."""
        names = [release.name for release in study.releases] if only is None else [only]
        self._releases = {name: ReleaseTail(TopicTail(log, topics.synthetic(name))) for name in names}

    async def poll(self, *, timeout: float) -> None:
        """Take in what has come, waiting up to `timeout` seconds for the ledger to grow."""
        await self.poll_ledger(timeout=timeout)
        self.check_ledger()
        for release in self._releases.values():
            await release.poll(timeout=0.0)

    def check_ledger(self) -> None:
        """Check that the ledger is that of the study (InvalidInput) and has its columns (VerificationFailed)."""
        if self.ledger is not None:
            self._check_study(self.ledger.study)
            if self.ledger is not self._checked:
                check_due_columns(self.study.releases, self.ledger)
                self._checked = self.ledger

    def _check_study(self, begun: StudyRecord) -> None:
        ours = public_values(self.study)
        different = [name for name, value in ours.items() if begun.study.get(name) != value]
        if different:
            named = ", ".join(different)
            raise InvalidInput(f"study {self.study.name}: its ledger was begun with other values; these differ: {named}")

    async def poll_ledger(self, *, timeout: float) -> None:
        """Take in what has come of the ledger alone."""
        news = await self._ledger.poll(timeout=timeout)
        for value in news:
            self._walker.add(value)
        if news:
            self.ledger = self._walker.verified()

    async def catch_up_ledger(self) -> None:
        """Take in all of the ledger that is there now."""
        while not await self._ledger.is_caught_up():
            await self.poll_ledger(timeout=0.5)

    async def catch_up(self) -> None:
        """Take in everything that is there now.

        A transaction ends in one topic after the other, so a column may be seen before its ledger record, or that before the
        column: the other is awaited. It lies below where its topic ends once the one is seen.
        """
        while True:
            await self.poll(timeout=0.0)
            topics = [self._ledger, *(release.topic for release in self._releases.values())]
            if all([await topic.is_caught_up() for topic in topics]):
                if self._agrees() or all([await topic.is_at_end() for topic in topics]):
                    return
                await asyncio.sleep(0.05)

    async def close(self) -> None:
        """Stop reading."""
        await self._ledger.close()
        for release in self._releases.values():
            await release.topic.close()

    @property
    def period(self) -> Period:
        """The last period released."""
        return Period(0) if self.ledger is None else self.ledger.period

    def contracts(self) -> Mapping[str, Contract]:
        """Of the releases that have a column."""
        return {n: r.contract.contract for n, r in self._releases.items() if r.contract is not None}

    def n_star(self, name: str) -> int | None:
        """Synthetic people of a release; None before its first column."""
        contract = self._releases[name].contract
        return None if contract is None else contract.n_star

    def columns(self, name: str) -> Sequence[DecodedColumn]:
        """The columns of a release that are in the ledger and were not taken, each checked against its digest there."""
        ledger, release = self.ledger, self._releases[name]
        digests = () if ledger is None else ledger.column_digests(name)[release.taken :]
        columns = release.columns[: len(digests)]
        for column, digest in zip(columns, digests, strict=False):
            if column.digest != digest:
                raise VerificationFailed(f"release {name}, period {column.period}: the column is not what the ledger says")
        return columns

    def take_columns(self, name: str) -> Sequence[DecodedColumn]:
        """The same, and forget them: for one who follows a long study and keeps only what its columns add up to."""
        columns, release = self.columns(name), self._releases[name]
        release.columns = release.columns[len(columns) :]
        release.taken += len(columns)
        return columns

    def panel(self, name: str) -> Panel | None:
        """The release as a panel, with its measurements; None before its first column."""
        columns, ledger = self.columns(name), self.ledger
        if not columns or ledger is None:
            return None
        contract = self.contracts()[name]
        measurements = tuple(
            contract.split_measurements(ledger.measurements[name, Period(t)], Period(t)) for t in range(1, len(columns) + 1)
        )
        return Panel(contract, tuple(column.symbols for column in columns), measurements)

    def check_complete(self) -> None:
        """Everything the ledger promises is there, is what the study implies, and costs what the ledger says.

        Every column must be in its topic, under the contract that the study implies, and nothing else; and `ReleaseAudit`
        must find the spending and the counts that it recomputes. Raises VerificationFailed.
        """
        for name, release in self._releases.items():
            promised, found = self._promised(name), release.taken + len(self.columns(name))
            if found < promised:
                raise VerificationFailed(f"release {name}: the ledger has {promised} columns, its topic {found}")
        over = self.ledger is not None and self.period == self.study.horizon and self.ledger.intents
        if over or self._walker.has_begun:
            raise VerificationFailed(f"the ledger goes on after its last record of a period, {self.period}")
        surplus = self._surplus()
        if surplus is not None:
            known = self._promised(surplus)
            raise VerificationFailed(f"release {surplus}: its topic holds more than the {known} columns of the ledger")
        for name in self._releases:
            self._audit(name)

    def _audit(self, name: str) -> None:
        ledger, audit = self.ledger, self.new_audit(name)
        if ledger is not None and audit is not None:
            audit.check_spending(ledger)
            for column in self.columns(name):
                audit.add_column(column.symbols, ledger)

    def new_audit(self, name: str) -> ReleaseAudit | None:
        """An audit of a release from its first period on; None before its contract came, which is checked first."""
        record = self._releases[name].contract
        if record is None:
            return None
        self._check_contract(record)
        return ReleaseAudit(record)

    def _check_contract(self, record: ContractRecord) -> None:
        found, insecure = record.contract, self.ledger is not None and self.ledger.study.insecure
        try:
            implied = stated_contracts(self.study, found.n, insecure=insecure)[found.name]
        except StudyError:
            raise VerificationFailed(
                f"release {found.name}: the study cannot have as many people as its contract states"
            ) from None
        # Another machine's arithmetic may differ in the last place of what is no whole number.
        if not _nearly_equal(found.to_dict(), implied.to_dict()):
            raise VerificationFailed(f"release {found.name}: its contract is not what the study implies")
        check_same_people({name: r.contract for name, r in self._releases.items() if r.contract is not None})

    def _promised(self, name: str) -> int:
        return len(self.ledger.column_digests(name)) if self.ledger else 0

    def _agrees(self) -> bool:
        """Whether every column of the ledger has been read, and nothing else."""
        whole = all(release.whole >= self._promised(name) for name, release in self._releases.items())
        return whole and self._surplus() is None

    def _surplus(self) -> str | None:
        """A release of whose topic the ledger does not know everything."""
        for name, release in self._releases.items():
            if release.whole > self._promised(name) or (release.assembler and release.assembler.has_begun):
                return name
        return None


def _nearly_equal(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_nearly_equal, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_nearly_equal(one[key], other[key]) for key in one)
    return bool(one == other)
