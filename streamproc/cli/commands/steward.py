"""What a steward does to a study under way: `close` a period, and `restore` a lost state folder."""

from __future__ import annotations

from collections.abc import Sequence

import click

from streamproc.cli.deployment_options import run_once
from streamproc.cli.formatting import showing_stages
from streamproc.cli.options import check_period
from streamproc.privacy.types import Period
from streamproc.service.close import CloseOutcome, close_period_now, until_released
from streamproc.service.deployment import Deployment
from streamproc.service.restore import restore_state


def close(deployment: Deployment, *, period: int, wait: bool) -> None:
    """Close a period, and wait for its release if `wait` is true."""
    check_period("--period", period, deployment.study)
    say_closed(period, run_once(deployment, close_period_now(deployment, Period(period), created=say_created)))
    say_planned(period, deployment)
    if wait:
        with showing_stages(period) as show:
            run_once(deployment, until_released(deployment, Period(period), show=show), waits=True)
        click.echo(f"period {period} released")


def say_created(topics: Sequence[str]) -> None:
    """Where nobody asked for topics: a name of a study that is mistyped is that of a new one."""
    click.echo(f"created topics {', '.join(topics)}", err=True)


def say_closed(period: int, closing: CloseOutcome) -> None:
    """What came of a word to close a period."""
    click.echo(f"period {period} was closed already" if closing is CloseOutcome.ALREADY else f"period {period} closed")
    if closing is CloseOutcome.SILENT:
        click.echo(f"period {period}: no report has come since period {period - 1} was closed", err=True)


def say_planned(period: int, deployment: Deployment) -> None:
    """When a closed period is released, if the schedule says so and the time is still to come."""
    schedule = deployment.study.schedule
    if schedule is not None and schedule.release_after is not None:
        planned = schedule.release_of(period)
        if deployment.clock.now() < planned:
            click.echo(f"period {period} is released at {planned:%Y-%m-%d %H:%M:%S} UTC, not before", err=True)


def restore(deployment: Deployment, *, accept_cost: bool) -> None:
    """Rebuild a lost state folder from the topics."""
    period = run_once(deployment, restore_state(deployment, accept_cost=accept_cost), waits=True)
    click.echo(f"restored {deployment.state} as of period {period}")
