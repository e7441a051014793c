"""`restore`: rebuild a lost state folder from the topics."""

from __future__ import annotations

import click

from streamproc.cli.event_loop import run_once
from streamproc.service.deployment import Deployment
from streamproc.service.restore import restore_state


def restore(deployment: Deployment, *, accept_cost: bool) -> None:
    """Rebuild the state folder, and print as of which period it is."""
    period = run_once(deployment, restore_state(deployment, accept_cost=accept_cost), limit_time=False)
    click.echo(f"restored {deployment.state} as of period {period}")
