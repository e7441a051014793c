"""Assigns symbols to synthetic rows: a uniformly random choice among the rows of each group, with exact counts.

Each row first draws its symbol independently, from a small table of its group's proportions. Each count is then off by
about the square root of the group's size. The few surplus rows are picked at random and moved to the symbols that have too
few. Every step treats the rows of a group alike, so the result is uniform over all assignments with the given counts,
however coarse the table is.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from streamproc.privacy.types import FloatArray, IntArray

Codes: TypeAlias = npt.NDArray[np.unsignedinteger[Any]]
"""A small number per synthetic row: its window, its overlap, its weight or its symbol."""

_CHUNK = 1 << 16
"""Rows per chunk. The working arrays fit into the cache, and the peak of memory does not grow with the panel."""

TABLE_BITS = 18
"""Size of the table of all groups, as a power of two: small enough for the cache."""


ARRAYS_PER_MOVED_ROW = 7
"""Number of arrays with an entry for each row that may be moved to another symbol, while the rows are selected."""


def narrowest_dtype(states: int) -> type[np.uint8] | type[np.uint16]:
    """The type for codes `0..states-1`; no study has more than 65,536 bins, and a code must never wrap around."""
    if states > 1 << 16:
        raise ValueError(f"codes fit 16 bits, got {states} states")
    return np.uint8 if states <= 1 << 8 else np.uint16


def last_symbols(windows: Codes, states: int) -> Codes:
    """`windows mod states`: each window's newest symbols, as many as `states` codes can represent.

    This uses division, because NumPy divides small integers by a constant ten times as fast as it takes their remainder.
    """
    if states > np.iinfo(windows.dtype).max:
        return windows.copy()
    multiples = windows // states
    multiples *= states
    return np.subtract(windows, multiples, out=multiples)


def shuffled_rows(counts: IntArray, rng: np.random.Generator) -> Codes:
    """`counts[c]` rows of each code `c`, in random order."""
    return assign_symbols(np.zeros(int(counts.sum()), dtype=np.uint8), counts[None, :], rng)


def assign_symbols(groups: Codes, counts: IntArray, rng: np.random.Generator) -> Codes:
    """One symbol per row: in group `g`, exactly `counts[g, a]` rows, chosen uniformly at random, get symbol `a`."""
    symbols, drawn = _draw(groups, counts, rng)
    surplus = drawn - counts
    if surplus.any():
        _correct_counts(groups, symbols, surplus, counts, rng)
    return symbols


def max_moved_rows(rows: int, cells: int, groups: int) -> int:
    """Maximum number of rows that `assign_symbols` examines to move some of them between cells.

    A cell is a symbol of a group. A cell of `c` rows has a standard deviation of at most the square root of `c`, and is
    expected to have a surplus of 0.4 of that. Twice as many rows are examined, which is at most 0.8 times the square root of
    `rows * cells` for all cells together. Added to these are the rows for which the table of proportions is too coarse, and
    8 rows of each cell with a surplus, which are about half of the cells.
    """
    coarse = rows >> max(1, min(16, TABLE_BITS - (groups - 1).bit_length()))
    return min(rows, max(rows // 32, 4 * math.isqrt(rows * cells) // 5 + coarse + 5 * cells))


def _draw(groups: Codes, counts: IntArray, rng: np.random.Generator) -> tuple[Codes, IntArray]:
    """Independent draws, and how many rows of each group drew each symbol."""
    n_groups, q = counts.shape
    bits = max(1, min(16, TABLE_BITS - (n_groups - 1).bit_length()))
    table = _proportions(counts, bits)
    symbols = np.empty(len(groups), dtype=table.dtype)
    drawn = np.zeros(n_groups * q, dtype=np.int64)
    for start in range(0, len(groups), _CHUNK):
        chunk = groups[start : start + _CHUNK]
        place = chunk.astype(np.intp)
        place <<= bits
        place |= _random_bits(len(chunk), rng) >> (16 - bits)
        picked = table.take(place, mode="clip", out=symbols[start : start + len(chunk)])
        drawn += np.bincount(_cells(chunk, picked, counts.shape), minlength=len(drawn))
    return symbols, drawn.reshape(counts.shape)


def _proportions(counts: IntArray, bits: int) -> Codes:
    """For each group, `2^bits` symbols in about the proportions of its counts; a group without rows gets symbol 0."""
    totals = np.maximum(counts.sum(axis=1, keepdims=True), 1)
    edges = np.rint(np.cumsum(counts, axis=1) / totals * (1 << bits)).astype(np.int64)
    edges[:, -1] = 1 << bits
    widths = np.diff(edges, axis=1, prepend=0)
    symbols = np.tile(np.arange(counts.shape[1], dtype=narrowest_dtype(counts.shape[1])), len(counts))
    return np.repeat(symbols, widths.ravel())


def _correct_counts(groups: Codes, symbols: Codes, surplus: IntArray, sizes: IntArray, rng: np.random.Generator) -> None:
    """Move randomly chosen rows from cells drawn too often to cells drawn too rarely; a cell is a symbol of a group.

    If all cells are large, few of their rows are needed, and probing rows at random finds them. Otherwise every row is
    examined, and a random part of each cell is selected that is somewhat larger than its surplus.
    """
    q = surplus.shape[1]
    excess, lacking = np.maximum(surplus, 0).ravel(), np.maximum(-surplus, 0).ravel()
    while excess.any():
        share = excess / np.maximum(sizes.ravel() + excess, 1)
        probes = 2 * int(share.max() * len(groups)) + 64
        if probes < len(groups) // 32:
            rows = np.sort(rng.integers(0, len(groups), size=probes))
            rows = rows[np.diff(rows, prepend=-1) > 0]  # np.unique, but ten times as fast
        else:
            chances = 2 * share + 8 * (excess > 0) / np.maximum(sizes.ravel(), 1)
            rows = _rows_at_random(groups, symbols, chances.reshape(surplus.shape), rng)
        rng.shuffle(rows)
        of_row = _cells(groups[rows], symbols[rows], surplus.shape)
        by_cell = np.argsort(of_row, kind="stable")
        rows, cells = rows[by_cell], of_row[by_cell].astype(np.int64)
        taken = _rank_within(cells) < excess[cells]
        rows, cells = rows[taken], cells[taken]
        receivers = _receivers(cells // q, lacking, q)
        symbols[rows] = receivers % q
        excess -= np.bincount(cells, minlength=len(excess))
        lacking -= np.bincount(receivers, minlength=len(lacking))


def _rows_at_random(groups: Codes, symbols: Codes, chances: FloatArray, rng: np.random.Generator) -> IntArray:
    """Select each row independently, with about the probability of its cell: always if it is 1 or more, never if it is 0."""
    thresholds = np.ceil(np.minimum(chances.ravel(), 1) * (1 << 16)).astype(np.int32)
    found = []
    for start in range(0, len(groups), _CHUNK):
        cells = _cells(groups[start : start + _CHUNK], symbols[start : start + _CHUNK], chances.shape)
        found.append(np.flatnonzero(_random_bits(len(cells), rng) < thresholds.take(cells, mode="clip")) + start)
    return np.concatenate(found)


def _random_bits(size: int, rng: np.random.Generator) -> npt.NDArray[np.uint16]:
    """16 random bits per row. One 64-bit number of the generator serves four rows."""
    bits: npt.NDArray[np.uint16] = rng.bit_generator.random_raw(size // 4 + 1).view(np.uint16)[:size]
    return bits


def _cells(groups: Codes, symbols: Codes, shape: tuple[int, ...]) -> Codes:
    """Each row's cell, `group * q + symbol`, in the narrowest type, which is much faster."""
    narrow = narrowest_dtype(shape[0] * shape[1])
    cells: Codes = groups.astype(narrow)
    # With a single group q itself may not fit the type; modulo its range the result is the same.
    cells *= narrow(shape[1] & np.iinfo(narrow).max)
    cells += symbols
    return cells


def _rank_within(ascending: IntArray) -> IntArray:
    """The position of each entry among the entries equal to it."""
    return np.arange(len(ascending)) - np.searchsorted(ascending, ascending)


def _receivers(givers: IntArray, lacking: IntArray, q: int) -> IntArray:
    """For each surplus row, given by its group in ascending order, a cell of that group with too few rows.

    A cell occurs once for each row that it lacks.
    """
    cells = np.repeat(np.arange(len(lacking)), lacking)
    first = np.searchsorted(cells, givers * q)
    receivers: IntArray = cells[first + _rank_within(givers)]
    return receivers
