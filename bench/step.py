"""How long a synthesis step takes, as a multiple of drawing one float32 per row with NumPy, side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from statistics import median
from time import process_time

import numpy as np

from bench.result import Result
from bench.studies import Case, every_kind, shown

LIMIT = 6.0
SIZES = (1_000_000, 10_000_000)
QUICK_SIZES = (20_000,)


def measure(quick: bool = False) -> Iterator[Result]:
    """Each kind of step at each size."""
    for rows in QUICK_SIZES if quick else SIZES:
        # Together a second or two of work for each kind.
        rounds = max(3, min(51, 80_000_000 // rows)) if not quick else 3
        for case in every_kind(rows):
            yield Result(
                name=f"{case.name}, {shown(rows)} rows",
                value=step_ratio(case, rounds),
                unit="x",
                limit=LIMIT,
                ratio_of="drawing one float32 per row with NumPy",
            )


def step_ratio(case: Case, rounds: int) -> float:
    """The median over rounds of what a step takes over what drawing takes, both on one core.

    A round takes both, so that what slows the machine slows both; and it counts processor time, which other processes on the
    machine do not add to.
    """
    rng = np.random.default_rng()
    ratios = []
    for warm in range(-1, rounds):
        drawing = _seconds(lambda: rng.random(case.rows, dtype=np.float32))
        stepping = _seconds(case.step)
        if warm >= 0:
            ratios.append(stepping / drawing)
    return median(ratios)


def _seconds(work: Callable[[], object]) -> float:
    start = process_time()
    work()
    return process_time() - start
