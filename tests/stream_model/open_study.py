"""An open study on a simulated broker: people enter in any period, miss reports, and leave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from streamproc.privacy.adjacency import Adjacency
from streamproc.privacy.types import IntArray, Period
from streamproc.protocol.ledger import Intent, StudyRecord, digest
from streamproc.protocol.tallies import Tally
from streamproc.protocol.topics import Topics
from streamproc.releases.contracts import stated_contracts
from streamproc.releases.open_presence import NO_REPORT, PresenceState
from streamproc.releases.open_state import OpenState
from streamproc.releases.synthesis import Synthesis
from streamproc.storage.entropy import SeededEntropy
from streamproc.study import CumulativeRelease, Population, Release, SpellRelease, Study, WindowRelease
from streamproc.study.fingerprint import public_values
from streamproc.synthesizer.outbox import build_pending_release
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


PERIODS = 14
NAMES = [release.name for release in RELEASES]
OPEN_STUDY = open_study()


@dataclass(frozen=True)
class Published:
    """The public topics of an open study, as lists of values."""

    study: Study
    ledger: list[bytes]
    columns: Mapping[str, list[bytes]]
    states: Sequence[Mapping[str, OpenState]]
    """The state of each release after 0, 1, 2, ... periods."""


@cache
def published(redrawn: tuple[int, ...] = ()) -> Published:
    """Made once for each set of periods that were drawn again."""
    return publish(redrawn=redrawn)


def publish(*, periods: int = PERIODS, last: bool = True, redrawn: tuple[int, ...] = ()) -> Published:
    """The public records of a study of so many periods; the first draw of each `redrawn` period was announced and lost."""
    topics = Topics(OPEN_STUDY.name)
    begun = Synthesis.start(stated_contracts(OPEN_STUDY, 0, insecure=True))
    again = tuple(Period(period) for period in redrawn)
    synthesis = Synthesis.resumed(Period(0), begun.contracts, begun.states, again)
    ledger = [StudyRecord(public_values(OPEN_STUDY), bytes(32), insecure=True).encode()]
    head = digest(ledger[0])
    columns: dict[str, list[bytes]] = {name: [] for name in NAMES}
    states: list[Mapping[str, Any]] = [synthesis.states]
    for period, (_, tally) in enumerate(open_tallies(OPEN_STUDY, reports(OPEN_STUDY, 200, periods)), start=1):
        after, steps = synthesis.step(tally, SeededEntropy(3))
        lost = (bytes([5] * 32),) * (period in redrawn)
        is_last = last and period == periods
        drafted = build_pending_release(
            topics, synthesis, after, steps, head, bytes(32), lost, last=is_last, study_digest=digest(ledger[0])
        )
        ledger += [Intent(Period(period), each).encode() for each in (*lost, drafted.digest)]
        for record in drafted.outgoing:
            (ledger if record.topic == topics.ledger else columns[record.topic.rpartition(".")[2]]).append(record.value)
        synthesis, head = after, drafted.digest
        states.append(synthesis.states)
    return Published(OPEN_STUDY, ledger, columns, states)
