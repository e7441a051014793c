"""`pull`: write the releases so far, and the ledger, as files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from streamproc.cli.event_loop import run_once
from streamproc.cli.formatting import warn_if_insecure, warn_if_not_begun
from streamproc.client.public_reader import PublicReader, period_to_dict, redrawn_periods
from streamproc.errors import VerificationFailed
from streamproc.files.release_files import results_folder, save_panel, write_json
from streamproc.panel.frames import check_arrow
from streamproc.protocol.ledger import PeriodRecord
from streamproc.protocol.ledger_verifier import VerifiedLedger
from streamproc.releases.replace_one import replace_one_costs
from streamproc.service.deployment import Deployment
from streamproc.study import Study

LEDGER = "ledger.json"


def pull(deployment: Deployment, *, folder: Path, parquet: bool) -> None:
    """Write the releases so far, and the ledger, into the folder.

    Raises VerificationFailed, before anything is written, if the topics do not verify or the folder holds an earlier pull of
    another ledger.
    """
    if parquet:
        check_arrow()
    public = run_once(deployment, deployment.read_public(), limit_time=False)
    warn_if_not_begun(deployment, public)
    # Everything is checked before the first file is written, so that a failure leaves no partial result.
    public.check_complete()
    if (earlier := _pulled_head(folder / LEDGER)) is not None:
        if public.ledger is None:
            return click.echo(f"{folder}: the files of an earlier pull are kept", err=True)
        _check_continues(folder / LEDGER, earlier, public.ledger)
    panels = {release.name: public.panel(release.name) for release in deployment.study.releases}
    results_folder(folder, list(panels), ())
    for name, panel in panels.items():
        if panel is not None:
            save_panel(panel, folder / f"{name}.csv")
            if parquet:
                save_panel(panel, folder / f"{name}.parquet")
    write_json(folder / LEDGER, _ledger_to_dict(deployment.study, public))
    horizon = deployment.study.horizon
    click.echo(f"period {public.period}{'' if horizon is None else f' of {horizon}'}: wrote {folder}")
    warn_if_insecure(public)


def _pulled_head(path: Path) -> bytes | None:
    """Return the head of the ledger that an earlier `pull` wrote to `path`; None if there is none."""
    try:
        return bytes.fromhex(json.loads(path.read_bytes())["head"])
    except (OSError, ValueError, LookupError, TypeError):
        return None


def _check_continues(path: Path, head: bytes, ledger: VerifiedLedger) -> None:
    """Raise VerificationFailed if `head`, from the earlier pull at `path`, is not the head of a prefix of this ledger."""
    if head not in {ledger.head, *(record.previous for record in ledger.periods)}:
        raise VerificationFailed(
            f"{path}: its head is not in the ledger that was read, so it belongs to another study or run. Check the "
            "broker's address, or pull into another folder."
        )


def _ledger_to_dict(study: Study, public: PublicReader) -> dict[str, Any]:
    """Return the ledger as plain values, with digests in hexadecimal, and the contracts of the releases."""
    ledger = public.ledger
    if ledger is None:
        return {"study": None, "periods": []}
    costs, redrawn = replace_one_costs(study), redrawn_periods(ledger.periods)
    return {
        "study": dict(ledger.study.study),
        "fingerprint": ledger.study.fingerprint.hex(),
        "insecure": ledger.study.insecure,
        "n": public.n,
        "contracts": {name: contract.to_dict() for name, contract in public.contracts().items()},
        "head": ledger.head.hex(),
        "periods": [_with_measurements(ledger, record, period_to_dict(record, costs, redrawn)) for record in ledger.periods],
    }


def _with_measurements(ledger: VerifiedLedger, record: PeriodRecord, fields: dict[str, Any]) -> dict[str, Any]:
    for name, entry in fields["releases"].items():
        entry["measurements"] = ledger.measurements[name, record.period].tolist()
    return fields
