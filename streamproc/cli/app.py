"""The command line: the group of all commands."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from copy import copy
from typing import Any, NoReturn

import click

from streamproc.cli.commands import COMMANDS
from streamproc.cli.ending import run_to_its_end
from streamproc.ports.environment import check_environment

_COMMANDS = {str(command.name): command for command in COMMANDS}


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command = copy(_COMMANDS[cmd_name])
        command.callback = _in_checked_environment(command.callback)
        return command


def _in_checked_environment(callback: Callable[..., Any] | None) -> Callable[..., Any]:
    """The callback of a command, run after the environment is checked.

    Click calls it after it has parsed the command's arguments, so `--help` works in every environment.
    """
    assert callback is not None

    @functools.wraps(callback)
    def checked(*arguments: Any, **options: Any) -> Any:
        check_environment(os.environ)
        return callback(*arguments, **options)

    return checked


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]}, no_args_is_help=False)
@click.version_option(package_name="streamproc")
def streamproc() -> None:
    """Continual release of differentially private synthetic data."""


def main() -> NoReturn:
    """Run the command that the arguments name."""
    run_to_its_end(streamproc, "streamproc")
