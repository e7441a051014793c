"""The public topics as far as the page has read them: the ledger, and what the columns add up to."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor

from streamproc.panel.history import History
from streamproc.privacy.quantities import Period
from streamproc.service.public import PublicStudy
from streamproc.service.status_page.public_topics import PublicTopics
from streamproc.study import Study
from streamproc.wire.audit import ReleaseAudit
from streamproc.wire.chain import VerifiedLedger
from streamproc.wire.columns import ReleasedColumn

LONGEST_CATCH_UP = 20.0
"""Seconds for which the next column that the ledger has is awaited: if one was lost, what is there is worth showing."""


class Reading:
    """One time of reading, from the start of the topics on."""

    def __init__(self, topics: PublicTopics, study: Study, threads: Executor) -> None:
        self._public = PublicStudy(topics, study)
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
        return {name: audit.counting.history() for name, audit in self._audits.items()}

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
        until, before = now() + LONGEST_CATCH_UP, self._lacking()
        # Once more at least: what came of the ledger alone was not held against the study.
        while await self.go_on(timeout=0.0) or not self.is_whole:
            lacking = self._lacking()
            if any(read > before.get(name, read) for name, read in lacking.items()):
                until = now() + LONGEST_CATCH_UP
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

    def _check(self, taken: Mapping[str, Sequence[ReleasedColumn]]) -> None:
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
