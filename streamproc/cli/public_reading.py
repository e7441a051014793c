"""Reading everything public of a study, for the commands `status`, `verify` and `pull`, and the warnings they share."""

from __future__ import annotations

import click

from streamproc.cli.formatting import INSECURE
from streamproc.client.public_reader import PublicReader
from streamproc.log.port import Log
from streamproc.service.deployment import Deployment


async def read_public(deployment: Deployment) -> PublicReader:
    """Connect, and read the ledger and all columns to their end. Creates no topic."""
    async with deployment.connect() as log:
        return await catch_up_public(log, deployment)


async def catch_up_public(log: Log, deployment: Deployment) -> PublicReader:
    """Read the ledger and all columns to their end. The reader returned is closed, and keeps what it has read."""
    public = PublicReader(log, deployment.study)
    try:
        await public.catch_up()
        return public
    finally:
        await public.close()


def population_size(public: PublicReader) -> int | None:
    """Return `n`, which the contracts state; None before the first column."""
    return next((contract.n for contract in public.contracts().values()), None)


def is_insecure(public: PublicReader) -> bool | None:
    """Return whether the study's noise came from a seed; None before the study began."""
    return public.ledger.study.insecure if public.ledger else None


def warn_if_insecure(public: PublicReader) -> None:
    """Print a warning on standard error if the study's noise came from a seed."""
    if is_insecure(public):
        click.echo(INSECURE, err=True)


def warn_if_not_begun(deployment: Deployment, public: PublicReader) -> None:
    """Print a line on standard error if there is no ledger yet: the address of the broker may be mistyped."""
    if public.ledger is None:
        click.echo(f"{deployment.broker.url}: holds no ledger of {deployment.study.name} yet", err=True)
