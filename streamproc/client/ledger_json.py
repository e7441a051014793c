"""The periods and costs of a ledger as JSON values, for the output of commands and for the status page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from streamproc.privacy.types import Period
from streamproc.privacy.zcdp import epsilon_of_rho
from streamproc.protocol.ledger import PeriodRecord
from streamproc.protocol.ledger_verifier import VerifiedLedger
from streamproc.releases.replace_one import ReplaceOneCosts
from streamproc.study import Study


def redrawn_periods(records: Sequence[PeriodRecord]) -> list[Period]:
    """The periods that were drawn again after an accepted loss, each as often as that happened."""
    return [record.period for record in records for _ in record.abandoned]


def period_to_dict(
    record: PeriodRecord, costs: ReplaceOneCosts | None = None, redrawn: Sequence[Period] = ()
) -> dict[str, Any]:
    """The record of a period without its measurements; digests are in hexadecimal.

    For a zero-out study `costs` adds the cost of the same noise under replace-one, if that is quick to compute. `redrawn`
    are the periods of the ledger that were drawn again.
    """
    found: dict[str, Any] = {
        "period": record.period,
        "rho_spent": record.rho_spent,
        "previous": record.previous.hex(),
        "abandoned": [digest.hex() for digest in record.abandoned],
        "salt": None if record.salt is None else record.salt.hex(),
        "releases": {
            name: {
                "rho": entry.rho,
                "rho_spent": entry.rho_spent,
                "clamped": entry.clamped,
                "n_star": entry.n_star,
                "columns": {str(period): digest.hex() for period, digest in entry.columns},
            }
            for name, entry in record.releases.items()
        },
    }
    if costs is not None and costs.every_period_is_quick:
        found["rho_spent_replace_one"] = costs.of_study(record.period, redrawn)
        for name, entry in found["releases"].items():
            entry["rho_spent_replace_one"] = costs.of_release(name, record.period, redrawn)
    return found


def add_replace_one(
    found: dict[str, Any],
    releases: Mapping[str, dict[str, Any]],
    study: Study,
    ledger: VerifiedLedger | None,
    costs: ReplaceOneCosts,
) -> None:
    """Add the cost of the same noise under replace-one to the status of a zero-out study and to each of its releases."""
    records = ledger.periods if ledger else ()
    released, redrawn, delta = len(records), redrawn_periods(records), study.privacy.delta
    planned, spent = costs.of_study(study.horizon), costs.of_study(released, redrawn)
    figures = {
        "rho": planned,
        "epsilon": epsilon_of_rho(planned, delta),
        "rho_spent": spent,
        "epsilon_spent": epsilon_of_rho(spent, delta),
    }
    found |= {f"{key}_replace_one": figure for key, figure in figures.items() if key in found}
    for name, release in releases.items():
        release["rho_replace_one"] = costs.of_release(name, study.horizon)
        release["rho_spent_replace_one"] = costs.of_release(name, released, redrawn)
