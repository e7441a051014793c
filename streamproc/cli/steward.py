"""What a steward does to a study: create its topics, send a panel, close periods, restore a lost state folder."""

from __future__ import annotations

import functools
from pathlib import Path

import click

from streamproc.cli.deployed import AS_LONG_AS_IT_TAKES, on_deployment, run_once, timeout_option
from streamproc.cli.options import panel_argument
from streamproc.errors import InvalidInput
from streamproc.ports.files import read_panel
from streamproc.ports.topic_setup import set_up_topics
from streamproc.privacy.quantities import Period
from streamproc.service.closing import Closing, close_by_word, close_period, closed_so_far, until_released
from streamproc.service.deployment import Deployment
from streamproc.service.reporter import Reporter
from streamproc.service.restoring import restore_state
from streamproc.study import MISSING, Histories


@click.command()
@on_deployment
@timeout_option("Seconds before giving up on closing it, or on a broker that is away; --wait goes on until the release.")
@click.option("--period", type=click.IntRange(min=1), required=True, metavar="T", help="The period to close.")
@click.option("--wait", is_flag=True, help="Return when it is released, however long that takes.")
def close(deployment: Deployment, *, period: int, wait: bool) -> None:
    """Close a period: everything acknowledged before belongs to it or to an earlier one."""
    study = deployment.study
    if period > study.horizon:
        raise InvalidInput(f"--period {period}: the study has periods 1..{study.horizon}")
    _say_closed(period, run_once(deployment, close_by_word(deployment, Period(period))))
    if wait:
        hint = f"period {period} is closed but not released yet: is a synthesizer running?"
        late = functools.partial(click.echo, hint, err=True)
        run_once(deployment, until_released(deployment, Period(period), late=late), waits=True)
        click.echo(f"period {period} released")


@click.command()
@on_deployment
@panel_argument
@timeout_option(AS_LONG_AS_IT_TAKES)
@click.option("--period", type=click.IntRange(min=1), metavar="T", help="Send the reports of this period only.")
@click.option("--through", type=click.IntRange(min=1), metavar="T", help="Send all periods up to this one (default: all).")
@click.option("--close", "closing", is_flag=True, help="Close each period after it is sent.")
@click.option("--packed", is_flag=True, help="Many reports to a record.")
def send(
    deployment: Deployment, *, panel_path: Path, period: int | None, through: int | None, closing: bool, packed: bool
) -> None:
    """Send the reports in a panel file; returns when all are acknowledged.

    The file has a column for every period of the study; leave the cells of periods to come empty.
    """
    study = deployment.study
    if period is not None and through is not None:
        raise InvalidInput("--period and --through: give one of them")
    last = period or through or study.horizon
    if last > study.horizon:
        raise InvalidInput(f"--{'period' if period else 'through'} {last}: the study has periods 1..{study.horizon}")
    panel = read_panel(panel_path, study)
    if closing and period is None and through is None:
        last = _last_reported(panel)
    absent = int((panel.symbols[:, 0] == MISSING).sum())
    if absent and study.population.roster is None:
        click.echo(f"{absent} people have no report in period 1: without a roster they are not in the study", err=True)

    async def work() -> None:
        async with deployment.connect() as log:
            await deployment.check_begun(log)
            await set_up_topics(log, study)
            closed = await closed_so_far(deployment, log)
            reporter = Reporter(log, study)
            for each in range(period or 1, last + 1):
                count = await _send_period(reporter, deployment, panel, each, packed=packed)
                click.echo(f"sent {count:,} reports of period {each} ({panel.people - count:,} missing)")
                if each <= closed:
                    click.echo(f"period {each} was closed before: these reports do not count", err=True)
                elif closing:
                    _say_closed(each, await close_period(deployment, log, Period(each)))

    run_once(deployment, work(), waits=True)


def _say_closed(period: int, closing: Closing) -> None:
    click.echo(f"period {period} was closed already" if closing is Closing.ALREADY else f"period {period} closed")
    if closing is Closing.SILENT:
        click.echo(f"period {period}: no report has come since period {period - 1} was closed", err=True)


def _last_reported(panel: Histories) -> int:
    """Periods after it are to come; closed with the others they would be released, which cannot be taken back."""
    reported = (panel.symbols != MISSING).any(axis=0).nonzero()[0]
    last = int(reported[-1]) + 1 if len(reported) else 0
    if last < panel.periods:
        click.echo(
            f"period {last + 1}: neither sent nor closed, nor any later one, as the file has no report of them; "
            f"--through {panel.periods} would close all",
            err=True,
        )
    return last


async def _send_period(reporter: Reporter, deployment: Deployment, panel: Histories, period: int, *, packed: bool) -> int:
    """How many reports were sent."""
    assert panel.ids is not None
    column, alphabet = panel.symbols[:, period - 1], deployment.study.alphabet
    here = (column != MISSING).nonzero()[0].tolist()
    ids, symbols = [panel.ids[row] for row in here], [alphabet[column[row]] for row in here]
    await (reporter.report_packed if packed else reporter.report_all)(ids, period, symbols)
    return len(ids)


@click.command()
@on_deployment
@timeout_option(AS_LONG_AS_IT_TAKES)
@click.option("--accept-cost", is_flag=True, help="Pay for an announced draw that was lost; the ledger says so for ever.")
def restore(deployment: Deployment, *, accept_cost: bool) -> None:
    """Rebuild a lost state folder from the topics."""
    period = run_once(deployment, restore_state(deployment, accept_cost=accept_cost), waits=True)
    click.echo(f"restored {deployment.state} as of period {period}")
