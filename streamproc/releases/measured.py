"""A period's noisy integers, which the ledger holds as one flat list, in the shape in which synthesis made them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from streamproc.privacy.counters import Counter
from streamproc.privacy.types import IntArray, Period
from streamproc.releases.contract import Contract, WindowContract


def measurements_of(contract: Contract, flat: IntArray, period: Period) -> Sequence[IntArray]:
    """The measurements of one period: one array (window, none before period `k`), or one for each stream that has begun."""
    if isinstance(contract, WindowContract):
        return (flat,) if len(flat) else ()
    return split_by_counter(contract.mechanism.counter, flat, period)


def measurement_count(contract: Contract, period: Period) -> int:
    """How many integers the release measures in this period."""
    if isinstance(contract, WindowContract):
        return contract.mechanism.bins if period >= contract.mechanism.k else 0
    return sum(part.stop - part.start for part in _fresh_rows(contract.mechanism.counter, period))


def split_by_counter(counter: Counter, flat: IntArray, period: Period) -> tuple[IntArray, ...]:
    """The rows measured at `period` by each stream that has begun, `b = 1..period`, from all of them in that order."""
    sizes = [part.stop - part.start for part in _fresh_rows(counter, period)]
    return tuple(np.split(flat, np.cumsum(sizes)[:-1]))


def _fresh_rows(counter: Counter, period: Period) -> list[slice]:
    return [counter.rows_at(period - b + 1) for b in range(1, period + 1)]
