"""Follows the public topics for the status page: reads them, verifies them, and signals changes.

`PublicTopics` gives access to the public topics of a study and to no others. The status page reads the log only through it.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace

from streamproc.client.public_reader import PublicReader
from streamproc.errors import InvalidInput, LogError, VerificationFailed
from streamproc.log.port import Log, Offset, Reader
from streamproc.log.retry import Backoff
from streamproc.panel.series import History
from streamproc.privacy.types import Period
from streamproc.protocol.columns import DecodedColumn
from streamproc.protocol.ledger_verifier import VerifiedLedger
from streamproc.protocol.release_audit import ReleaseAudit
from streamproc.protocol.topics import Topics
from streamproc.service.logging_setup import event
from streamproc.study import Study

READ_BATCH = 4
"""Maximum records per read of `pieces`. A chunk of a column has half a megabyte."""


class PublicTopics:
    """Read access to the public topics of a log. Any other topic raises PermissionError."""

    def __init__(self, log: Log, study: Study) -> None:
        self._log = log
        accesses = Topics(study.name).access([release.name for release in study.releases])
        self._public_topics = frozenset(access.topic for access in accesses if access.public)

    async def topics(self) -> Mapping[str, int]:
        """Return the public topics that exist, with their numbers of partitions."""
        return {topic: count for topic, count in (await self._log.topics()).items() if topic in self._public_topics}

    async def start_offset(self, topic: str, partition: int) -> Offset:
        """Return the first offset of a partition."""
        return await self._log.start_offset(self._check_public(topic), partition)

    async def high_watermark(self, topic: str, partition: int) -> Offset:
        """Return the high watermark of a partition."""
        return await self._log.high_watermark(self._check_public(topic), partition)

    async def last_stable_offset(self, topic: str, partition: int) -> Offset:
        """Return the last stable offset of a partition."""
        return await self._log.last_stable_offset(self._check_public(topic), partition)

    async def reader(self, topic: str, partition: int, offset: Offset) -> Reader:
        """Return a reader of committed records only: a draw that is not committed is not released."""
        return await self._log.reader(self._check_public(topic), partition, offset)

    async def pieces(self, topic: str, offset: Offset, max_bytes: int) -> AsyncIterator[tuple[Offset, bytes]]:
        """Yield committed records from `offset` to the topic's end, each with the offset after it.

        Stops once the records have `max_bytes` bytes, but yields at least one record if there is one.
        """
        end = await self.last_stable_offset(topic, 0)
        reader = await self.reader(topic, 0, min(offset, end))
        size = 0
        try:
            while reader.position < end and size < max_bytes:
                for record in await reader.read(max_records=READ_BATCH):
                    if record.offset >= end or size >= max_bytes:
                        return
                    value = record.value or b""
                    size += len(value)
                    yield Offset(record.offset + 1), value
        finally:
            await reader.close()

    def _check_public(self, topic: str) -> str:
        if topic not in self._public_topics:
            raise PermissionError(f"topic {topic} is not public")
        return topic


RETRY_PAUSE_S, MAX_RETRY_PAUSE_S = 2.0, 60.0
"""Seconds until the topics are read again from their start after a failure: the first pause and the longest."""
CATCH_UP_TIMEOUT_S = 20.0
"""Seconds to wait for the next column that the ledger lists. If a column is lost, the others are shown after that."""

LEDGER_SHRANK = "the ledger is shorter than it was: what is shown here is not in it any more"


@dataclass(frozen=True, eq=False)
class PageSnapshot:
    """Everything public at one moment, as an immutable value."""

    ledger: VerifiedLedger | None = None
    """The verified ledger; None before the study began."""
    histories: Mapping[str, History] = field(default_factory=dict)
    """The counts of each release that has a column. A column may arrive a moment after its ledger record."""
    problem: str | None = None
    """Why the topics do not verify; None if everything that was read does."""
    following: bool = False
    """Whether the topics are followed: False while the broker is away, and until everything there was read once."""

    @property
    def period(self) -> Period:
        """The last period in the ledger; 0 before the first."""
        return Period(0) if self.ledger is None else self.ledger.period


class Follower:
    """Keeps `snapshot` up to date. A failure to read is logged and retried: it must not end a process that runs a role."""

    def __init__(
        self,
        study: Study,
        threads: Executor,
        on_change: Callable[[PageSnapshot], None] = lambda snapshot: None,
        on_outage: Callable[[LogError], None] = lambda problem: None,
    ) -> None:
        """`on_change` is called with every new snapshot, `on_outage` when the broker does not answer or denies access.

        An exception from `on_outage` ends `follow`.
        """
        self._study = study
        self._threads = threads
        self._on_change = on_change
        self._on_outage = on_outage
        self.snapshot = PageSnapshot()
        self.version = 0
        """Increases with every change of `snapshot`."""
        self.topics: PublicTopics | None = None
        """The public topics; None until the process has reached its broker."""
        self._changed = asyncio.Event()

    async def wait_for_change(self, seen: int, timeout: float) -> int:
        """Return the version as soon as it differs from `seen`, or after `timeout` seconds."""
        if self.version == seen:
            try:
                async with asyncio.timeout(timeout):
                    await self._changed.wait()
            except TimeoutError:
                pass
        return self.version

    async def follow(self, log: Log) -> None:
        """Follow the topics until the last column of the last period was read. Retries after every failure."""
        self.topics, backoff = PublicTopics(log, self._study), Backoff(RETRY_PAUSE_S, MAX_RETRY_PAUSE_S)
        while True:
            before, verified = self.version, True
            session = ReadSession(self.topics, self._study, self._threads)
            try:
                return await self._follow(session)
            except VerificationFailed as failed:
                verified = False
                self._show(replace(self._latest(session), problem=str(failed), following=True))
            except InvalidInput as error:
                verified = False  # the ledger of another study, of which nothing is shown
                self._show(replace(self.snapshot, problem=str(error), following=True))
            except LogError as problem:
                self._show(replace(self.snapshot, following=False))
                self._on_outage(problem)
            except Exception as unexpected:
                self._show(replace(self.snapshot, following=False))
                event(f"status page: {type(unexpected).__name__}, reading again", logging.ERROR)
            # Topics that do not verify will not verify next time. A broker that has answered for a while may be back soon.
            if verified and self.version > before + 1:
                backoff.reset()
            await asyncio.sleep(backoff.next_pause())

    async def _follow(self, session: ReadSession) -> None:
        try:
            await session.catch_up()
            self._show_if_changed(session)
            while not session.is_over:
                if await session.advance(timeout=0.5):
                    self._show_if_changed(session)
        finally:
            await session.close()

    def _show_if_changed(self, session: ReadSession) -> None:
        latest = self._latest(session)
        if latest is not self.snapshot:
            self._show(latest)

    def _latest(self, session: ReadSession) -> PageSnapshot:
        """Return a snapshot of what was read. If it reaches less far than the current one, only the flags change."""
        histories, old = session.histories(), self.snapshot.histories
        reached = all(name in histories and histories[name].period >= old[name].period for name in old)
        if not reached or session.period < self.snapshot.period:
            kept = replace(
                self.snapshot, problem=LEDGER_SHRANK if session.is_complete else self.snapshot.problem, following=True
            )
            same = (kept.problem, kept.following) == (self.snapshot.problem, self.snapshot.following)
            return self.snapshot if same else kept
        # Until every column that the ledger lists is read, the problem found before may still come.
        problem = None if session.is_complete else self.snapshot.problem
        return PageSnapshot(session.ledger, histories, problem, following=True)

    def _show(self, snapshot: PageSnapshot) -> None:
        if snapshot.problem is not None and snapshot.problem != self.snapshot.problem:  # once, not after every retry
            event(f"status page: {snapshot.problem}", logging.WARNING)
        self.snapshot, self.version = snapshot, self.version + 1
        self._on_change(snapshot)
        self._changed.set()
        self._changed = asyncio.Event()


class ReadSession:
    """One attempt to read and verify the public topics, from their start."""

    def __init__(self, topics: PublicTopics, study: Study, threads: Executor) -> None:
        self._public = PublicReader(topics, study)
        self._study = study
        self._threads = threads
        self._audits: dict[str, ReleaseAudit] = {}
        self._stopped = threading.Event()
        """Set by `close`, so that a check in a thread stops early: at exit the process waits for its threads."""

    @property
    def ledger(self) -> VerifiedLedger | None:
        """The verified ledger so far; None before the study began."""
        return self._public.ledger

    @property
    def period(self) -> Period:
        """The last period in the ledger; 0 before the first."""
        return self._public.period

    def histories(self) -> dict[str, History]:
        """Return the counts of each release that has a column."""
        return {name: audit.builder.history() for name, audit in self._audits.items()}

    @property
    def is_complete(self) -> bool:
        """Whether every column that the ledger lists was read."""
        return not self._incomplete()

    @property
    def is_over(self) -> bool:
        """Whether the last column of the last period was read."""
        return self._public.is_over and self.is_complete

    async def catch_up(self) -> None:
        """Read everything that is in the topics now, so that the first snapshot is not out of date.

        Stops waiting for a column that the ledger lists after CATCH_UP_TIMEOUT_S seconds without a new one.
        """
        await self.advance(timeout=0.5)
        await self._public.catch_up_ledger()
        now = asyncio.get_running_loop().time
        deadline, before = now() + CATCH_UP_TIMEOUT_S, self._incomplete()
        # At least once more, because `catch_up_ledger` does not check the ledger against the study.
        while await self.advance(timeout=0.0) or not self.is_complete:
            incomplete = self._incomplete()
            if any(read > before.get(name, read) for name, read in incomplete.items()):
                deadline = now() + CATCH_UP_TIMEOUT_S
            elif now() > deadline:
                return
            before = incomplete
            await asyncio.sleep(0.05)

    def _incomplete(self) -> dict[str, int]:
        """Return the number of columns read of each release of which the ledger lists more."""
        histories, ledger = self.histories(), self.ledger
        read = {
            release.name: histories[release.name].period if release.name in histories else 0
            for release in self._study.releases
        }
        return (
            {}
            if ledger is None
            else {name: count for name, count in read.items() if count < len(ledger.column_digests(name))}
        )

    async def advance(self, *, timeout: float) -> bool:
        """Read and check new records, waiting up to `timeout` seconds for the ledger to grow. Returns whether any came."""
        before = self.ledger
        await self._public.poll(timeout=timeout)
        new_columns = {release.name: self._public.take_columns(release.name) for release in self._study.releases}
        grown = self.ledger is not before
        if grown or any(new_columns.values()):
            await asyncio.get_running_loop().run_in_executor(self._threads, self._check, new_columns)
        return grown or any(new_columns.values())

    def _check(self, new_columns: Mapping[str, Sequence[DecodedColumn]]) -> None:
        """Check the spending and the counts of the new columns. Raises VerificationFailed with the reason."""
        ledger = self.ledger
        if ledger is None:
            return
        for name, columns in new_columns.items():
            if columns and name not in self._audits:
                audit = self._public.new_audit(name)
                assert audit is not None, "a column comes after its contract"
                self._audits[name] = audit
            for column in columns:
                if self._stopped.is_set():
                    return
                self._audits[name].add_column(column.symbols, ledger)
        for audit in self._audits.values():
            audit.check_spending(ledger, self._stopped.is_set)

    async def close(self) -> None:
        """Stop reading. A check that is running ends after its current period."""
        self._stopped.set()
        await self._public.close()
