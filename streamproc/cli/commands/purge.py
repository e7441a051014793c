"""`purge`: when a study is over, delete what is private about it."""

from __future__ import annotations

import sys

import click

from streamproc.cli.deployment_options import run_once
from streamproc.errors import InvalidInput
from streamproc.service.deployment import Deployment
from streamproc.service.purge import purge_study


def purge(deployment: Deployment, *, yes: bool) -> None:
    """Purge the study after a confirmation, and say what was deleted."""
    if not yes:
        _confirm(deployment.study.name)
    purged = run_once(deployment, purge_study(deployment), waits=True)
    gone = [*purged.topics, *([f"state folder {deployment.state}"] if purged.state else [])]
    click.echo(f"deleted {', '.join(gone)}" if gone else "nothing private was left")


def _confirm(study: str) -> None:
    """Ask on the terminal; raises InvalidInput if there is none, or if the answer is no."""
    if sys.stdin is None or not sys.stdin.isatty():
        raise InvalidInput(
            f"purge deletes everything private of study {study}, and there is no terminal to confirm this: give --yes"
        )
    if not click.confirm(f"Delete everything private of study {study} for ever?", err=True):
        raise InvalidInput("nothing deleted, as it was not confirmed")
