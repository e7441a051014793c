"""Close a period at the steward's request, wait until it is released, and say what the release waits for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto

from streamproc.client.public_reader import PublicReader
from streamproc.errors import InvalidInput, LogUnavailable, NoSuchTopic, NotAllowed, OffsetLost, Refused
from streamproc.log.control_topic import (
    ControlFollower,
    append_cut,
    ended_with,
    require_closed_as_last,
    require_cut_accepted,
    require_not_ended,
    require_reports_in_period_1,
)
from streamproc.log.port import Log
from streamproc.log.retry import OutageTimeout
from streamproc.log.topic_setup import set_up_topics
from streamproc.privacy.types import Period
from streamproc.service.deployment import Deployment
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


SHOW_STAGES_AFTER_S = 2.0
"""Seconds of waiting for a release before the stage of the release is shown."""


class CloseOutcome(Enum):
    """What the command to close a period found."""

    REPORTED = auto()
    """Reports of any period were sent since the previous period was closed; or it is the first period."""
    SILENT = auto()
    """No report was sent since the previous period was closed. The reports of the period may have been sent earlier."""
    ALREADY = auto()
    """The period was closed before."""


async def close_period_now(
    deployment: Deployment,
    period: Period,
    *,
    last: bool = False,
    created: Callable[[Sequence[str]], None] | None = None,
) -> CloseOutcome:
    """Close a period unless it is closed or released. `created` is called with the topics that had to be created.

    `last` ends an open study with this period. Raises what `Deployment.require_same_ledger` and `close_period` raise.
    """
    require_may_end(deployment.study, last=last)
    async with deployment.connect() as log:
        released, ended = await _released_and_ended(deployment, log)
        if (released == period and ended) or (released >= period and not last):  # also in a study that was purged
            return CloseOutcome.ALREADY
        if ended:
            raise InvalidInput(ended_with(period, released))
        await deployment.require_same_ledger(log)
        new_topics = await set_up_topics(log, deployment.study)
        if new_topics and created is not None:
            created(new_topics)
        return await close_period(deployment, log, period, last=last)


def require_may_end(study: Study, *, last: bool) -> None:
    """Raise InvalidInput if `last` is to end a study that is not open, which ends with its horizon."""
    if last and not study.is_open:
        ends = f"it is not open, so it ends with period {study.horizon}, its horizon"
        raise InvalidInput(f"study {study.name}: {ends}; only an open study can be ended with another period")


async def close_period(deployment: Deployment, log: Log, period: Period, *, last: bool = False) -> CloseOutcome:
    """Append the cut of a period unless the period is closed. `last` ends an open study with this period.

    Raises InvalidInput if an earlier period is open, if the study ended with an earlier one, or if `last` is given for a
    study that is not open or for a period that was closed as another one than the last; and Refused if nobody has reported
    in period 1 of a study that is not open and has no roster.
    """
    require_may_end(deployment.study, last=last)
    async with _control(deployment, log) as control:
        closed = control.sequence.period
        if period <= closed:
            if last:
                require_closed_as_last(control, period)
            return CloseOutcome.ALREADY
        require_not_ended(control, period)
        if period > closed + 1:
            raise InvalidInput(f"period {period}: period {closed + 1} must be closed first")
        await require_reports_in_period_1(log, deployment.study, period)
        await append_cut(log, deployment.study, period, last=last)
        await control.catch_up(await log.last_stable_offset(deployment.topics.control, 0))
        require_cut_accepted(control, period)
        if last:
            require_closed_as_last(control, period)  # another process may have closed it first
        ends = [cut.ends for cut in control.sequence.cuts[:period]]
        return CloseOutcome.SILENT if period > 1 and ends[-1] == ends[-2] else CloseOutcome.REPORTED


@dataclass(frozen=True)
class ClosedPeriods:
    """How far a study is closed."""

    last: Period
    """The last closed period; 0 if there is none."""
    is_over: bool
    """Whether the study ends with it."""


async def read_closed_periods(deployment: Deployment, log: Log) -> ClosedPeriods:
    """How far the study is closed, as the control topic says; nothing if this user may not read it."""
    try:
        async with _control(deployment, log) as control:
            return ClosedPeriods(control.sequence.period, control.sequence.is_over)
    except NotAllowed:
        return ClosedPeriods(Period(0), is_over=False)


async def until_released(deployment: Deployment, period: Period, *, show: Callable[[Stage], None]) -> None:
    """Wait until a period is released, also across a restart of the broker.

    After `SHOW_STAGES_AFTER_S` seconds, `show` is called repeatedly with the stage of the release. Raises LogUnavailable if
    the broker is unavailable for longer than the deployment's timeout.
    """
    ledger = LedgerProgress()

    async def show_soon(log: Log) -> None:
        await asyncio.sleep(SHOW_STAGES_AFTER_S)
        await show_stages(log, deployment.study, deployment.clock, ledger, show)

    async with deployment.connect() as log, asyncio.TaskGroup() as group:
        showing, outage = group.create_task(show_soon(log)), OutageTimeout(deployment.timeout)
        while ledger.released < period:
            try:
                await _follow_ledger(deployment, log, period, ledger, outage)
            except LogUnavailable as unavailable:
                ledger.broker_available = False
                await outage.wait(unavailable)
        showing.cancel()


async def _follow_ledger(
    deployment: Deployment, log: Log, period: Period, ledger: LedgerProgress, outage: OutageTimeout
) -> None:
    """Update `ledger` until the period is released."""
    public = PublicReader(log, deployment.study)
    try:
        await public.catch_up_ledger()
        while True:
            outage.reset()
            ledger.begun, ledger.released, ledger.broker_available = public.ledger is not None, public.period, True
            if public.period >= period:
                return
            await public.poll_ledger(timeout=0.5)
    finally:
        await public.close()


@asynccontextmanager
async def _control(deployment: Deployment, log: Log) -> AsyncIterator[ControlFollower]:
    """A follower that has read the control topic to its end."""
    control = await ControlFollower.open(log, deployment.study)
    try:
        await control.catch_up(await log.last_stable_offset(deployment.topics.control, 0))
        yield control
    finally:
        await control.close()


async def _released_and_ended(deployment: Deployment, log: Log) -> tuple[Period, bool]:
    """The last period in the ledger, 0 if there is none, and whether the study ended with it."""
    public = PublicReader(log, deployment.study)
    try:
        await public.catch_up_ledger()
        return public.period, public.is_over
    finally:
        await public.close()
