"""`watch`: print a line for each column as it is released."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import click

from streamproc.cli.event_loop import run_until_stopped, until_stdout_closes
from streamproc.cli.formatting import INSECURE
from streamproc.client.subscribe import ReleasedColumn, subscribe
from streamproc.panel import AtLeast, Query, exactly
from streamproc.privacy.types import Period
from streamproc.releases.contract import WindowContract
from streamproc.service.deployment import Deployment

_SYMBOLS_SHOWN = 8
"""Maximum number of symbols on the line of a window release, so that it fits a terminal."""


def watch(deployment: Deployment, *, as_json: bool, release: str | None) -> None:
    """Print a line, or a JSON object, per column until the last period is released."""

    def print_waiting(periods: Mapping[str, Period]) -> None:
        awaited = ", ".join(f"period {period} of {name}" for name, period in periods.items())
        click.echo(f"{deployment.broker.url}: waiting for {awaited}; Ctrl-C ends", err=True)

    waits = None if as_json else print_waiting

    async def show() -> None:
        warned = as_json
        async with deployment.connect() as log:
            columns = subscribe(log, deployment.study, release, patience=deployment.timeout, waits=waits)
            async for column in columns:
                if not warned and column.panel.contract.insecure:
                    click.echo(INSECURE, err=True)
                    warned = True
                click.echo(json.dumps(_column_to_dict(column)) if as_json else _column_line(column))

    run_until_stopped(until_stdout_closes(show()))


def _column_to_dict(column: ReleasedColumn) -> dict[str, Any]:
    """Return the object that `watch --json` prints."""
    fields = {
        "release": column.release,
        "period": column.period,
        "rows": len(column.column),
        "digest": column.digest.hex(),
    }
    return fields | {"insecure": True} if column.panel.contract.insecure else fields


def _column_line(column: ReleasedColumn) -> str:
    rows, digest = f"{len(column.column):,} rows", column.digest.hex()[:12]
    return f"{column.release} period {column.period}: {_shares(column)}; {rows}, sha256 {digest}"


def _shares(column: ReleasedColumn) -> str:
    """Return estimated shares of the real people with 95% half-widths.

    For a window release these are the shares of its symbols, else the share of people with at least one event so far.
    """
    contract = column.panel.contract
    queries: list[tuple[str, Query]]
    if isinstance(contract, WindowContract):
        queries = [(symbol, exactly(symbol)) for symbol in contract.alphabet[:_SYMBOLS_SHOWN]]
    else:
        queries = [("at least one so far", AtLeast(1))]
    answers = [(name, column.panel.fraction(query, column.period)) for name, query in queries]
    return ", ".join(f"{name} {a.value:.1%} ±{(a.high - a.low) / 2:.1%}" for name, a in answers)
