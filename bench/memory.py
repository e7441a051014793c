"""How many bytes a synthetic row takes: kept between periods, and at the peak of a step."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import numpy as np

from bench.result import Result
from bench.studies import Case, every_kind, shown

KEPT_LIMIT = 4.0
PEAK_LIMIT = 16.0


def measure(quick: bool = False) -> Iterator[Result]:
    """Each kind of step at a size where what does not grow with the rows hardly counts."""
    rows = 20_000 if quick else 1_000_000
    for case in every_kind(rows):
        state, step = case.step()
        del step
        yield _per_row(f"kept after a {case.name}", kept_bytes(state), rows, KEPT_LIMIT)
        yield _per_row(f"peak of a {case.name}", peak_bytes(case), rows, PEAK_LIMIT)


def kept_bytes(state: object) -> int:
    """What a state's arrays take."""
    parts = [item for value in vars(state).values() for item in (value if isinstance(value, tuple) else (value,))]
    return sum(part.nbytes for part in parts if isinstance(part, np.ndarray))


def peak_bytes(case: Case) -> int:
    """The most memory in use during a step: the state before it, and all that the step allocates, its outcome included."""
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        case.step()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return kept_bytes(case.state) + peak - before


def _per_row(name: str, size: int, rows: int, limit: float) -> Result:
    return Result(name=f"{name}, {shown(rows)} rows", value=size / rows, unit="bytes/row", limit=limit)
