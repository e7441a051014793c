"""How large the state file and the memory of a step may become, told from public values before anything is drawn.

How many synthetic people a `histogram` release has is noise, and so is the length of a number in a record. If a file whose
size depends on a draw could meet a full disk, whether the process ends would depend on the draw, and the next one would be
drawn knowing that. So there is room for any draw before the first number of it exists. The same holds for memory: the rows
that a step moves between symbols, for example, are as many as its random choices leave over.
"""

from __future__ import annotations

import math
import mmap

import numpy as np

from streamproc.errors import NotEnoughMemory
from streamproc.privacy.types import Period
from streamproc.protocol.columns import CHUNK_BYTES, ContractRecord
from streamproc.releases.contract import Contract, CumulativeContract, WindowContract
from streamproc.releases.row_assignment import TABLE_BITS, narrowest_dtype
from streamproc.releases.synthesis import Synthesis

NUMBER_BYTES = 8
"""Bytes of a count or a measurement."""
WEIGHT_BYTES = 2
"""Bytes of a synthetic person's weight."""
RECORD_OVERHEAD_BYTES = 1024
"""Bytes around what is counted here, of each record: names, digests, checksums."""
ROW_COUNT_STDDEVS = 10
"""Standard deviations that the number of synthetic people may be off: more has a chance below 1e-22."""


FIXED_MEMORY_BYTES = 1 << 20
"""Bytes of memory that no step needs more than once: working arrays of a chunk of rows, buffers of the encoder."""
ARRAYS_PER_BIN = 16
"""Arrays with a number for each bin that a step holds at once, at most, while it rounds, clamps and assigns."""
ARRAYS_PER_MOVED_ROW = 7
"""Arrays with a number for each row that may be moved to another symbol, while it is decided which rows are."""


def max_state_size(before: Synthesis) -> int:
    """At most so many bytes has the state file after the step that follows."""
    period = Period(before.period + 1)
    return (
        8 * RECORD_OVERHEAD_BYTES
        + 64 * len(before.redrawn)
        + sum(
            _of_cumulative(contract, period)
            if isinstance(contract, CumulativeContract)
            else _of_window(contract, period, before.rows(name))
            for name, contract in before.contracts.items()
        )
    )


def max_step_memory(before: Synthesis) -> int:
    """At most so many bytes of memory does the step that follows need, and its encoding, above what is held before it.

    What a step leaves behind adds up over the releases; what it needs while it runs is needed for one release at a time.
    To encode takes the arrays once more, a buffer that may have grown to twice the file, and two copies of the file.
    """
    period = Period(before.period + 1)
    needed = [_memory_of_step(contract, period, before.rows(name)) for name, contract in before.contracts.items()]
    left = sum(kept for kept, _ in needed)
    return FIXED_MEMORY_BYTES + left + max(*(working for _, working in needed), 4 * max_state_size(before))


def reserve_memory(size: int) -> None:
    """Allocate so many bytes, write to each of their pages, and give them back to this process and the system.

    Raises NotEnoughMemory where they cannot be had. Where the system grants more than it has, or a control group is
    limited, it ends a process that uses too much: here, at the latest, and so before anything is drawn. What another process
    takes after this returns is not covered.
    """
    try:
        block = np.empty(size, dtype=np.uint8)
    except MemoryError:
        raise NotEnoughMemory(size) from None
    block[:: mmap.PAGESIZE] = 1


def _memory_of_step(contract: Contract, period: Period, known: int | None) -> tuple[int, int]:
    """Bytes that the step of one release leaves behind, and those that it needs besides while it runs."""
    if isinstance(contract, CumulativeContract):
        horizon = contract.mechanism.horizon
        numbers = horizon * horizon + 2 * _measured(contract, period) + 8 * horizon
        return contract.n * (WEIGHT_BYTES + 1) + NUMBER_BYTES * numbers, _memory_to_assign(
            contract.n, 2 * (period + 1), period + 1
        )
    mechanism = contract.mechanism
    if period < mechanism.k:
        return 0, 0
    first, rows = period == mechanism.k, _rows(contract, known)
    code = np.dtype(narrowest_dtype(mechanism.bins)).itemsize
    columns, groups = (mechanism.k, 1) if first else (1, mechanism.bins // mechanism.q)
    working = NUMBER_BYTES * ARRAYS_PER_BIN * mechanism.bins + 2 * rows * code
    return rows * (code + columns) + 3 * NUMBER_BYTES * mechanism.bins, working + _memory_to_assign(
        rows, mechanism.bins, groups
    )


def _memory_to_assign(rows: int, cells: int, groups: int) -> int:
    """Bytes needed to find the rows that are moved between cells, each cell a symbol of a group.

    A cell of `c` rows has a standard deviation of at most the square root of `c`, and is expected to have 0.4 of that too
    many; twice as many are looked at, which is at most 0.8 times the square root of `rows * cells` for all cells together.
    To these come what the table of proportions is too coarse for, and 8 rows of each cell that has too many, which are
    about half of them.
    """
    coarse = rows >> max(1, min(16, TABLE_BITS - (groups - 1).bit_length()))
    moved = min(rows, max(rows // 32, 4 * math.isqrt(rows * cells) // 5 + coarse + 5 * cells))
    return NUMBER_BYTES * ARRAYS_PER_MOVED_ROW * moved


def _of_window(contract: WindowContract, period: Period, known: int | None) -> int:
    mechanism = contract.mechanism
    counts = NUMBER_BYTES * mechanism.bins
    rows = _rows(contract, known)
    if period < mechanism.k:
        return _frame(contract, rows, 0) + counts
    columns = mechanism.k if period == mechanism.k else 1
    return _frame(contract, rows, columns) + rows * np.dtype(narrowest_dtype(mechanism.bins)).itemsize + 2 * counts


def _rows(contract: WindowContract, known: int | None) -> int:
    """Synthetic people, or the most there can be while that is not known."""
    if known is not None:
        return known
    if contract.n_star is not None:
        return contract.n_star
    mechanism = contract.mechanism
    return (
        contract.expected_rows
        + math.ceil(ROW_COUNT_STDDEVS * mechanism.sigma_first * math.sqrt(mechanism.bins))
        + mechanism.bins
    )


def _of_cumulative(contract: CumulativeContract, period: Period) -> int:
    horizon = contract.mechanism.horizon
    # What is measured now is kept, and leaves too.
    numbers = horizon + 1 + period * horizon + 2 * _measured(contract, period)
    return _frame(contract, contract.n) + contract.n * WEIGHT_BYTES + NUMBER_BYTES * numbers


def _measured(contract: CumulativeContract, period: Period) -> int:
    """Noisy rows of all streams up to this period."""
    counter = contract.mechanism.counter
    return sum(counter.rows_at(period - b + 1).stop for b in range(1, period + 1))


def _frame(contract: Contract, rows: int, columns: int = 1) -> int:
    """The columns that leave, the contract, which leaves with the first of them and is kept, and what is around all that."""
    record = ContractRecord(contract, contract.n if isinstance(contract, CumulativeContract) else contract.expected_rows)
    packed = math.ceil(rows * record.bits / 8)
    return (
        columns * (packed + RECORD_OVERHEAD_BYTES * (1 + packed // CHUNK_BYTES))
        + 2 * len(record.encode())
        + 4 * RECORD_OVERHEAD_BYTES
    )
