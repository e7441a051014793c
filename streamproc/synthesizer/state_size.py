"""How large the state file and the memory of a step may become, computed from public values before anything is drawn.

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
from streamproc.protocol.snapshots import BYTES_PER_ROW, CHUNK_ROWS, has_summary
from streamproc.releases.kind import NUMBER_BYTES, Contract, ReleaseState
from streamproc.releases.synthesis import Synthesis

RECORD_OVERHEAD_BYTES = 1024
"""Bytes around what is counted here, of each record: names, digests, checksums."""
FIXED_MEMORY_BYTES = 1 << 20
"""Bytes of memory that no step needs more than once: working arrays of a chunk of rows, buffers of the encoder."""


def max_state_size(before: Synthesis) -> int:
    """The most bytes that the state file can have after the next step."""
    period = Period(before.period + 1)
    releases = sum(_release_bytes(contract, period, before.states[name]) for name, contract in before.contracts.items())
    return 8 * RECORD_OVERHEAD_BYTES + 64 * len(before.redrawn) + releases


def max_step_memory(before: Synthesis) -> int:
    """The most bytes of memory that the next step and its encoding need, above what is held before it.

    What a step leaves behind adds up over the releases; what it needs while it runs is needed for one release at a time.
    To encode takes the arrays once more, a buffer that may have grown to twice the file, and two copies of the file.
    """
    period = Period(before.period + 1)
    needed = [
        contract.step_memory(period, contract.max_column_rows(before.states[name]))
        for name, contract in before.contracts.items()
    ]
    kept = sum(memory.kept for memory in needed)
    return FIXED_MEMORY_BYTES + kept + max(*(memory.working for memory in needed), 4 * max_state_size(before))


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


def _release_bytes(contract: Contract, period: Period, before: ReleaseState) -> int:
    """The columns that leave, the contract, which leaves with the first of them and is kept, and the state itself."""
    rows, columns = contract.max_column_rows(before), contract.columns_in(period)
    record = ContractRecord(contract, contract.expected_rows)
    packed = math.ceil(rows * record.bits / 8)
    published = columns * (packed + RECORD_OVERHEAD_BYTES * (1 + packed // CHUNK_BYTES))
    kept = (rows * contract.row_bytes if columns else 0) + NUMBER_BYTES * contract.state_numbers(period)
    if contract.is_open and has_summary(period):
        published += rows * BYTES_PER_ROW + RECORD_OVERHEAD_BYTES * (2 + rows // CHUNK_ROWS)
        published += NUMBER_BYTES * contract.state_numbers(period)
    return published + kept + 2 * sum(map(len, record.encode())) + 4 * RECORD_OVERHEAD_BYTES
