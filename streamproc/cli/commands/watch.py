"""`watch`: print a line for each column as it is released."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import click

from streamproc.cli.event_loop import run_until_stopped, until_stdout_closes
from streamproc.cli.formatting import INSECURE
from streamproc.client.subscribe import ReleasedColumn, subscribe
from streamproc.errors import UnsupportedQuery
from streamproc.privacy.types import Period
from streamproc.releases.query import Present, Query
from streamproc.service.deployment import Deployment


def watch(deployment: Deployment, *, as_json: bool, release: str | None) -> None:
    """Print a line, or a JSON object, per column until the last period is released."""

    def print_waiting(periods: Mapping[str, Period]) -> None:
        awaited = ", ".join(f"period {period} of {name}" for name, period in periods.items())
        click.echo(f"{deployment.broker.url}: waiting for {awaited}; Ctrl-C ends", err=True)

    waits = None if as_json else print_waiting

    async def show() -> None:
        warned = as_json
        async with deployment.connect() as log:
            columns = subscribe(log, deployment.study, release, timeout=deployment.timeout, waits=waits)
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
    """Return estimated shares of the real people with 95% half-widths, of the queries that describe a column best."""
    asked = column.panel.contract.headline_queries()
    shares = [f"{one.name} {_share(column, one.query)}" for one in asked]
    return ", ".join([_present(column), *shares] if column.panel.contract.is_open else shares)


def _present(column: ReleasedColumn) -> str:
    """Return how many people are present, with the half-width of the interval."""
    present = column.panel.people(Present(), column.period)
    return f"{present.value:,.0f} ±{(present.high - present.low) / 2:,.0f} present"


def _share(column: ReleasedColumn, query: Query) -> str:
    """Return a share with the half-width of its interval; in an open study there may be too few people to be asked."""
    try:
        answer = column.panel.fraction(query, column.period)
    except UnsupportedQuery:
        if not column.panel.contract.is_open:
            raise
        return "of too few people"
    return f"{answer.value:.1%} ±{(answer.high - answer.low) / 2:.1%}"
