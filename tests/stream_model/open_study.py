"""An open study on a simulated broker: people enter in any period, miss reports, and leave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from streamproc.privacy.adjacency import Adjacency
from streamproc.privacy.types import IntArray, Period
from streamproc.protocol.tallies import Tally
from streamproc.releases.open_presence import NO_REPORT, PresenceState
from streamproc.study import CumulativeRelease, Population, Release, SpellRelease, Study, WindowRelease
from tests.stream_model.simulated_study import SimulatedStudy
from tests.studies import build_study

RELEASES = (WindowRelease("w", 2), SpellRelease("s", ("1",), length=2), CumulativeRelease("c", ("1",), most=2))


def open_study(
    horizon: int | None = None,
    *,
    releases: Sequence[Release] = RELEASES,
    tenure: int = 4,
    absent_after: int | None = 2,
    rho: float = 5.0,
    adjacency: Adjacency = Adjacency.REPLACE_ONE,
    partitions: int = 2,
    size: int = 60,
) -> Study:
    """A small open study, without further arguments with a release of every kind."""
    population = Population(initial="0", size=size, open=True, tenure=tenure, absent_after=absent_after)
    study = build_study(*releases, rho=rho, adjacency=adjacency, population=population, partitions=partitions, horizon=1)
    return replace(study, horizon=horizon)


def reports(study: Study, people: int, periods: int, seed: int = 0) -> npt.NDArray[np.uint8]:
    """What so many people report: a row each, a column per period, `NO_REPORT` where nothing comes.

    Everybody begins in a period of their own, stops in another, and misses some reports in between.
    """
    rng = np.random.default_rng(seed)
    symbols = rng.integers(0, study.q, size=(people, periods)).astype(np.uint8)
    begins = rng.integers(0, periods, size=people)
    stays = rng.integers(1, 8, size=people)
    place = np.arange(periods)
    outside = (place < begins[:, None]) | (place >= (begins + stays)[:, None])
    symbols[outside | (rng.random(symbols.shape) < 0.2)] = NO_REPORT
    return symbols


def open_tallies(study: Study, symbols: npt.NDArray[np.uint8]) -> list[tuple[int, Mapping[str, IntArray]]]:
    """For each period, the number of people present after it, and the exact tally of each release."""
    state = PresenceState.of(study, len(symbols))
    found: list[tuple[int, Mapping[str, IntArray]]] = []
    for period in range(symbols.shape[1]):
        state, tally = state.fold(symbols[:, period])
        found.append((state.present, tally))
    return found


def partition_tallies(study: Study, symbols: npt.NDArray[np.uint8], *, last: bool = True) -> list[list[Tally]]:
    """The tallies of each partition; the last period is marked as the last of the study."""
    partitions = study.broker.partitions
    return [
        [
            Tally(partition, Period(period), people, counts, last and period == symbols.shape[1])
            for period, (people, counts) in enumerate(open_tallies(study, symbols[partition::partitions]), start=1)
        ]
        for partition in range(partitions)
    ]


async def send_tallies(simulated: SimulatedStudy, tallies: Sequence[Sequence[Tally]]) -> None:
    """Wait until the study has begun, then send the tallies of each partition, all periods."""
    while not simulated.committed(simulated.topics.ledger):
        await simulated.clock.sleep(0.1)
    for partition in tallies:
        for tally in partition:
            await simulated.send_tally(tally)
