"""How much memory a piece of work takes."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass
class Memory:
    """Bytes that Python's allocators gave out."""

    peak: int = 0
    """At most, besides what was in use before; known when the work is done."""


@contextmanager
def memory_taken() -> Iterator[Memory]:
    """By what is done inside."""
    memory = Memory()
    tracemalloc.start()
    try:
        yield memory
        memory.peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
