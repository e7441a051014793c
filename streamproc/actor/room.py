"""How large the state file may become, told from public values before anything is drawn.

How many synthetic people a `histogram` release has is noise, and so is the length of a number in a record. If a file whose
size depends on a draw could meet a full disk, whether the process ends would depend on the draw, and the next one would be
drawn knowing that. So there is room for any draw before the first number of it exists.
"""

from __future__ import annotations

import math

import numpy as np

from streamproc.privacy.quantities import Period
from streamproc.synth.contract import Contract, CumulativeContract, WindowContract
from streamproc.synth.rows import narrowest
from streamproc.synth.synthesis import Synthesis
from streamproc.wire.columns import CHUNK_BYTES
from streamproc.wire.contracts import ContractRecord

NUMBER = 8
"""Bytes of a count or a measurement."""
WEIGHT = 2
"""Bytes of a synthetic person's weight."""
FRAME = 1024
"""Bytes around what is counted here, of each record: names, digests, checksums."""
SPREAD = 10
"""Standard deviations that the number of synthetic people may be off: more has a chance below 1e-22."""


def most_bytes(before: Synthesis) -> int:
    """At most so many bytes has the state file after the step that follows."""
    period = Period(before.period + 1)
    return (
        8 * FRAME
        + 64 * len(before.redrawn)
        + sum(
            _of_cumulative(contract, period)
            if isinstance(contract, CumulativeContract)
            else _of_window(contract, period, before.rows(name))
            for name, contract in before.contracts.items()
        )
    )


def _of_window(contract: WindowContract, period: Period, known: int | None) -> int:
    mechanism = contract.mechanism
    counts = NUMBER * mechanism.bins
    rows = _most_rows(contract) if known is None else known
    if period < mechanism.k:
        return _frame(contract, rows, 0) + counts
    columns = mechanism.k if period == mechanism.k else 1
    return _frame(contract, rows, columns) + rows * np.dtype(narrowest(mechanism.bins)).itemsize + 2 * counts


def _most_rows(contract: WindowContract) -> int:
    if contract.n_star is not None:
        return contract.n_star
    mechanism = contract.mechanism
    return contract.expected_rows + math.ceil(SPREAD * mechanism.sigma_first * math.sqrt(mechanism.bins)) + mechanism.bins


def _of_cumulative(contract: CumulativeContract, period: Period) -> int:
    counter, horizon = contract.mechanism.counter, contract.mechanism.horizon
    measured: int = sum(counter.rows_at(period - b + 1).stop for b in range(1, period + 1))
    # What is measured now is kept, and leaves too.
    numbers = horizon + 1 + period * horizon + 2 * measured
    return _frame(contract, contract.n) + contract.n * WEIGHT + NUMBER * numbers


def _frame(contract: Contract, rows: int, columns: int = 1) -> int:
    """The columns that leave, the contract, which leaves with the first of them and is kept, and what is around all that."""
    record = ContractRecord(contract, contract.n if isinstance(contract, CumulativeContract) else contract.expected_rows)
    packed = math.ceil(rows * record.bits / 8)
    return columns * (packed + FRAME * (1 + packed // CHUNK_BYTES)) + 2 * len(record.encode()) + 4 * FRAME
