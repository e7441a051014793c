"""The demo's stream: real roles on an embedded log, people who report, a steward who closes months, an analyst who asks."""

from __future__ import annotations

import asyncio

import numpy as np

from streamproc.cli.demo.month_table import AnswerVsTruth, Month
from streamproc.cli.demo.screen import Screen
from streamproc.cli.demo.simulated_people import ASKED_FROM, QUESTIONS
from streamproc.client.public_reader import PublicReader
from streamproc.client.reporter import Reporter
from streamproc.log.port import Log
from streamproc.log.topic_setup import set_up_topics
from streamproc.privacy.types import Period
from streamproc.replay.people import MISSING, People
from streamproc.service.close import close_period
from streamproc.service.deployment import Deployment
from streamproc.service.monitor import ProcessMonitor
from streamproc.service.workers import gather, synthesize

_SLICES = 8
_PAUSE = 0.05
"""Seconds between two slices of a month's reports: slow enough to watch, where somebody is watching."""


class WatchedHealth(ProcessMonitor):
    """What the roles report goes to the screen too."""

    def __init__(self, deployment: Deployment, screen: Screen) -> None:
        super().__init__(deployment)
        self._screen = screen

    def read(self, partition: int, records: int, lag: int) -> None:
        """The demo sends single reports, so a record is a report."""
        super().read(partition, records, lag)
        self._screen.gathered(records)

    def tallied(self, partition: int, period: Period, people: int) -> None:
        """A period of one partition was sent."""
        super().tallied(partition, period, people)
        self._screen.tallied()


async def stream_study(deployment: Deployment, reports: People, screen: Screen, health: ProcessMonitor) -> None:
    """Everything from the first report to the last column."""
    async with deployment.connect() as inside, deployment.connect() as outside:
        await set_up_topics(outside, deployment.study)
        async with asyncio.TaskGroup() as group:
            group.create_task(gather(deployment, inside, health))
            group.create_task(synthesize(deployment, inside, health, catch_up=False))
            await _months(deployment, outside, reports, screen)


async def _months(deployment: Deployment, log: Log, reports: People, screen: Screen) -> None:
    """The people, the steward and the analyst take turns: a month begins when the one before is released."""
    study = deployment.study
    reporter, public = Reporter(log, study), PublicReader(log, study)
    try:
        for month in range(1, study.horizon + 1):
            period = Period(month)
            count = await _report(reporter, reports, period, study.alphabet, screen)
            await close_period(deployment, log, period)
            screen.closed()
            while public.period < period:
                await public.poll(timeout=0.5)
            screen.released(_released(public, reports, period, count))
    finally:
        await public.close()


async def _report(reporter: Reporter, reports: People, period: Period, alphabet: tuple[str, ...], screen: Screen) -> int:
    """Send a month's reports; how many there were."""
    assert reports.ids is not None
    column = reports.symbols[:, period - 1]
    reporting = np.flatnonzero(column != MISSING)
    screen.opened(len(reporting))
    for some in np.array_split(reporting, _SLICES if screen.watched else 1):
        rows = some.tolist()
        await reporter.report_all([reports.ids[row] for row in rows], period, [alphabet[column[row]] for row in rows])
        screen.sent(len(rows))
        if screen.watched:
            await asyncio.sleep(_PAUSE)
    return len(reporting)


def _released(public: PublicReader, reports: People, period: Period, count: int) -> Month:
    """What an analyst learns from the topics, whose digests `public` has checked, beside what is true."""
    assert public.ledger is not None
    spent = public.ledger.periods[period - 1].rho_spent
    if period < ASKED_FROM:
        return Month(period, count, (), spent)
    truth = reports.filled(public.study)[:, :period]
    answers = []
    for question in QUESTIONS:
        panel = public.panel(question.release)
        assert panel is not None
        answers.append(AnswerVsTruth(float(question.holds(truth).mean()), panel.fraction(question.query, period)))
    return Month(period, count, tuple(answers), spent)
