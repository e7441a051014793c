"""Arguments and options that mean the same in every command."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from streamproc.errors import InvalidInput

if TYPE_CHECKING:
    from streamproc.study import Study

Command = TypeVar("Command", bound=Callable[..., Any])

study_argument = click.argument("study_path", metavar="STUDY", type=click.Path(path_type=Path))
"""The study file, as a Path; `read_study` refuses one that cannot be read."""

panel_argument = click.argument("panel_path", metavar="PANEL", type=click.Path(path_type=Path))
"""A panel file, as a Path."""

_unused = (
    click.option("--broker", expose_value=False, hidden=True),
    click.option("--state", expose_value=False, hidden=True),
)


def without_deployment(command: Command) -> Command:
    """Accept --broker and --state, which every command takes, in one that uses neither."""
    for option in _unused:
        command = option(command)
    return command


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs instead of tables for people.")

seed_option = click.option(
    "--seed",
    type=click.IntRange(min=0),
    metavar="N",
    help="Make the run repeatable. It then protects nobody, and whatever it writes says so (insecure).",
)

again_option = click.option(
    "--again",
    is_flag=True,
    help="Accept that some of these people are in another study, replay or broker: the costs add up.",
)


def check_period(option: str, period: int, study: Study) -> None:
    """Refuse a period after the last."""
    if period > study.horizon:
        raise InvalidInput(f"{option} {period}: the study has periods 1..{study.horizon}")
