"""The command line: every command, imported when it is named, so that the quick ones are quick."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from copy import copy
from importlib import import_module
from typing import Any, NoReturn

import click

from streamproc.cli.ending import run_to_its_end
from streamproc.ports.environment import check_environment

_COMMANDS = {
    "demo": "demo:demo",
    "init": "init:init",
    "plan": "plan:plan",
    "replay": "replay:replay",
    "run": "roles:run",
    "gather": "roles:gather_command",
    "synthesize": "roles:synthesize_command",
    "close": "steward:close",
    "send": "send:send",
    "watch": "watch:watch",
    "pull": "pull:pull",
    "verify": "public:verify",
    "restore": "steward:restore",
    "purge": "purge:purge",
    "status": "public:status",
}
"""Each command's module, here in `streamproc.cli`, and its name there; in the order in which help lists them."""


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, _, name = _COMMANDS[cmd_name].partition(":")
        loaded = getattr(import_module(f"streamproc.cli.{module}"), name)
        assert isinstance(loaded, click.Command)
        command = copy(loaded)
        command.callback = _in_checked_environment(loaded.callback)
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
