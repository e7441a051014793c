"""The tree counter from its definition, in plain code that shares nothing with `streamproc`."""

from __future__ import annotations

Row = tuple[int, list[int]]
"""The local time at which a row is measured, and its coefficients on the items of the stream."""


def counter_rows(length: int) -> list[Row]:
    """The rows the tree measures on a stream of `length` items, in the order of their times."""
    rows: list[Row] = []
    for time in range(1, length + 1):
        size = max(size for size in (2**level for level in range(20)) if time % size == 0)
        rows.append((time, [int(time - size < item <= time) for item in range(1, length + 1)]))
    return rows
