"""Follows the public topics for the page, and says when there is something new to show."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace

from streamproc.client.public_reader import PublicReader
from streamproc.errors import InvalidInput, LogError, VerificationFailed
from streamproc.log.port import Log
from streamproc.panel.history import History
from streamproc.privacy.types import Period
from streamproc.protocol.columns import DecodedColumn
from streamproc.protocol.ledger_verifier import VerifiedLedger
from streamproc.protocol.release_audit import ReleaseAudit
from streamproc.service.logging_setup import event
from streamproc.status_page.public_topics import PublicTopics
from streamproc.study import Study

RETRY_PAUSE_S, MAX_RETRY_PAUSE_S = 2.0, 60.0
"""Seconds until the topics are read anew, from their start, after something went wrong: at first, and at last."""
LEDGER_SHRANK = "the ledger is shorter than it was: what is shown here is not in it any more"


@dataclass(frozen=True, eq=False)
class PageSnapshot:
    """What is public now, as one value."""

    ledger: VerifiedLedger | None = None
    """Its chain walked; None before the study began."""
    histories: Mapping[str, History] = field(default_factory=dict)
    """Of the releases that have a column; a column may come a moment after its ledger record."""
    problem: str | None = None
    """What does not hold in the topics; None while everything that was read does."""
    following: bool = False
    """Whether the topics are read: not while the broker is away, nor before all that is there was read once."""

    @property
    def period(self) -> Period:
        """The last one in the ledger."""
        return Period(0) if self.ledger is None else self.ledger.period


class Follower:
    """Keeps `shown` up to date. Nothing that goes wrong here ends the process: a page is not worth a study."""

    def __init__(
        self,
        study: Study,
        threads: Executor,
        tell: Callable[[PageSnapshot], None] = lambda shown: None,
        away: Callable[[LogError], None] = lambda problem: None,
    ) -> None:
        """`away` is called when the broker does not answer or denies something; what it raises ends `follow`."""
        self._study = study
        self._threads = threads
        self._tell = tell
        self._away = away
        self.shown = PageSnapshot()
        self.version = 0
        """Grows with every change of `shown`."""
        self.topics: PublicTopics | None = None
        """None until the process has reached its broker."""
        self._changed = asyncio.Event()

    async def news(self, seen: int, timeout: float) -> int:
        """The version, once it is another than `seen`, or after `timeout` seconds."""
        if self.version == seen:
            try:
                async with asyncio.timeout(timeout):
                    await self._changed.wait()
            except TimeoutError:
                pass
        return self.version

    async def follow(self, log: Log) -> None:
        """Until the last column of the last period is there."""
        self.topics, pause = PublicTopics(log, self._study), RETRY_PAUSE_S
        while True:
            before, holds = self.version, True
            reading = ReadSession(self.topics, self._study, self._threads)
            try:
                return await self._follow(reading)
            except VerificationFailed as failed:
                holds = False
                self._show(replace(self._latest(reading), problem=str(failed), following=True))
            except InvalidInput as other:
                holds = False  # it is another study's ledger: nothing of it is shown
                self._show(replace(self.shown, problem=str(other), following=True))
            except LogError as problem:
                self._show(replace(self.shown, following=False))
                self._away(problem)
            except Exception as unexpected:
                self._show(replace(self.shown, following=False))
                event(f"status page: {type(unexpected).__name__}, reading again", logging.ERROR)
            # What does not hold will not hold the next time; a broker that has answered for a while may be back at once.
            pause = RETRY_PAUSE_S if holds and self.version > before + 1 else min(2 * pause, MAX_RETRY_PAUSE_S)
            await asyncio.sleep(pause)

    async def _follow(self, reading: ReadSession) -> None:
        try:
            await reading.catch_up()
            self._offer(reading)
            while not reading.is_over:
                if await reading.go_on(timeout=0.5):
                    self._offer(reading)
        finally:
            await reading.close()

    def _offer(self, reading: ReadSession) -> None:
        latest = self._latest(reading)
        if latest is not self.shown:
            self._show(latest)

    def _latest(self, reading: ReadSession) -> PageSnapshot:
        """What was read, if it goes as far as what is shown; else the latter stays."""
        histories, old = reading.histories(), self.shown.histories
        reached = all(name in histories and histories[name].period >= old[name].period for name in old)
        if not reached or reading.period < self.shown.period:
            stays = replace(self.shown, problem=LEDGER_SHRANK if reading.is_whole else self.shown.problem, following=True)
            same = (stays.problem, stays.following) == (self.shown.problem, self.shown.following)
            return self.shown if same else stays
        # As long as a column that the ledger has is not read, what did not hold may still lie ahead.
        problem = None if reading.is_whole else self.shown.problem
        return PageSnapshot(reading.ledger, histories, problem, following=True)

    def _show(self, shown: PageSnapshot) -> None:
        if shown.problem is not None and shown.problem != self.shown.problem:  # once, not after every retry
            event(f"status page: {shown.problem}", logging.WARNING)
        self.shown, self.version = shown, self.version + 1
        self._tell(shown)
        self._changed.set()
        self._changed = asyncio.Event()


CATCH_UP_TIMEOUT_S = 20.0
"""Seconds for which the next column that the ledger has is awaited: if one was lost, what is there is worth showing."""


class ReadSession:
    """One time of reading, from the start of the topics on."""

    def __init__(self, topics: PublicTopics, study: Study, threads: Executor) -> None:
        self._public = PublicReader(topics, study)
        self._study = study
        self._threads = threads
        self._audits: dict[str, ReleaseAudit] = {}
        self._stopped = threading.Event()
        """Set when the result of a check is not wanted any more: the process waits for its threads when it ends."""

    @property
    def ledger(self) -> VerifiedLedger | None:
        """So far, its chain walked; None before the study began."""
        return self._public.ledger

    @property
    def period(self) -> Period:
        """The last one in the ledger."""
        return self._public.period

    def histories(self) -> dict[str, History]:
        """Of the releases that have a column."""
        return {name: audit.builder.history() for name, audit in self._audits.items()}

    @property
    def is_whole(self) -> bool:
        """Whether every column that the ledger has was read."""
        return not self._lacking()

    @property
    def is_over(self) -> bool:
        """Whether nothing will come any more."""
        return self.period == self._study.horizon and self.is_whole

    async def catch_up(self) -> None:
        """Take in what is there now: whoever shows less, shows what was true once."""
        await self.go_on(timeout=0.5)
        await self._public.catch_up_ledger()
        now = asyncio.get_running_loop().time
        until, before = now() + CATCH_UP_TIMEOUT_S, self._lacking()
        # Once more at least: what came of the ledger alone was not held against the study.
        while await self.go_on(timeout=0.0) or not self.is_whole:
            lacking = self._lacking()
            if any(read > before.get(name, read) for name, read in lacking.items()):
                until = now() + CATCH_UP_TIMEOUT_S
            elif now() > until:
                return
            before = lacking
            await asyncio.sleep(0.05)

    def _lacking(self) -> dict[str, int]:
        """How many columns were read of releases of which the ledger has more."""
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

    async def go_on(self, *, timeout: float) -> bool:
        """Take in what has come, waiting up to `timeout` seconds for the ledger to grow; answers whether anything did."""
        before = self.ledger
        await self._public.poll(timeout=timeout)
        taken = {release.name: self._public.take_columns(release.name) for release in self._study.releases}
        grown = self.ledger is not before
        if grown or any(taken.values()):
            await asyncio.get_running_loop().run_in_executor(self._threads, self._check, taken)
        return grown or any(taken.values())

    def _check(self, taken: Mapping[str, Sequence[DecodedColumn]]) -> None:
        """Recompute the spending and the counts of what is new, once; `VerificationFailed` says what does not hold."""
        ledger = self.ledger
        if ledger is None:
            return
        for name, columns in taken.items():
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
        """Stop reading; a check that is under way ends with the period it is at."""
        self._stopped.set()
        await self._public.close()
