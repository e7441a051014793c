"""What a steward does to a study: create its topics, send a panel, close periods, restore a lost state folder."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path

import click

from streamproc.cli.deployed import on_deployment, run_once, timeout_option
from streamproc.cli.options import panel_argument
from streamproc.errors import InvalidInput, Refused
from streamproc.ports.control import ControlFollower, append_cut, check_counts
from streamproc.ports.files import read_panel
from streamproc.ports.log import Log, LogUnavailable, NotAllowed
from streamproc.ports.topic_setup import set_up_topics
from streamproc.privacy.quantities import Period
from streamproc.service.deployment import Deployment
from streamproc.service.patience import Patience
from streamproc.service.public import PublicStudy
from streamproc.service.reporter import Reporter
from streamproc.service.restoring import restore_state
from streamproc.study import MISSING, Histories


@click.command()
@on_deployment
@timeout_option
@click.option("--period", type=click.IntRange(min=1), required=True, metavar="T", help="The period to close.")
@click.option("--wait", is_flag=True, help="Return when it is released, however long that takes.")
def close(deployment: Deployment, *, period: int, wait: bool) -> None:
    """Close a period: everything acknowledged before belongs to it or to an earlier one."""
    study = deployment.study
    if period > study.horizon:
        raise InvalidInput(f"--period {period}: the study has periods 1..{study.horizon}")

    async def work() -> bool:
        async with deployment.connect() as log:
            if await _released(deployment, log) >= period:  # holds for a study that was purged too
                return False
            await deployment.check_begun(log)
            await set_up_topics(log, study)
            if period == 1 and study.population.roster is None:
                await _check_anybody(deployment, log)
            return await close_period(deployment, log, Period(period))

    closed = run_once(deployment, work())
    click.echo(f"period {period} closed" if closed else f"period {period} was closed already")
    if wait:
        run_once(deployment, _until_released(deployment, Period(period)), waits=True)
        click.echo(f"period {period} released")


async def _check_anybody(deployment: Deployment, log: Log) -> None:
    """Without a roster, who reports in period 1 is in the study: closed without a report, it could never go on."""
    reports = deployment.topics.reports
    for partition in range(deployment.study.broker.partitions):
        if await log.end_offset(reports, partition) > 0:
            return
    raise Refused(f"topic {reports}: holds no report, so closing period 1 would leave the study without people; send first")


async def close_period(deployment: Deployment, log: Log, period: Period) -> bool:
    """Append the cut unless it is there; whether it was appended. Refuses one that is not the next."""
    control = await ControlFollower.open(log, deployment.study)
    try:
        await control.catch_up(await log.stable_offset(deployment.topics.control, 0))
        closed = control.sequence.period
        if period <= closed:
            return False
        if period > closed + 1:
            raise InvalidInput(f"--period {period}: period {closed + 1} must be closed first")
        await append_cut(log, deployment.study, period)
        await control.catch_up(await log.stable_offset(deployment.topics.control, 0))
        check_counts(control, period)
        return True
    finally:
        await control.close()


async def _released(deployment: Deployment, log: Log) -> Period:
    """The last period in the ledger."""
    public = PublicStudy(log, deployment.study)
    try:
        await public.catch_up_ledger()
        return public.period
    finally:
        await public.close()


async def _until_released(deployment: Deployment, period: Period) -> None:
    """Waits, also for a broker that is restarted meanwhile, and after the time a command may usually take says what for."""
    now, waiting = asyncio.get_running_loop().time, Patience(deployment.timeout)
    hint = now() + deployment.timeout
    async with deployment.connect() as log:
        while True:
            public = PublicStudy(log, deployment.study)
            try:
                while public.period < period:
                    await public.poll_ledger(timeout=0.5)
                    waiting.answered()
                    if now() > hint:
                        hint = math.inf
                        click.echo(f"period {period} is closed but not released yet: is a synthesizer running?", err=True)
                return
            except LogUnavailable as away:
                await waiting.wait(away)
            finally:
                await public.close()


@click.command()
@on_deployment
@panel_argument
@timeout_option
@click.option("--period", type=click.IntRange(min=1), metavar="T", help="Send the reports of this period only.")
@click.option("--through", type=click.IntRange(min=1), metavar="T", help="Send all periods up to this one (default: all).")
@click.option("--close", "closing", is_flag=True, help="Close each period after it is sent.")
@click.option("--packed", is_flag=True, help="Many reports to a record.")
def send(
    deployment: Deployment, *, panel_path: Path, period: int | None, through: int | None, closing: bool, packed: bool
) -> None:
    """Send the reports in a panel file; returns when all are acknowledged."""
    study = deployment.study
    if period is not None and through is not None:
        raise InvalidInput("--period and --through: give one of them")
    last = period or through or study.horizon
    if last > study.horizon:
        raise InvalidInput(f"--{'period' if period else 'through'} {last}: the study has periods 1..{study.horizon}")
    panel = read_panel(panel_path, study)
    absent = int((panel.symbols[:, 0] == MISSING).sum())
    if absent and study.population.roster is None:
        click.echo(f"{absent} people have no report in period 1: without a roster they are not in the study", err=True)

    async def work() -> None:
        async with deployment.connect() as log:
            await deployment.check_begun(log)
            await set_up_topics(log, study)
            closed = await _closed(deployment, log)
            reporter = Reporter(log, study)
            for each in range(period or 1, last + 1):
                count = await _send_period(reporter, deployment, panel, each, packed=packed)
                click.echo(f"sent {count:,} reports of period {each} ({panel.people - count:,} missing)")
                if each <= closed:
                    click.echo(f"period {each} was closed before: these reports do not count", err=True)
                elif closing:
                    await close_period(deployment, log, Period(each))

    run_once(deployment, work(), waits=True)


async def _closed(deployment: Deployment, log: Log) -> Period:
    """The last period closed so far; 0 for who may send reports but not read the control topic."""
    try:
        control = await ControlFollower.open(log, deployment.study)
    except NotAllowed:
        return Period(0)
    try:
        await control.catch_up(await log.stable_offset(deployment.topics.control, 0))
        return control.sequence.period
    finally:
        await control.close()


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
@timeout_option
@click.option("--accept-cost", is_flag=True, help="Pay for an announced draw that was lost; the ledger says so for ever.")
def restore(deployment: Deployment, *, accept_cost: bool) -> None:
    """Rebuild a lost state folder from the topics."""
    period = run_once(deployment, restore_state(deployment, accept_cost=accept_cost), waits=True)
    click.echo(f"restored {deployment.state} as of period {period}")
