"""The metadata of a panel as one JSON text: its contract, its measurements, and a digest of each column.

They make a file self-contained: every reader gets the same answers with the same error bars. The digests detect a table that
was filtered or edited with a library that preserves the metadata.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from streamproc.errors import InvalidInput, StudyError
from streamproc.panel.column_packing import bits_for, column_digest
from streamproc.panel.panel import Panel
from streamproc.privacy.types import IntArray, Period
from streamproc.releases.contracts import contract_from_values
from streamproc.releases.kind import Contract
from streamproc.releases.step import Column, Measurements
from streamproc.validation import format_value

VERSION = 1


@dataclass(frozen=True, eq=False)
class Metadata:
    """Everything of a panel except its columns."""

    contract: Contract
    measurements: tuple[Measurements, ...] | None = None
    """As a Panel has them; None if only the columns are known."""
    digests: tuple[str, ...] | None = None
    """SHA-256 of each packed column, in hexadecimal; None if the columns cannot be checked."""

    def panel_of(self, columns: Sequence[Column]) -> Panel:
        """The panel of these columns. Raises InvalidInput if they do not match the contract, digests or measurements."""
        _check_shape(self.contract, columns)
        if self.digests is not None and list(self.digests) != _digests(self.contract, columns):
            raise InvalidInput("the columns do not match the digests in the metadata: rows or symbols were changed")
        if self.measurements is not None:
            _check_measurements(self.contract, self.measurements, len(columns))
        try:
            return Panel(self.contract, tuple(columns), self.measurements)
        except ValueError as error:
            # The columns of an open study depend on those before them.
            raise InvalidInput(f"the columns do not belong together: {error}") from None


def metadata_text(panel: Panel) -> str:
    """Everything except the columns, as JSON."""
    measurements = None
    if panel.measurements is not None:
        measurements = [[rows.tolist() for rows in period] for period in panel.measurements]
    values = {
        "v": VERSION,
        "contract": panel.contract.to_dict(),
        "measurements": measurements,
        "digests": _digests(panel.contract, panel.columns),
    }
    return json.dumps(values, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def metadata_from_text(text: str | bytes) -> Metadata:
    """Parse the text that `metadata_text` wrote. Raises InvalidInput for any other text."""
    try:
        values = json.loads(text, parse_constant=_refuse)
        if values.keys() != {"v", "contract", "measurements", "digests"} or values["v"] != VERSION:
            _refuse()
        contract = contract_of_file(values["contract"])
        return Metadata(contract, _measurements(values["measurements"]), tuple(map(str, values["digests"])))
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        _refuse()


def _refuse(*_: object) -> NoReturn:
    raise InvalidInput("the metadata under the key streamproc is not what this version of streamproc writes") from None


def contract_of_file(values: dict[str, Any]) -> Contract:
    """The contract in `values`, which must contain nothing else."""
    contract = contract_from_values(
        values, lambda field, got, expected: StudyError(f"contract.{field}", format_value(got), expected)
    )
    # A missing or superfluous value, or one of another type, makes the two texts differ.
    if _canonical(contract.to_dict()) != _canonical(values):
        _refuse()
    return contract


def _canonical(values: dict[str, Any]) -> str:
    return json.dumps(values, sort_keys=True, allow_nan=False)


def _measurements(values: list[list[list[int]]] | None) -> tuple[list[IntArray], ...] | None:
    return None if values is None else tuple([_integers(rows) for rows in period] for period in values)


def _integers(values: list[int]) -> IntArray:
    if not all(type(value) is int for value in values):
        _refuse()
    return np.array(values, dtype=np.int64)


def _digests(contract: Contract, columns: Sequence[Column]) -> list[str]:
    bits = bits_for(contract.column_codes)
    return [column_digest(column, bits).hex() for column in columns]


def _check_shape(contract: Contract, columns: Sequence[Column]) -> None:
    """Raise InvalidInput for a number of rows or columns that this release cannot have."""
    horizon, first, periods = contract.horizon, contract.first_column, len(columns)
    if not (periods == 0 or first <= periods <= horizon):
        raise InvalidInput(f"release {contract.name} has {first} to {horizon} periods, but there are {periods}")
    if periods and contract.n_star not in (None, len(columns[0])):
        raise InvalidInput(f"release {contract.name} has {contract.n_star} synthetic people, not {len(columns[0])}")


def _check_measurements(contract: Contract, measurements: Sequence[Measurements], periods: int) -> None:
    """Raise InvalidInput if the measurements do not have the shape of the first `periods` periods of this release."""
    # The first columns are released together, so earlier periods have an entry here but no column.
    passed = periods or min(len(measurements), contract.first_column - 1)
    due = [contract.measurement_sizes(Period(period)) for period in range(1, passed + 1)]
    if [[len(row) for row in period] for period in measurements] != due:
        raise InvalidInput(f"the measurements are not those of {periods} periods of release {contract.name}")
