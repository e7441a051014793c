"""`close`: close a period, and wait for its release if asked to."""

from __future__ import annotations

from collections.abc import Sequence

import click

from streamproc.cli.event_loop import run_once
from streamproc.cli.formatting import show_stages
from streamproc.cli.options import check_period
from streamproc.privacy.types import Period
from streamproc.service.close import CloseOutcome, close_period_now, until_released
from streamproc.service.deployment import Deployment


def close(deployment: Deployment, *, period: int, last: bool, wait: bool) -> None:
    """Close a period, and wait for its release if `wait` is true. `last` ends an open study with the period."""
    check_period("--period", period, deployment.study)
    closing = close_period_now(deployment, Period(period), last=last, created=print_created_topics)
    print_close_outcome(period, run_once(deployment, closing))
    if last:
        click.echo(f"the study ends with period {period}")
    _print_release_time(period, deployment)
    if wait:
        with show_stages(period) as show:
            run_once(deployment, until_released(deployment, Period(period), show=show), limit_time=False)
        click.echo(f"period {period} released")


def print_created_topics(topics: Sequence[str]) -> None:
    """Print on standard error which topics were created: a mistyped name of a study also creates topics."""
    click.echo(f"created topics {', '.join(topics)}", err=True)


def print_close_outcome(period: int, outcome: CloseOutcome) -> None:
    """Print whether the period is closed now or was before, and warn if no report has arrived for it."""
    click.echo(f"period {period} was closed already" if outcome is CloseOutcome.ALREADY else f"period {period} closed")
    if outcome is CloseOutcome.SILENT:
        click.echo(f"period {period}: no report has come since period {period - 1} was closed", err=True)


def _print_release_time(period: int, deployment: Deployment) -> None:
    """Print when a closed period is released, if the schedule sets a time that is still to come."""
    schedule = deployment.study.schedule
    if schedule is not None and schedule.release_after is not None:
        release_time = schedule.release_of(period)
        if deployment.clock.now() < release_time:
            click.echo(f"period {period} is released at {release_time:%Y-%m-%d %H:%M:%S} UTC, not before", err=True)
