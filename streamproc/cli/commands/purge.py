"""`purge`: delete everything private of a study that is over."""

from __future__ import annotations

import sys

import click

from streamproc.cli.event_loop import run_once
from streamproc.errors import InvalidInput
from streamproc.service.deployment import Deployment
from streamproc.service.purge import purge_study


def purge(deployment: Deployment, *, yes: bool) -> None:
    """Ask for confirmation unless `yes` is true, delete everything private, and print what was deleted."""
    if not yes:
        _confirm(deployment.study.name)
    purged = run_once(deployment, purge_study(deployment), limit_time=False)
    deleted = [*purged.topics, *([f"state folder {deployment.state}"] if purged.state else [])]
    click.echo(f"deleted {', '.join(deleted)}" if deleted else "nothing private was left")


def _confirm(study: str) -> None:
    """Ask for confirmation on the terminal. Raises InvalidInput without a terminal, or if the answer is no."""
    if sys.stdin is None or not sys.stdin.isatty():
        raise InvalidInput(
            f"purge deletes everything private of study {study}, and there is no terminal to confirm this: give --yes"
        )
    if not click.confirm(f"Delete everything private of study {study} forever?", err=True):
        raise InvalidInput("nothing deleted, as it was not confirmed")
