"""Close a period by the steward's word, and wait until it is released."""

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
"""Seconds of waiting for a release before it is said what it waits for."""


class CloseOutcome(Enum):
    """What a word to close a period found."""

    REPORTED = auto()
    """Reports have come since the period before was closed, of whichever period; or it is the first."""
    SILENT = auto()
    """Nothing has come since. Its reports may all have been sent ahead."""
    ALREADY = auto()
    """It was closed before."""


async def close_period_now(
    deployment: Deployment, period: Period, *, created: Callable[[Sequence[str]], None] | None = None
) -> CloseOutcome:
    """Close a period unless it is closed or released; `created` is told of the topics that had to be made for it."""
    async with deployment.connect() as log:
        if await _released(deployment, log) >= period:  # holds for a study that was purged too
            return CloseOutcome.ALREADY
        await deployment.check_begun(log)
        made = await set_up_topics(log, deployment.study)
        if made and created is not None:
            created(made)
        return await close_period(deployment, log, period)


async def close_period(deployment: Deployment, log: Log, period: Period) -> CloseOutcome:
    """Append the cut unless it is there. Refuses one that is not the next, and a first one that nobody reported to."""
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
    """The last period closed; 0 for who may send reports but not read the control topic."""
    try:
        async with _control(deployment, log) as control:
            return control.sequence.period
    except NotAllowed:
        return Period(0)


async def until_released(deployment: Deployment, period: Period, *, show: Callable[[Stage], None]) -> None:
    """Wait until a period is released, also while the broker is restarted.

    From `SOON` seconds on, `show` is called again and again with what the release waits for.
    """
    ledger = LedgerProgress()

    async def show_soon(log: Log) -> None:
        await asyncio.sleep(SHOW_STAGES_AFTER_S)
        await show_stages(log, deployment.study, deployment.clock, ledger, show)

    async with deployment.connect() as log, asyncio.TaskGroup() as group:
        showing, waiting = group.create_task(show_soon(log)), OutageTimeout(deployment.timeout)
        while ledger.released < period:
            try:
                await _follow_ledger(deployment, log, period, ledger, waiting)
            except LogUnavailable as away:
                ledger.answers = False
                await waiting.wait(away)
        showing.cancel()


async def _follow_ledger(
    deployment: Deployment, log: Log, period: Period, ledger: LedgerProgress, waiting: OutageTimeout
) -> None:
    """Keep `ledger` up to date until it has the period."""
    public = PublicReader(log, deployment.study)
    try:
        await public.catch_up_ledger()
        while True:
            waiting.reset()
            ledger.begun, ledger.released, ledger.answers = public.ledger is not None, public.period, True
            if public.period >= period:
                return
            await public.poll_ledger(timeout=0.5)
    finally:
        await public.close()


@asynccontextmanager
async def _control(deployment: Deployment, log: Log) -> AsyncIterator[ControlFollower]:
    """A follower that has read all there is."""
    control = await ControlFollower.open(log, deployment.study)
    try:
        await control.catch_up(await log.last_stable_offset(deployment.topics.control, 0))
        yield control
    finally:
        await control.close()


async def _released(deployment: Deployment, log: Log) -> Period:
    """The last period in the ledger."""
    public = PublicReader(log, deployment.study)
    try:
        await public.catch_up_ledger()
        return public.period
    finally:
        await public.close()
