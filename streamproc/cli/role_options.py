"""The options of every long-running role."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from streamproc.cli.deployment_options import on_deployment

if TYPE_CHECKING:
    from streamproc.service.deployment import Deployment


@dataclass(frozen=True)
class RoleOptions:
    """What every long-running role shows of itself, where, and for how long."""

    public: str | None
    operator: str | None
    stay: bool
    log_json: bool
    debug: bool


PUBLIC_HELP = "Serve the status page and public /metrics, /livez and /readyz there."

LOG_OPTIONS = (
    click.option("--log-json", is_flag=True, help="Log lines as JSON."),
    click.option("--debug", is_flag=True, help="More log lines."),
)

_OPTIONS = (
    click.option("--public", metavar="HOST:PORT", help=PUBLIC_HELP),
    click.option(
        "--operator",
        metavar="HOST:PORT",
        help="Serve the operator's /metrics, /livez and /readyz there; beyond this machine only with a token.",
    ),
    click.option("--stay", is_flag=True, help="Once the study is over, or the role refuses to go on, wait to be told."),
    *LOG_OPTIONS,
)


def role(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of every long-running role, as a `deployment` and a `serving`."""

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

    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return on_deployment(wrapped)
