"""Memory that must be there before noise is drawn."""

from __future__ import annotations

import mmap

import numpy as np

from streamproc.errors import NotEnoughMemory


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
