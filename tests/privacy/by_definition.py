"""Counters from their definitions, in plain code that shares nothing with `streamproc`: what the tests compare against."""

from __future__ import annotations

from fractions import Fraction
from math import comb

Row = tuple[int, list[int]]
"""The local time at which a row is measured, and its coefficients on the items of the stream."""


def counter_rows(name: str, length: int) -> list[Row]:
    """The rows a counter measures on a stream of `length` items, in the order of their times."""
    rows: list[Row] = []
    for time in range(1, length + 1):
        if name == "sqrt":
            rows.append((time, [sqrt_coefficient(time - item) if item <= time else 0 for item in range(1, length + 1)]))
            continue
        sizes = [size for size in (2**level for level in range(20)) if time % size == 0]
        for size in sizes if name == "honaker" else sizes[-1:]:
            rows.append((time, [int(time - size < item <= time) for item in range(1, length + 1)]))
    return rows


def sqrt_coefficient(lag: int) -> int:
    """`rint(2^12 binom(2j, j) / 4^j)`, from integers."""
    return round(Fraction(2**12 * comb(2 * lag, lag), 4**lag))
