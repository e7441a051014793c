"""The demo's stream: real roles on an embedded log, and a loop that sends reports, closes months and reads the answers."""

from __future__ import annotations

import asyncio

import numpy as np

from streamproc.cli.demo.screen import AnswerVsTruth, Month, Screen
from streamproc.cli.demo.simulated_study import ASKED_FROM, QUESTIONS
from streamproc.client.public_reader import PublicReader
from streamproc.client.reporter import Reporter
from streamproc.log.port import Log
from streamproc.log.topic_setup import set_up_topics
from streamproc.offline.people import MISSING, People
from streamproc.privacy.types import Period
from streamproc.service.close import close_period
from streamproc.service.deployment import Deployment
from streamproc.service.monitor import ProcessMonitor
from streamproc.service.workers import gather, synthesize

_SLICES = 8
"""On a terminal, the number of parts in which a month's reports are sent, so that progress is visible."""

_PAUSE_S = 0.05
"""Seconds between two such parts."""


class ScreenMonitor(ProcessMonitor):
    """A process monitor that also updates the screen."""

    def __init__(self, deployment: Deployment, screen: Screen) -> None:
        super().__init__(deployment)
        self._screen = screen

    def read(self, partition: int, records: int, lag: int) -> None:
        """Count records that a gatherer has read. The demo sends single reports, so a record is a report."""
        super().read(partition, records, lag)
        self._screen.add_gathered(records)

    def tallied(self, partition: int, period: Period, people: int) -> None:
        """Count the tally of one partition that was sent."""
        super().tallied(partition, period, people)
        self._screen.add_tally()


async def stream_study(deployment: Deployment, reports: People, screen: Screen, monitor: ProcessMonitor) -> None:
    """Run the roles, and stream the study from the first report to the last column."""
    async with deployment.connect() as role_log, deployment.connect() as public_log:
        await set_up_topics(public_log, deployment.study)
        async with asyncio.TaskGroup() as group:
            group.create_task(gather(deployment, role_log, monitor))
            group.create_task(synthesize(deployment, role_log, monitor, catch_up=False))
            await _stream_months(deployment, public_log, reports, screen)


async def _stream_months(deployment: Deployment, log: Log, reports: People, screen: Screen) -> None:
    """For each month: send its reports, close it, wait for its release, and show it. Months do not overlap."""
    study = deployment.study
    reporter, public = Reporter(log, study), PublicReader(log, study)
    try:
        for month in range(1, study.horizon + 1):
            period = Period(month)
            count = await _send_month(reporter, reports, period, study.alphabet, screen)
            await close_period(deployment, log, period)
            screen.mark_closed()
            while public.period < period:
                await public.poll(timeout=0.5)
            screen.add_month(_released_month(public, reports, period, count))
    finally:
        await public.close()


async def _send_month(reporter: Reporter, reports: People, period: Period, alphabet: tuple[str, ...], screen: Screen) -> int:
    """Send a month's reports, and return their number."""
    assert reports.ids is not None
    column = reports.symbols[:, period - 1]
    reporting = np.flatnonzero(column != MISSING)
    screen.begin_month(len(reporting))
    for part in np.array_split(reporting, _SLICES if screen.is_terminal else 1):
        rows = part.tolist()
        await reporter.report_all([reports.ids[row] for row in rows], period, [alphabet[column[row]] for row in rows])
        screen.add_sent(len(rows))
        if screen.is_terminal:
            await asyncio.sleep(_PAUSE_S)
    return len(reporting)


def _released_month(public: PublicReader, reports: People, period: Period, count: int) -> Month:
    """Return an analyst's answers from the public topics, whose digests `public` has checked, with the true values."""
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
