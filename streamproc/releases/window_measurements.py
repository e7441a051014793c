"""The measurements of a window release by flow: from the counts of a period's bins to integers, and from integers to counts.

A bin is a window of `L` symbols; the counts of all bins are a tensor with an axis for each period, oldest first. A
measurement belongs to a set `B` of these periods that holds the newest one, and to a symbol `a_i` for each of its periods:

    u_B(a) = sum over people of prod_(i in B) (q [h_i = a_i] - 1).

For `q = 2` there is one measurement for each set, that of the first symbol in every period: the others are equal up to their
sign. The sets of one span and one size have the same noise and are measured together, as one array. The order, which is part
of the format of published measurements, is:

* arrays by span, then by size, both ascending: span 1 has size 1, and span `s >= 2` has the sizes `2..s`;
* within an array lexicographic over the periods of the window, oldest first; a period that is not in the set comes before
  every symbol, and symbols are in the order of the alphabet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from streamproc.privacy.types import IntArray
from streamproc.releases.step import Measurements

MAX_FRESH = 2**61
"""Numerators below this are computed in 64-bit arithmetic. Carried totals stay below it too, so the sums stay below 2^62."""


class SetGroup(NamedTuple):
    """The measurements of a period that have the same noise."""

    span: int
    size: int
    entries: int
    """Number of measurements."""


@dataclass(frozen=True, eq=False)
class Layout:
    """Where the measurements of a window of some length stand."""

    groups: tuple[SetGroup, ...]
    """The arrays, in order."""
    order: IntArray
    """For each measurement, in order, its place in the tensor that `measure_window` computes."""


@lru_cache(maxsize=32)
def layout_of(q: int, length: int) -> Layout:
    """The layout for windows of `length` periods over `q` symbols."""
    # On the axis of an older period, 0 stands for a period that is not in the set. The newest period is always in it.
    older, newest = (2, 1) if q == 2 else (q + 1, q)
    places = np.arange(older ** (length - 1))
    span, size = np.ones(len(places), dtype=np.int64), np.ones(len(places), dtype=np.int64)
    for before in range(1, length):
        present = places // older ** (before - 1) % older > 0
        span[present] = before + 1
        size += present
    key = np.repeat(span * (length + 1) + size, newest)
    keys, entries = np.unique(key, return_counts=True)
    groups = tuple(map(SetGroup, (keys // (length + 1)).tolist(), (keys % (length + 1)).tolist(), entries.tolist()))
    return Layout(groups, np.argsort(key, kind="stable"))


def measurement_count(q: int, length: int) -> int:
    """Number of measurements of a period with windows of this length."""
    return int(2 ** (length - 1) if q == 2 else (q + 1) ** (length - 1) * q)


def measure_window(counts: IntArray, q: int, length: int) -> list[IntArray]:
    """The exact measurements of the counts of all `q^length` bins, one array for each group of sets."""
    values = counts
    for axis in range(length):
        # Transforms the first axis and moves it to the end, so that the axes are in order again after the last round.
        by_symbol = values.reshape(q, -1)
        total = by_symbol.sum(axis=0, keepdims=True)
        present = by_symbol[:1] - by_symbol[1:] if q == 2 else q * by_symbol - total
        values = (np.concatenate((total, present)) if axis < length - 1 else present).T.ravel()
    layout = layout_of(q, length)
    return np.split(values[layout.order], _starts(layout))


def fresh_counts(measured: Measurements, q: int, length: int) -> tuple[IntArray, int]:
    """What a period's measurements say about its bins beyond the totals of their overlaps: numerators and the denominator.

    These are the terms of the sets that hold the newest period in

        bin c = q^-L (n + sum over sets B of q^-|B| sum_a prod_(i in B) (q [c_i = a_i] - 1) u_B(a)).

    They add up to exactly zero over the newest symbol. Measurements that are too large for 64-bit arithmetic give exact
    numerators as Python integers.
    """
    layout = layout_of(q, length)
    small = _largest_numerator(measured, q, length) < MAX_FRESH
    values: IntArray = np.empty(len(layout.order), dtype=np.int64 if small else object)
    values[layout.order] = np.concatenate(measured)
    older, newest = (2, 1) if q == 2 else (q + 1, q)
    for axis in range(length):
        by_symbol = values.reshape(older if axis < length - 1 else newest, -1)
        absent, present = (by_symbol[:1], by_symbol[1:]) if axis < length - 1 else (0 * by_symbol[:1], by_symbol)
        if q == 2:
            values = np.concatenate((absent + present, absent - present)).T.ravel()
        else:
            values = (q * absent + q * present - present.sum(axis=0, keepdims=True)).T.ravel()
    return values, fresh_denominator(q, length)


def fresh_denominator(q: int, length: int) -> int:
    """The denominator of `fresh_counts`."""
    return int(q**length if q == 2 else q ** (2 * length))


def _largest_numerator(measured: Measurements, q: int, length: int) -> int:
    """A bound on the absolute values of the numerators, and of all sums on the way to them."""
    bound = 0
    for group, values in zip(layout_of(q, length).groups, measured, strict=True):
        largest = max(int(values.max()), -int(values.min()))
        if q == 2:
            bound += group.entries * largest
        else:
            bound += group.entries // q**group.size * q ** (length - group.size) * (2 * q) ** group.size * largest
    return bound


def _starts(layout: Layout) -> Sequence[int]:
    """Where the second array and the later ones begin in the list of all measurements."""
    starts: list[int] = np.cumsum([group.entries for group in layout.groups])[:-1].tolist()
    return starts
