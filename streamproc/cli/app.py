"""The command line: every command."""

from __future__ import annotations

from typing import NoReturn

import click

from streamproc.cli.ending import run_to_its_end
from streamproc.cli.plan import plan
from streamproc.cli.replay import replay


@click.group(context_settings={"help_option_names": ["-h", "--help"]}, no_args_is_help=False)
@click.version_option(package_name="streamproc")
def streamproc() -> None:
    """Continual release of differentially private synthetic data."""


streamproc.add_command(plan)
streamproc.add_command(replay)


def main() -> NoReturn:
    """Run the command that the arguments name."""
    run_to_its_end(streamproc, "streamproc")
