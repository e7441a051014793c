"""Follows the public topics for the page, and says when there is something new to show."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace

from streamproc.errors import InvalidInput, VerificationFailed
from streamproc.ports.log import Log, LogError
from streamproc.privacy.quantities import Period
from streamproc.service.logs import event
from streamproc.service.public import PublicStudy
from streamproc.service.status_page.history import Counting, History, counting
from streamproc.service.status_page.public_topics import PublicTopics
from streamproc.study import Study
from streamproc.wire.chain import VerifiedLedger
from streamproc.wire.columns import ReleasedColumn

PAUSE, LONGEST_PAUSE = 2.0, 60.0
"""Seconds until the topics are read anew, from their start, after something went wrong: at first, and at last."""


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
    """Whether the broker answers."""

    @property
    def period(self) -> Period:
        """The last one in the ledger."""
        return Period(0) if self.ledger is None else self.ledger.period


class Follower:
    """Keeps `shown` up to date. Nothing that goes wrong here ends the process: a page is not worth a study."""

    def __init__(self, study: Study, threads: Executor, tell: Callable[[Shown], None] = lambda shown: None) -> None:
        self._study = study
        self._threads = threads
        self._tell = tell
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
            before = self.version
            try:
                return await self._from_the_start(self.topics)
            except (VerificationFailed, InvalidInput) as failed:
                self._show(replace(self.shown, problem=str(failed), following=True))
                event(f"status page: {failed}", logging.WARNING)
            except LogError:
                self._show(replace(self.shown, following=False))  # the roles say what is wrong with the broker
            except Exception as unexpected:
                self._show(replace(self.shown, following=False))
                event(f"status page: {type(unexpected).__name__}, reading again", logging.ERROR)
            pause = PAUSE if self.version > before + 1 else min(2 * pause, LONGEST_PAUSE)  # it worked for a while
            await asyncio.sleep(pause)

    async def _from_the_start(self, topics: PublicTopics) -> None:
        public, counts, last = PublicStudy(topics, self._study), dict[str, Counting](), Period(0)
        try:
            while not self._is_complete(public, last):
                before = public.ledger
                await public.poll(timeout=0.5)
                taken = {release.name: public.take_columns(release.name) for release in self._study.releases}
                if public.ledger is not before or any(taken.values()) or not self.shown.following:
                    await asyncio.get_running_loop().run_in_executor(self._threads, _add_up, public, counts, taken)
                    histories = {name: counted.history() for name, counted in counts.items()}
                    whole = [history.period for history in histories.values()]
                    last = Period(min(whole)) if len(whole) == len(self._study.releases) else Period(0)
                    # While it catches up, what was shown before stays.
                    if public.period >= self.shown.period:
                        self._show(Shown(public.ledger, histories, None, following=True))
        finally:
            await public.close()

    def _is_complete(self, public: PublicStudy, last: Period) -> bool:
        return public.period == last == self._study.horizon

    def _show(self, shown: Shown) -> None:
        self.shown, self.version = shown, self.version + 1
        self._tell(shown)
        self._changed.set()
        self._changed = asyncio.Event()


def _add_up(public: PublicStudy, counts: dict[str, Counting], taken: Mapping[str, Sequence[ReleasedColumn]]) -> None:
    ledger, contracts = public.ledger, public.contracts()
    for name, columns in taken.items():
        for column in columns:
            assert ledger is not None
            counts.setdefault(name, counting(contracts[name])).add(column.symbols, ledger.measurements[name, column.period])
