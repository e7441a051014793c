"""Reader of the public topics of a study: tails the ledger and the columns, and checks them against each other.

The functions at the end turn the ledger into values that JSON can hold, the same in the commands' output and on the page.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from streamproc.client.newest_summary import ReleaseStart, find_newest_summary, read_release_at
from streamproc.errors import InvalidInput, Malformed, StudyError, TopicLost, VerificationFailed
from streamproc.log.topic_tail import ReadableLog, TopicTail
from streamproc.panel import Panel
from streamproc.privacy.types import Period
from streamproc.privacy.zcdp import epsilon_of_rho
from streamproc.protocol.columns import (
    ColumnAssembler,
    ColumnChunk,
    ContractRecord,
    DecodedColumn,
    LongContract,
    MatrixChunk,
    decode_synthetic,
)
from streamproc.protocol.ledger import PeriodRecord, require_same_study
from streamproc.protocol.ledger_verifier import LedgerVerifier, VerifiedLedger
from streamproc.protocol.release_audit import ReleaseAudit, check_due_columns, check_same_people
from streamproc.protocol.snapshots import SnapshotChunk
from streamproc.protocol.topics import Topics
from streamproc.releases.contracts import follows_from_study
from streamproc.releases.kind import Contract
from streamproc.releases.replace_one import ReplaceOneCosts
from streamproc.study import Study

OFFLOAD_BYTES = 65_536
"""A record of more bytes than this is decoded and digested in a thread, so that the event loop stays responsive."""


async def _poll(topic: TopicTail, *, timeout: float) -> list[bytes | None]:
    """The values that were appended to a public topic. Raises VerificationFailed if its first records are gone."""
    try:
        return [record.value for record in await topic.poll(timeout=timeout)]
    except TopicLost as lost:
        raise VerificationFailed(str(lost)) from None


@dataclass
class ReleaseTail:
    """The topic of one release, and what was read from it so far."""

    topic: TopicTail
    contract: ContractRecord | None = None
    begun: LongContract | None = None
    """A contract whose matrices are not complete."""
    assembler: ColumnAssembler | None = None
    columns: list[DecodedColumn] = field(default_factory=list)
    """The complete columns. The last ones may not be in the ledger yet."""
    taken: int = 0
    """Number of columns before these, which `take_columns` has returned and dropped, or which a summary replaces."""

    @classmethod
    def start_at(cls, topic: TopicTail, start: ReleaseStart) -> ReleaseTail:
        """A topic that is read from a snapshot on."""
        assembler = ColumnAssembler(start.contract, start.panel)
        return cls(topic, start.contract, assembler=assembler, taken=int(start.panel.period))

    @property
    def complete(self) -> int:
        """Number of columns of which every chunk was read."""
        return self.taken + len(self.columns)

    async def poll(self, *, timeout: float) -> None:
        """Read what was appended, waiting up to `timeout` seconds for a record."""
        for value in await _poll(self.topic, timeout=timeout):
            if value is not None and len(value) > OFFLOAD_BYTES:
                await asyncio.to_thread(self._add, value)
            else:
                self._add(value)

    def _add(self, value: bytes | None) -> None:
        try:
            record = decode_synthetic(value)
        except Malformed as malformed:
            raise VerificationFailed(f"a record of a synthetic topic is malformed: {malformed.reason}") from None
        if isinstance(record, LongContract) and self.begun is None and self.contract is None:
            self.begun = record
        elif isinstance(record, MatrixChunk) and self.begun is not None:
            self._add_matrices(self.begun, record)
        elif isinstance(record, ContractRecord) and self.begun is None and self.contract is None:
            self._start(record)
        elif not isinstance(record, ColumnChunk | SnapshotChunk):
            raise VerificationFailed(f"release {record.release}: a second contract, or matrices without one")
        elif self.assembler is None:
            raise VerificationFailed(f"release {record.release}: a column before its contract")
        elif (column := self.assembler.add(record)) is not None:
            self.columns.append(column)

    def _add_matrices(self, begun: LongContract, chunk: MatrixChunk) -> None:
        try:
            complete = begun.add(chunk)
        except Malformed as malformed:
            raise VerificationFailed(f"release {begun.release}: its contract is malformed: {malformed.reason}") from None
        if complete is not None:
            self.begun = None
            self._start(complete)

    def _start(self, record: ContractRecord) -> None:
        self.contract, self.assembler = record, ColumnAssembler(record)


class PublicReader:
    """Tails the ledger and the synthetic topics. It only reads, and needs no running role."""

    def __init__(self, log: ReadableLog, study: Study, *, only: str | None = None) -> None:
        """`only` is the release to read beside the ledger; None for all releases."""
        topics = Topics(study.name)
        self.study = study
        self._ledger = TopicTail(log, topics.ledger)
        self._verifier = LedgerVerifier()
        self.ledger: VerifiedLedger | None = None
        """The verified ledger as far as it was read; None before the study has begun."""
        self._checked: VerifiedLedger | None = None
        """The ledger that `check_ledger` last compared with the releases of the study."""
        names = [release.name for release in study.releases] if only is None else [only]
        self._releases = {name: ReleaseTail(TopicTail(log, topics.synthetic(name))) for name in names}
        self.trusted = Period(0)
        """The period of the summary with which the reader started. It trusts that for everything before; 0 if it did not."""
        self._starts: dict[str, ReleaseStart] = {}
        """Each release at that summary."""
        self._lost_before = 0
        """Number of lost draws before that summary."""

    @classmethod
    async def start_at_summary(cls, log: ReadableLog, study: Study, *, only: str | None = None) -> PublicReader:
        """A reader of an open study that starts with its newest summary, so that it need not read all periods.

        It trusts the summary: `trusted` is its period, and nothing up to that is checked. Columns, audits and the records of
        the ledger begin after it. If there is no summary, the reader starts at the first record. Raises VerificationFailed.
        """
        public, topics = cls(log, study, only=only), Topics(study.name)
        newest = await find_newest_summary(log, topics.ledger) if study.is_open else None
        if newest is None:
            return public
        public._verifier = LedgerVerifier.start_at(newest.study, newest.value)
        public.ledger = public._verifier.verified()
        assert public.ledger is not None
        require_same_study(public.ledger.study, study, None)
        public._ledger = TopicTail(log, topics.ledger, newest.next)
        public.trusted, public._lost_before = newest.record.period, newest.summary.abandoned
        for name in public._releases:
            start = await read_release_at(log, topics.synthetic(name), name, newest)
            tail = TopicTail(log, topics.synthetic(name), start.next)
            public._starts[name], public._releases[name] = start, ReleaseTail.start_at(tail, start)
        return public

    @classmethod
    async def read_all(cls, log: ReadableLog, study: Study) -> PublicReader:
        """Read all topics to their current end. The reader returned is closed, and keeps what it has read."""
        public = cls(log, study)
        try:
            await public.catch_up()
            return public
        finally:
            await public.close()

    async def poll(self, *, timeout: float) -> None:
        """Read what was appended to the topics, waiting up to `timeout` seconds for the ledger to grow.

        Raises InvalidInput or VerificationFailed, as `check_ledger` does.
        """
        await self.poll_ledger(timeout=timeout)
        self.check_ledger()
        for release in self._releases.values():
            await release.poll(timeout=0.0)

    def check_ledger(self) -> None:
        """Raise InvalidInput if the ledger is not that of the study, VerificationFailed if it lacks columns that are due."""
        if self.ledger is not None:
            require_same_study(self.ledger.study, self.study, None)
            if self.ledger is not self._checked:
                check_due_columns(self.study.releases, self.ledger)
                self._checked = self.ledger

    async def poll_ledger(self, *, timeout: float) -> None:
        """Read what was appended to the ledger only, waiting up to `timeout` seconds for a record."""
        values = await _poll(self._ledger, timeout=timeout)
        for value in values:
            self._verifier.add(value)
        if values:
            self.ledger = self._verifier.verified()

    async def catch_up_ledger(self) -> None:
        """Read the ledger to its current end."""
        while not await self._ledger.is_caught_up():
            await self.poll_ledger(timeout=0.5)

    async def catch_up(self) -> None:
        """Read all topics to their current end.

        A transaction becomes visible in one topic after the other, so a column can be readable before its ledger record or
        after it. Then this waits for the other one, which already lies below the high watermark of its topic.
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

    @property
    def is_over(self) -> bool:
        """Whether the last period is released, by the horizon or by a record that is marked as the last."""
        return self.ledger is not None and self.ledger.is_over

    @property
    def n(self) -> int | None:
        """Number of real people, which the contracts state; None before the first column, and in an open study."""
        return next((contract.n for contract in self.contracts().values() if not contract.is_open), None)

    @property
    def insecure(self) -> bool | None:
        """Whether the study's noise came from a seed; None before the study has begun."""
        return None if self.ledger is None else self.ledger.study.insecure

    def contracts(self) -> Mapping[str, Contract]:
        """The contract of each release that has a column."""
        return {n: r.contract.contract for n, r in self._releases.items() if r.contract is not None}

    def n_star(self, name: str) -> int | None:
        """Number of synthetic people of a release, in an open study also those who have left.

        None before its first column.
        """
        record = self._releases[name].contract
        if record is None or not record.contract.is_open:
            return None if record is None else record.n_star
        return self.ledger.periods[-1].releases[name].n_star if self.ledger and self.ledger.periods else None

    def columns(self, name: str) -> Sequence[DecodedColumn]:
        """The columns of a release that are in the ledger and were not taken, in order.

        Raises VerificationFailed if the digest of a column is not that of the ledger.
        """
        ledger, release = self.ledger, self._releases[name]
        digests = () if ledger is None else ledger.column_digests(name)[release.taken - (ledger.first - 1) :]
        columns = release.columns[: len(digests)]
        for column, digest in zip(columns, digests, strict=False):
            if column.digest != digest:
                raise VerificationFailed(f"release {name}, period {column.period}: the column is not what the ledger says")
            if column.snapshot is not None and ledger is not None:
                summary = ledger.record(column.period).summary
                if summary is None or summary.releases[name].snapshot != column.snapshot:
                    raise VerificationFailed(
                        f"release {name}, period {column.period}: the snapshot is not what the ledger says"
                    )
        return columns

    def take_columns(self, name: str) -> Sequence[DecodedColumn]:
        """Return `columns` and drop them, so that the memory used does not grow with the number of periods."""
        columns, release = self.columns(name), self._releases[name]
        release.columns = release.columns[len(columns) :]
        release.taken += len(columns)
        return columns

    def panel(self, name: str) -> Panel | None:
        """The release as a panel with its measurements; None before its first column.

        A panel needs every column. Raises InvalidInput for a reader that has started at a summary.
        """
        if self.trusted:
            raise InvalidInput(f"release {name}: a panel needs every column, and this reader started after {self.trusted}")
        columns, ledger = self.columns(name), self.ledger
        if not columns or ledger is None:
            return None
        contract = self.contracts()[name]
        measurements = tuple(
            contract.split_measurements(ledger.measurements[name, Period(t)], Period(t)) for t in range(1, len(columns) + 1)
        )
        return Panel(contract, tuple(column.symbols for column in columns), measurements)

    def check_complete(self) -> None:
        """Raise VerificationFailed unless the topics hold exactly what the ledger lists.

        Every column must be in its topic, under the contract that the study implies, and nothing else; and the spending and
        the counts that `ReleaseAudit` recomputes must be those of the ledger.
        """
        for name, release in self._releases.items():
            listed, found = self._listed(name), release.taken + len(self.columns(name))
            if found < listed:
                raise VerificationFailed(f"release {name}: the ledger has {listed} columns, its topic {found}")
        over = self.ledger is not None and self.is_over and self.ledger.intents
        if over or self._verifier.has_begun:
            raise VerificationFailed(f"the ledger goes on after its last record of a period, {self.period}")
        surplus = self._surplus()
        if surplus is not None:
            listed = self._listed(surplus)
            raise VerificationFailed(f"release {surplus}: its topic holds more than the {listed} columns of the ledger")
        for name in self._releases:
            self._audit(name)

    def _audit(self, name: str) -> None:
        ledger, audit = self.ledger, self.new_audit(name)
        if ledger is not None and audit is not None:
            audit.check_spending(ledger)
            for column in self.columns(name):
                audit.add_column(column.symbols, ledger)

    def new_audit(self, name: str) -> ReleaseAudit | None:
        """An audit of a release that begins at its first period, or after the summary; None before its contract was read.

        Raises VerificationFailed if the contract is not the one that the study implies.
        """
        record = self._releases[name].contract
        if record is None:
            return None
        self._check_contract(record)
        start = self._starts.get(name)
        return ReleaseAudit(record, None if start is None else start.panel, self._lost_before)

    def _check_contract(self, record: ContractRecord) -> None:
        found, insecure = record.contract, self.ledger is not None and self.ledger.study.insecure
        try:
            implied = follows_from_study(found, self.study, insecure=insecure)
        except StudyError:
            raise VerificationFailed(
                f"release {found.name}: the study cannot have as many people as its contract states"
            ) from None
        # The contract may be readable before the ledger record that states its digest.
        is_stated = self.ledger is not None and found.name in self.ledger.contracts
        if self.ledger is not None and is_stated and self.ledger.contracts[found.name] != record.digest():
            raise VerificationFailed(f"release {found.name}: its contract is not the one that the ledger states")
        if not implied:
            raise VerificationFailed(f"release {found.name}: its contract is not what the study implies")
        check_same_people({name: r.contract for name, r in self._releases.items() if r.contract is not None})

    def _listed(self, name: str) -> int:
        return self.ledger.column_count(name) if self.ledger else 0

    def _agrees(self) -> bool:
        """Whether exactly the columns that the ledger lists were read."""
        complete = all(release.complete >= self._listed(name) for name, release in self._releases.items())
        return complete and self._surplus() is None

    def _surplus(self) -> str | None:
        """The name of a release whose topic holds more than the ledger lists; None if there is none."""
        for name, release in self._releases.items():
            if release.complete > self._listed(name) or (release.assembler and release.assembler.has_begun):
                return name
        return None


def redrawn_periods(records: Sequence[PeriodRecord]) -> list[Period]:
    """The periods that were drawn again after an accepted loss, each as often as that happened."""
    return [record.period for record in records for _ in record.abandoned]


def period_to_dict(
    record: PeriodRecord, costs: ReplaceOneCosts | None = None, redrawn: Sequence[Period] = ()
) -> dict[str, Any]:
    """The record of a period without its measurements; digests are in hexadecimal.

    For a zero-out study `costs` adds the cost of the same noise under replace-one, if that is quick to compute. `redrawn`
    are the periods of the ledger that were drawn again.
    """
    found: dict[str, Any] = {
        "period": record.period,
        "rho_spent": record.rho_spent,
        "previous": record.previous.hex(),
        "abandoned": [digest.hex() for digest in record.abandoned],
        "salt": None if record.salt is None else record.salt.hex(),
        "releases": {
            name: {
                "rho": entry.rho,
                "rho_spent": entry.rho_spent,
                "clamped": entry.clamped,
                "n_star": entry.n_star,
                "columns": {str(period): digest.hex() for period, digest in entry.columns},
            }
            for name, entry in record.releases.items()
        },
    }
    if costs is not None and costs.every_period_is_quick:
        found["rho_spent_replace_one"] = costs.of_study(record.period, redrawn)
        for name, entry in found["releases"].items():
            entry["rho_spent_replace_one"] = costs.of_release(name, record.period, redrawn)
    return found


def add_replace_one(
    found: dict[str, Any],
    releases: Mapping[str, dict[str, Any]],
    study: Study,
    ledger: VerifiedLedger | None,
    costs: ReplaceOneCosts,
) -> None:
    """Add the cost of the same noise under replace-one to the status of a zero-out study and to each of its releases."""
    records = ledger.periods if ledger else ()
    released, redrawn, delta = len(records), redrawn_periods(records), study.privacy.delta
    planned, spent = costs.of_study(study.last_period), costs.of_study(released, redrawn)
    figures = {
        "rho": planned,
        "epsilon": epsilon_of_rho(planned, delta),
        "rho_spent": spent,
        "epsilon_spent": epsilon_of_rho(spent, delta),
    }
    found |= {f"{key}_replace_one": figure for key, figure in figures.items() if key in found}
    for name, release in releases.items():
        release["rho_replace_one"] = costs.of_release(name, study.last_period)
        release["rho_spent_replace_one"] = costs.of_release(name, released, redrawn)
