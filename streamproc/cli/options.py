"""Arguments and options of the commands, and the decorators that add groups of them to a command.

This module imports nothing slow, because `declarations` needs it to show help.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from streamproc.errors import InvalidInput

if TYPE_CHECKING:
    from streamproc.service.deployment import Deployment
    from streamproc.study import Study

Command = TypeVar("Command", bound=Callable[..., Any])

# Options of single commands

study_argument = click.argument("study_path", metavar="STUDY", type=click.Path(path_type=Path))
"""The study file, as a Path. Whether it can be read is checked when it is read."""

panel_argument = click.argument("panel_path", metavar="PANEL", type=click.Path(path_type=Path))
"""A panel file, as a Path. Whether it can be read is checked when it is read."""

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs instead of tables for people.")

seed_option = click.option(
    "--seed",
    type=click.IntRange(min=0),
    metavar="N",
    help="Make the run repeatable. It then protects nobody, and everything it writes is marked as insecure.",
)

again_option = click.option(
    "--again",
    is_flag=True,
    help="Accept that some of these people are in another study, replay or broker: the costs add up.",
)

BROKER_TIMEOUT_HELP = "Seconds before giving up on a broker that does not answer. The work itself has no time limit."


def timeout_option(help_text: str = "Seconds before giving up.") -> Callable[[Command], Command]:
    """Return the option `--timeout`, in seconds, with a help text that says what it limits."""
    seconds = click.FloatRange(min=0.1)
    return click.option("--timeout", metavar="SECONDS", type=seconds, default=30.0, show_default=True, help=help_text)


def check_period(option: str, period: int, study: Study) -> None:
    """Raise InvalidInput, naming the option, if `period` is after the last period of the study."""
    if period > study.last_period:
        has = "the study has" if study.horizon is not None else "a study without a horizon has at most"
        raise InvalidInput(f"{option} {period}: {has} periods 1..{study.last_period}")


# STUDY, --broker and --state

_DEPLOYMENT_OPTIONS = (
    study_argument,
    click.option(
        "--broker",
        metavar="URL",
        help="Where the topics are: embedded:FOLDER (relative to the working folder) or kafka://host:port,... "
        "Default: STREAMPROC_BROKER, else the study's broker.url.",
    ),
    click.option(
        "--state",
        metavar="DIR",
        type=click.Path(path_type=Path),
        help="The folder in which run, gather, synthesize, restore and purge keep state; other commands ignore it. "
        "Default: STREAMPROC_STATE, else NAME.state beside STUDY.",
    ),
)

_IGNORED_OPTIONS = (
    click.option("--broker", expose_value=False, hidden=True),
    click.option("--state", expose_value=False, hidden=True),
)


def with_deployment(command: Callable[..., None]) -> Callable[..., None]:
    """Add STUDY, --broker and --state to a command, which receives them as one `Deployment`, its first argument."""

    @functools.wraps(command)
    def wrapped(
        study_path: Path,
        broker: str | None,
        state: Path | None,
        timeout: float = 30.0,
        seed: int | None = None,
        **others: Any,
    ) -> None:
        from streamproc.service.deployment import Deployment  # slow to import, and help does not need it

        deployment = Deployment.of(study_path, broker=broker, state=state, timeout=timeout, seed=seed)
        notice = f"connecting to {deployment.broker.url}, giving up after {timeout:g} s"
        command(replace(deployment, on_slow_connection=functools.partial(click.echo, notice, err=True)), **others)

    for option in reversed(_DEPLOYMENT_OPTIONS):
        wrapped = option(wrapped)
    return wrapped


def ignore_deployment_options(command: Command) -> Command:
    """Accept and ignore --broker and --state, so that scripts can pass them to every command."""
    for option in _IGNORED_OPTIONS:
        command = option(command)
    return command


# Options of long-running roles


@dataclass(frozen=True)
class RoleOptions:
    """The options that `run`, `gather` and `synthesize` have in common."""

    public: str | None
    """Address of the public listener, HOST:PORT; None for no listener."""
    operator: str | None
    """Address of the operator's listener, HOST:PORT; None for no listener."""
    stay: bool
    """Whether the process keeps running after the study is over or the role has refused to continue."""
    log_json: bool
    debug: bool


PUBLIC_HELP = "Serve the status page and public /metrics, /livez and /readyz there."

LOG_OPTIONS = (
    click.option("--log-json", is_flag=True, help="Log lines as JSON."),
    click.option("--debug", is_flag=True, help="More log lines."),
)

_ROLE_OPTIONS = (
    click.option("--public", metavar="HOST:PORT", help=PUBLIC_HELP),
    click.option(
        "--operator",
        metavar="HOST:PORT",
        help="Serve the operator's /metrics, /livez and /readyz there; beyond this machine only with a token.",
    ),
    click.option(
        "--stay",
        is_flag=True,
        help="Keep the process and its listeners up after the study is over, or after the role refuses to continue, "
        "until a signal stops it.",
    ),
    *LOG_OPTIONS,
)


def with_role_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of long-running roles to a command, which receives a `Deployment` and `RoleOptions`."""

    @functools.wraps(command)
    def wrapped(
        deployment: Deployment,
        *,
        public: str | None,
        operator: str | None,
        stay: bool,
        log_json: bool,
        debug: bool,
        **others: Any,
    ) -> None:
        command(deployment, RoleOptions(public, operator, stay, log_json, debug), **others)

    for option in reversed(_ROLE_OPTIONS):
        wrapped = option(wrapped)
    return with_deployment(wrapped)
