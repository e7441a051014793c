"""`send`: send the reports in a panel file, one period at a time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from streamproc.cli.commands.close import print_close_outcome, print_created_topics
from streamproc.cli.event_loop import run_once
from streamproc.cli.formatting import format_count
from streamproc.cli.options import check_period
from streamproc.client.reporter import Reporter
from streamproc.errors import InvalidInput, RosterUnavailable
from streamproc.files.study_files import count_strangers, read_people
from streamproc.log.topic_setup import set_up_topics
from streamproc.offline.people import MISSING, People
from streamproc.privacy.types import Period
from streamproc.service.close import close_period, read_closed_periods
from streamproc.service.deployment import Deployment


def send(
    deployment: Deployment, *, panel_path: Path, period: int | None, through: int | None, closing: bool, packed: bool
) -> None:
    """Send the reports of one period, or of all periods up to one, and close each period if `closing` is true."""
    study = deployment.study
    if period is not None and through is not None:
        raise InvalidInput("--period and --through: give one of them")
    option = "--period" if period else "--through"
    named = period or through
    if named is not None:
        check_period(option, named, study)
    panel = read_people(panel_path, study)
    if named is not None and named > panel.periods:
        raise InvalidInput(f"{option} {named}: the file has periods 1..{panel.periods}")
    last = named or (_last_reported(panel) if closing else panel.periods)
    periods = range(period or 1, last + 1)
    run_once(deployment, _send(deployment, panel, periods, closing=closing, packed=packed), limit_time=False)


def _last_reported(panel: People) -> int:
    """Return the last period of which the file has a report, and print a line if later periods are left open.

    Periods after it are in the future. Closing them would release them, which cannot be undone.
    """
    reported = (panel.symbols != MISSING).any(axis=0).nonzero()[0]
    last = int(reported[-1]) + 1 if len(reported) else 0
    if last < panel.periods:
        click.echo(
            f"periods from {last + 1} on are neither sent nor closed, because the file has no report of them; "
            f"--through {panel.periods} closes them too",
            err=True,
        )
    return last


async def _send(deployment: Deployment, panel: People, periods: Sequence[int], *, closing: bool, packed: bool) -> None:
    async with deployment.connect() as log:
        await deployment.require_same_ledger(log, only_reports=not closing)
        created = await set_up_topics(log, deployment.study)
        if created:
            print_created_topics(created)
        before = await read_closed_periods(deployment, log)
        closed = before.last
        if before.is_over and periods[-1:] and periods[-1] > closed:
            raise InvalidInput(f"period {periods[-1]}: the study ended with period {closed}")
        _warn_about_rejects(deployment, panel)
        reporter = Reporter(log, deployment.study)
        for period in periods:
            if period == 1 and closed == 0:
                _warn_about_missing(deployment, panel)
            count = await _send_period(reporter, panel, period, deployment.study.alphabet, packed=packed)
            # In an open study people who have not come or have left have no report, and none is missing.
            missing = "" if deployment.study.is_open else f" ({panel.size - count:,} missing)"
            click.echo(f"sent {format_count(count, 'report')} of period {period}{missing}")
            ahead = deployment.study.population.ahead
            if ahead is not None and period > closed + ahead:
                warning = f"period {period}: these reports are rejected unless period {period - ahead} was closed before"
                click.echo(warning, err=True)
            if period <= closed:
                click.echo(f"period {period} was closed before: these reports are late and do not count", err=True)
            elif closing:
                print_close_outcome(period, await close_period(deployment, log, Period(period)))
                closed = Period(period)


def _warn_about_rejects(deployment: Deployment, panel: People) -> None:
    """Warn about people who are not on the roster, if it can be read: sending reports does not require it."""
    try:
        roster = deployment.roster
    except RosterUnavailable:
        return
    strangers = 0 if roster is None else count_strangers(panel, roster)
    if strangers:
        click.echo(f"people in the file who are not on the roster: {strangers:,}; their reports will be rejected", err=True)


def _warn_about_missing(deployment: Deployment, panel: People) -> None:
    absent = int((panel.symbols[:, 0] == MISSING).sum())
    if absent and deployment.study.population.roster is None and not deployment.study.is_open:
        warning = f"people without a report in period 1: {absent:,}; as there is no roster, they are not in the study"
        click.echo(warning, err=True)


async def _send_period(reporter: Reporter, panel: People, period: int, alphabet: Sequence[str], *, packed: bool) -> int:
    """Send the reports of one period, and return how many there are."""
    assert panel.ids is not None
    column = panel.symbols[:, period - 1]
    rows = (column != MISSING).nonzero()[0].tolist()
    ids, symbols = [panel.ids[row] for row in rows], [alphabet[column[row]] for row in rows]
    await (reporter.report_packed if packed else reporter.report_all)(ids, period, symbols)
    return len(ids)
