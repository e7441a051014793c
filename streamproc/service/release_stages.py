"""The stage of a release: what a closed period waits for, as far as the caller may know it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto

from streamproc.errors import LogUnavailable, NoSuchTopic, NotAllowed, OffsetLost, Refused
from streamproc.log.port import Log
from streamproc.privacy.types import Period
from streamproc.storage.clock import Clock
from streamproc.study import Schedule, Study
from streamproc.synthesizer.tally_reader import TallyReader

POLL_INTERVAL_S = 0.5
"""Seconds between two reads of the tallies."""

PARTITIONS_SHOWN = 8
"""Maximum number of partitions that a message lists."""


class Awaited(Enum):
    """The next step of a release."""

    STUDY = auto()
    """The synthesizer begins the study."""
    TALLIES = auto()
    """Gatherers send the tallies of some partitions."""
    SYNTHESIZER = auto()
    """The synthesizer releases a period of which every partition is tallied."""
    RELEASE_TIME = auto()
    """The period is tallied, and the schedule publishes it later (`release_after`)."""
    RELEASE = auto()
    """Any of the last three, because the caller may not read the tallies."""
    BROKER = auto()
    """The broker becomes available."""


@dataclass(frozen=True)
class Stage:
    """What the first period that is not released waits for.

    It lists the partitions that have no tally yet, and contains nothing of the content of a tally.
    """

    awaited: Awaited
    period: Period
    partitions: Sequence[int] = ()
    until: datetime | None = None
    """The release time of the period, in UTC; None if there is none or it has passed."""

    def __str__(self) -> str:
        match self.awaited:
            case Awaited.STUDY:
                return "waiting for a synthesizer to begin the study"
            case Awaited.TALLIES:
                return f"waiting for gatherers to tally period {self.period} of {_partitions(self.partitions)}"
            case Awaited.SYNTHESIZER:
                return f"every partition is tallied; waiting for the synthesizer to release period {self.period}"
            case Awaited.RELEASE_TIME:
                return f"every partition is tallied; waiting for the release time of period {self.period}, {self._time}"
            case Awaited.RELEASE:
                earliest = f", not before {self._time}" if self.until is not None else ""
                return f"waiting for the gatherers and the synthesizer to release period {self.period}{earliest}"
            case Awaited.BROKER:
                return "waiting for the broker, which does not answer"

    @property
    def _time(self) -> str:
        return f"{self.until:%Y-%m-%d %H:%M:%S} UTC"


def _partitions(numbers: Sequence[int]) -> str:
    shown = ", ".join(map(str, numbers[:PARTITIONS_SHOWN]))
    more = f" and {len(numbers) - PARTITIONS_SHOWN} more" if len(numbers) > PARTITIONS_SHOWN else ""
    return f"partition{'' if len(numbers) == 1 else 's'} {shown}{more}"


@dataclass
class LedgerProgress:
    """The state of the ledger when it was last read."""

    begun: bool = False
    """Whether the ledger holds the study record."""
    released: Period = Period(0)
    """The last released period."""
    broker_available: bool = True
    """False while the broker is unavailable."""


async def show_stages(log: Log, study: Study, clock: Clock, ledger: LedgerProgress, show: Callable[[Stage], None]) -> None:
    """Call `show` with the stage of the release every `POLL_INTERVAL_S` seconds, until cancelled.

    The caller keeps `ledger` up to date. Tallies that are denied, lost or invalid are not read again, because the
    synthesizer reports what is wrong with them.
    """
    tallies = _Tallies(log, study)
    try:
        while True:
            show(await _stage(ledger, tallies, study.schedule, clock))
            await asyncio.sleep(POLL_INTERVAL_S)
    finally:
        await tallies.close()


async def _stage(ledger: LedgerProgress, tallies: _Tallies, schedule: Schedule | None, clock: Clock) -> Stage:
    period = Period(ledger.released + 1)
    if not ledger.broker_available:
        return Stage(Awaited.BROKER, period)
    if not ledger.begun:
        return Stage(Awaited.STUDY, period)
    try:
        missing = await tallies.missing(period)
    except LogUnavailable:
        await tallies.close()
        return Stage(Awaited.BROKER, period)
    if missing:
        return Stage(Awaited.TALLIES, period, missing)
    until = _coming_release(schedule, period, clock)
    if missing is None:
        return Stage(Awaited.RELEASE, period, until=until)
    return Stage(Awaited.SYNTHESIZER if until is None else Awaited.RELEASE_TIME, period, until=until)


def _coming_release(schedule: Schedule | None, period: Period, clock: Clock) -> datetime | None:
    """The time before which the synthesizer does not publish the period; None if there is none or it has passed."""
    if schedule is None or schedule.release_after is None:
        return None
    planned = schedule.release_of(period)
    return planned if clock.now() < planned else None


class _Tallies:
    """The tallies topic, for a caller that may not be allowed to read it."""

    def __init__(self, log: Log, study: Study) -> None:
        self._log = log
        self._study = study
        self._tallies: TallyReader | None = None
        self._readable = True

    async def missing(self, period: Period) -> Sequence[int] | None:
        """The partitions without a tally of this period; None if the tallies cannot be read."""
        if not self._readable:
            return None
        try:
            if self._tallies is None:
                self._tallies = await TallyReader.open(self._log, self._study)
            self._tallies.forget(Period(period - 1))
            await self._tallies.catch_up()
            return self._tallies.missing(period)
        except (NotAllowed, NoSuchTopic, OffsetLost, Refused):
            self._readable = False
            return None

    async def close(self) -> None:
        """Stop reading; the next call begins again."""
        if self._tallies is not None:
            await self._tallies.close()
            self._tallies = None
