"""The ledger's periods as JSON can hold them: the same in the files that `pull` writes and on the status page."""

from __future__ import annotations

from typing import Any

from streamproc.wire.ledger import PeriodRecord


def period_to_dict(record: PeriodRecord) -> dict[str, Any]:
    """A period's record without its measurements; digests in hexadecimal."""
    return {
        "period": record.period,
        "rho_spent": record.rho_spent,
        "previous": record.previous.hex(),
        "abandoned": [digest.hex() for digest in record.abandoned],
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
