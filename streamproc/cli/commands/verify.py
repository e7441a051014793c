"""`verify`: check the ledger's chain, every column and the spending."""

from __future__ import annotations

import json

import click

from streamproc.cli.event_loop import run_once
from streamproc.cli.formatting import format_count, warn_if_insecure
from streamproc.errors import NoLedger, VerificationFailed
from streamproc.service.deployment import Deployment


def verify(deployment: Deployment, *, as_json: bool) -> None:
    """Verify the ledger's chain, and recompute every digest and the spending.

    Raises VerificationFailed (exit 4) if anything differs, and NoLedger (exit 6) if there is no ledger of this study.
    """
    study = deployment.study
    try:
        public = run_once(deployment, deployment.read_public(), limit_time=False)
        public.check_complete()
    except VerificationFailed as failed:
        if as_json:
            click.echo(json.dumps({"study": study.name, "verified": False, "problem": str(failed)}))
        raise
    columns = sum(len(public.columns(release.name)) for release in study.releases)
    head = public.ledger.head.hex() if public.ledger else None
    if as_json:
        result = {"study": study.name, "verified": True if head else None, "periods": public.period, "columns": columns}
        click.echo(json.dumps(result | {"head": head, "insecure": public.insecure}))
    if head is None:
        raise NoLedger(study.name, deployment.broker.url)
    if not as_json:
        verified = f"{format_count(public.period, 'period')}, {format_count(columns, 'column')} verified"
        click.echo(f"{study.name}: {verified}, head {head}")
        warn_if_insecure(public)
