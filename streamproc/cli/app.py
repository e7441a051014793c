"""The command line: every command."""

from __future__ import annotations

from typing import NoReturn

import click

from streamproc.cli.demo import demo
from streamproc.cli.ending import run_to_its_end
from streamproc.cli.init import init
from streamproc.cli.plan import plan
from streamproc.cli.public import pull, status, verify, watch
from streamproc.cli.replay import replay
from streamproc.cli.roles import gather_command, run, synthesize_command
from streamproc.cli.steward import close, restore, send


@click.group(context_settings={"help_option_names": ["-h", "--help"]}, no_args_is_help=False)
@click.version_option(package_name="streamproc")
def streamproc() -> None:
    """Continual release of differentially private synthetic data."""


for command in (
    demo,
    init,
    plan,
    replay,
    run,
    gather_command,
    synthesize_command,
    close,
    send,
    watch,
    pull,
    verify,
    restore,
    status,
):
    streamproc.add_command(command)


def main() -> NoReturn:
    """Run the command that the arguments name."""
    run_to_its_end(streamproc, "streamproc")
