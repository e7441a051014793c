"""How long a period of a window release with as many bins as a release may have takes: measuring, rounding, assigning."""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter

from bench.result import Result
from bench.studies import shown, window_of_people

LIMIT = 10.0
"""Seconds a period."""
SIZES = ((2, 16), (4, 8), (16, 4))
"""Symbols and periods of a window: 65,536 bins each. Four symbols have the most measurements, 312,500."""
QUICK_SIZES = ((2, 6), (4, 3), (8, 2))


def measure(quick: bool = False) -> Iterator[Result]:
    """One step each, with full windows and all of the noise, which another process draws."""
    people = 1000 if quick else 1_000_000
    for q, k in QUICK_SIZES if quick else SIZES:
        case = window_of_people(people, q, k)
        start = perf_counter()
        case.step()
        seconds = perf_counter() - start
        name = f"a period of {q**k} bins, q={q} k={k}, {shown(people)} people"
        yield Result(name=name, value=seconds, unit="s", limit=LIMIT)
