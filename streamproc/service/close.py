"""Close a period on the steward's command, and wait until it is released."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from enum import Enum, auto

from streamproc.client.public_reader import PublicReader
from streamproc.errors import InvalidInput, LogUnavailable, NotAllowed
from streamproc.log.control_topic import ControlFollower, append_cut, require_cut_accepted, require_reports_in_period_1
from streamproc.log.port import Log
from streamproc.log.retry import OutageTimeout
from streamproc.log.topic_setup import set_up_topics
from streamproc.privacy.types import Period
from streamproc.service.deployment import Deployment
from streamproc.service.release_stages import LedgerProgress, Stage, show_stages

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
    deployment: Deployment, period: Period, *, created: Callable[[Sequence[str]], None] | None = None
) -> CloseOutcome:
    """Close a period unless it is closed or released. `created` is called with the topics that had to be created.

    Raises what `Deployment.check_begun` and `close_period` raise.
    """
    async with deployment.connect() as log:
        if await _last_released_period(deployment, log) >= period:  # also in a study that was purged
            return CloseOutcome.ALREADY
        await deployment.check_begun(log)
        new_topics = await set_up_topics(log, deployment.study)
        if new_topics and created is not None:
            created(new_topics)
        return await close_period(deployment, log, period)


async def close_period(deployment: Deployment, log: Log, period: Period) -> CloseOutcome:
    """Append the cut of a period unless the period is closed.

    Raises InvalidInput if an earlier period is open, Refused if nobody has reported in period 1.
    """
    async with _control(deployment, log) as control:
        closed = control.sequence.period
        if period <= closed:
            return CloseOutcome.ALREADY
        if period > closed + 1:
            raise InvalidInput(f"period {period}: period {closed + 1} must be closed first")
        await require_reports_in_period_1(log, deployment.study, period)
        await append_cut(log, deployment.study, period)
        await control.catch_up(await log.last_stable_offset(deployment.topics.control, 0))
        require_cut_accepted(control, period)
        ends = [cut.ends for cut in control.sequence.cuts[:period]]
        return CloseOutcome.SILENT if period > 1 and ends[-1] == ends[-2] else CloseOutcome.REPORTED


async def last_closed_period(deployment: Deployment, log: Log) -> Period:
    """The last closed period; 0 if this user may not read the control topic."""
    try:
        async with _control(deployment, log) as control:
            return control.sequence.period
    except NotAllowed:
        return Period(0)


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


async def _last_released_period(deployment: Deployment, log: Log) -> Period:
    """The last period in the ledger; 0 if there is none."""
    public = PublicReader(log, deployment.study)
    try:
        await public.catch_up_ledger()
        return public.period
    finally:
        await public.close()
