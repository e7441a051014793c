"""What a release's noise costs, by the formulas of the design, in exact fractions and by brute force."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from typing import Any


def cost(contract: dict[str, Any], period: int) -> Fraction:
    """The exact cost, in zCDP under the contract's adjacency, of all noise drawn by the end of `period`."""
    return window_cost(contract, period) if contract["kind"] == "window" else cumulative_cost(contract, period)


def window_cost(contract: dict[str, Any], period: int) -> Fraction:
    """`R` steps; `F` of them can be of two histories that share an overlap."""
    q, k, zero_out = len(contract["alphabet"]), int(contract["k"]), contract["adjacency"] == "zero-out"
    r = period - k + 1
    if r < 1:
        return Fraction(0)
    first, later = Fraction(contract["sigma_first"]) ** 2, Fraction(contract["sigma_later"]) ** 2
    if contract["measure"] == "histogram":
        sensitivity = 1 if zero_out else 2
        return sensitivity / (2 * first) + (r - 1) * sensitivity / (2 * later)
    m = int(q**k)
    if zero_out:
        return m * (m - 1) / (2 * first) + (r - 1) * q * (q - 1) / (2 * later)
    shared = math.ceil(Fraction(r - 1, k))
    return m * m / first + shared * q * q / later + (r - 1 - shared) * q * (q - 1) / later


def counter_rows(counter: str, length: int) -> list[list[int]]:
    """The matrix of a counter, a list for each measurement made by the end of a stream of `length` items."""
    if counter == "sqrt":
        f = [Fraction(math.comb(2 * j, j), 4**j) for j in range(length)]
        rounded = [round(2**12 * each) for each in f]
        return [[rounded[t - j] if j <= t else 0 for j in range(length)] for t in range(length)]
    rows = []
    for end in range(1, length + 1):
        largest = end & -end
        sizes = [largest] if counter == "tree" else [1 << level for level in range(largest.bit_length())]
        rows += [[int(end - size <= item < end) for item in range(length)] for size in sizes]
    return rows


@cache
def _distance(counter: str, length: int, i: int | None, j: int | None) -> int:
    """`|C (e_i - e_j)|^2`; items from 0, None for never."""
    total = 0
    for row in counter_rows(counter, length):
        total += ((0 if i is None else row[i]) - (0 if j is None else row[j])) ** 2
    return total


def cumulative_cost(contract: dict[str, Any], period: int) -> Fraction:
    """The programme over `V_b(i, j)`: the `b`-th ones of two histories come at `i` and `j`, or never."""
    states: list[int | None] = [*range(1, period + 1), None]
    others: list[int | None] = [None] if contract["adjacency"] == "zero-out" else states
    before: dict[tuple[int | None, int | None], Fraction] | None = None
    for b in range(1, period + 1):
        weight = 1 / (2 * Fraction(contract["sigmas"][b - 1]) ** 2)
        now: dict[tuple[int | None, int | None], Fraction] = {}
        for i in states:
            for j in others:
                if (i is not None and i < b) or (j is not None and j < b):
                    continue
                best = Fraction(0)
                if before is not None:
                    best = max(cost for (x, y), cost in before.items() if _follows(x, i) and _follows(y, j))
                items = [None if time is None else time - b for time in (i, j)]
                now[i, j] = weight * _distance(contract["counter"], period - b + 1, *items) + best
        before = now
    assert before is not None
    return max(before.values())


def _follows(earlier: int | None, later: int | None) -> bool:
    """Whether a `b`-th one at `later` can come after a `(b-1)`-th at `earlier`."""
    return later is None or (earlier is not None and earlier < later)
