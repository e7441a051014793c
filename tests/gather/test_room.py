"""What a gatherer keeps for each person, besides the index from their id to their row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np
import pytest

from streamproc.gather.gathering import Gathering
from streamproc.gather.people import People
from streamproc.gather.place import Place
from streamproc.privacy.quantities import Period
from streamproc.study import CumulativeRelease, Population, WindowRelease
from streamproc.synth.cohort import Cohort
from streamproc.wire.control import Cut
from streamproc.wire.reports import encode_batches
from tests.world.stories import Line, small_study

PEOPLE = 100_000
NAMES = [f"person-{number}" for number in range(PEOPLE)]


def kept_bytes(gathering: Gathering) -> int:
    """Of all arrays, and of the hashes."""
    hashes = len(gathering._people._hashes)
    return hashes + sum(array.nbytes for array in arrays_in(gathering))


def arrays_in(thing: object) -> Iterator[np.ndarray]:
    if isinstance(thing, np.ndarray):
        # What counts of a part of an array is the array.
        yield thing if thing.base is None else np.asarray(thing.base)
    elif isinstance(thing, dict):
        for value in thing.values():
            yield from arrays_in(value)
    elif isinstance(thing, list | tuple):
        for value in thing:
            yield from arrays_in(value)
    elif type(thing).__module__.startswith(("streamproc.gather", "streamproc.synth")) and not isinstance(thing, People):
        yield from arrays_in(vars(thing))


def everybody_reports(gathering: Gathering, period: int, offset: int) -> int:
    """In batches; answers with the offset after them."""
    times, symbols = np.full(PEOPLE, period, dtype=np.uint16), np.zeros(PEOPLE, dtype=np.uint8)
    for value in encode_batches(NAMES, times, symbols):
        gathering.ingest([Line(offset, value)])
        offset += 1
    return offset


@pytest.mark.parametrize("rule", ["first", "last"])
def test_at_most_64_bytes_a_person_before_and_after_it_is_known_who_takes_part(rule: Literal["first", "last"]) -> None:
    """Three windows, two cumulative releases; everybody reports, and early for the next period too."""
    population = Population(initial="0", size=PEOPLE, duplicates=rule)
    study = small_study(
        WindowRelease("w", 3),
        CumulativeRelease("c", ("1",)),
        CumulativeRelease("d", ("0",)),
        alphabet=("0", "1"),
        partitions=1,
        population=population,
    )
    gathering = Gathering(Place(study, 0, b"k" * 32))
    end = everybody_reports(gathering, 1, 0)
    assert gathering.people == PEOPLE
    assert kept_bytes(gathering) <= 64 * PEOPLE

    gathering.learn(Cut(Period(1), (end,)))
    assert len(gathering.settle(end)) == 1
    end = everybody_reports(gathering, 3, everybody_reports(gathering, 2, end))
    assert 16 * PEOPLE < kept_bytes(gathering) <= 64 * PEOPLE
    assert isinstance(gathering._cohort, Cohort)
