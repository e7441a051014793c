"""Follows the public topics for the page, and says when there is something new to show."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace

from streamproc.errors import InvalidInput, VerificationFailed
from streamproc.panel.history import History
from streamproc.ports.log import Log, LogError
from streamproc.privacy.quantities import Period
from streamproc.service.logs import event
from streamproc.service.status_page.public_topics import PublicTopics
from streamproc.service.status_page.reading import Reading
from streamproc.study import Study
from streamproc.wire.chain import VerifiedLedger

PAUSE, LONGEST_PAUSE = 2.0, 60.0
"""Seconds until the topics are read anew, from their start, after something went wrong: at first, and at last."""
SHORTER = "the ledger is shorter than it was: what is shown here is not in it any more"


@dataclass(frozen=True, eq=False)
class Shown:
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
        tell: Callable[[Shown], None] = lambda shown: None,
        away: Callable[[LogError], None] = lambda problem: None,
    ) -> None:
        """`away` is called when the broker does not answer or denies something; what it raises ends `follow`."""
        self._study = study
        self._threads = threads
        self._tell = tell
        self._away = away
        self.shown = Shown()
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
        self.topics, pause = PublicTopics(log, self._study), PAUSE
        while True:
            before, holds = self.version, True
            reading = Reading(self.topics, self._study, self._threads)
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
            pause = PAUSE if holds and self.version > before + 1 else min(2 * pause, LONGEST_PAUSE)
            await asyncio.sleep(pause)

    async def _follow(self, reading: Reading) -> None:
        try:
            await reading.catch_up()
            self._offer(reading)
            while not reading.is_over:
                if await reading.go_on(timeout=0.5):
                    self._offer(reading)
        finally:
            await reading.close()

    def _offer(self, reading: Reading) -> None:
        latest = self._latest(reading)
        if latest is not self.shown:
            self._show(latest)

    def _latest(self, reading: Reading) -> Shown:
        """What was read, if it goes as far as what is shown; else the latter stays."""
        histories, old = reading.histories(), self.shown.histories
        reached = all(name in histories and histories[name].period >= old[name].period for name in old)
        if not reached or reading.period < self.shown.period:
            stays = replace(self.shown, problem=SHORTER if reading.is_whole else self.shown.problem, following=True)
            same = (stays.problem, stays.following) == (self.shown.problem, self.shown.following)
            return self.shown if same else stays
        # As long as a column that the ledger has is not read, what did not hold may still lie ahead.
        problem = None if reading.is_whole else self.shown.problem
        return Shown(reading.ledger, histories, problem, following=True)

    def _show(self, shown: Shown) -> None:
        if shown.problem is not None and shown.problem != self.shown.problem:  # once, not after every retry
            event(f"status page: {shown.problem}", logging.WARNING)
        self.shown, self.version = shown, self.version + 1
        self._tell(shown)
        self._changed.set()
        self._changed = asyncio.Event()
