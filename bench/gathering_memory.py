"""How many bytes a gatherer takes for each individual, besides the index from ids to rows."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bench.result import Result
from bench.streamed import Plan
from bench.studies import shown
from streamproc.gatherer.logic import GathererLogic, PartitionContext
from streamproc.gatherer.member_index import MemberIndex
from streamproc.privacy.types import Period
from streamproc.protocol.control import Cut
from streamproc.study import parse_study

LIMIT = 64.0


@dataclass(frozen=True)
class Line:
    """A record of the reports topic."""

    offset: int
    value: bytes
    key: bytes | None = None
    timestamp: int = 0


def measure(quick: bool = False) -> Iterator[Result]:
    """While a period is open in which everybody has reported: the first, when it is not known yet who takes part, and the
    next; and at the peak of settling it."""
    people = 20_000 if quick else 1_000_000
    plan = Plan("memory", people, 3, packed=True)
    gathering = GathererLogic(PartitionContext(parse_study(plan.study("embedded:none")), 0, bytes(32)))
    ids, end = plan.ids(), 0
    for period in (1, 2):
        for _, value in plan.records(ids, period):
            gathering.ingest([Line(end, value)])
            end += 1
        kept = kept_bytes(gathering)
        yield _each(f"gatherer's memory, period {period} open", kept, people, LIMIT)
        gathering.add_cut(Cut(Period(period), (end,)))
        yield _each(f"gatherer's memory, peak of settling period {period}", kept + _settling(gathering, end), people)
    yield _each("gatherer's index from ids of 15 bytes to rows", _index_bytes(gathering), people)


def kept_bytes(gathering: GathererLogic) -> int:
    """Of all arrays, and of the hashes of ids."""
    hashes = sys.getsizeof(gathering._people._hashes)
    return hashes + sum(array.nbytes for array in _arrays_in(vars(gathering)))


def _index_bytes(gathering: GathererLogic) -> int:
    """Of the dictionary with the ids and the numbers in it, and of the table that serves many ids at once."""
    known = gathering._people.known
    inside = sum(sys.getsizeof(individual) + sys.getsizeof(row) for individual, row in known.items())
    return sys.getsizeof(known) + inside + sum(array.nbytes for array in _arrays_in(gathering._people._table))


def _arrays_in(thing: object) -> Iterator[np.ndarray]:
    if isinstance(thing, np.ndarray):
        # Of a part of an array the whole is kept.
        yield thing if thing.base is None else np.asarray(thing.base)
    elif isinstance(thing, dict):
        for value in thing.values():
            yield from _arrays_in(value)
    elif type(thing).__module__.startswith(("streamproc.gatherer", "streamproc.releases")) and not isinstance(
        thing, MemberIndex
    ):
        yield from _arrays_in(vars(thing))


def _settling(gathering: GathererLogic, end: int) -> int:
    """The most that is allocated on top while a period is settled."""
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        gathering.close_periods(end)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return peak - before


def _each(name: str, size: int, people: int, limit: float | None = None) -> Result:
    return Result(name=f"{name}, {shown(people)} people", value=size / people, unit="bytes/person", limit=limit)
