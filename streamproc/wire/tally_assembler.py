"""Tallies from their chunks, in whatever order and as often as gatherers sent them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from streamproc.privacy.quantities import IntArray, Period
from streamproc.wire.tallies import CHUNK_COUNTS, Tally, TallyChunk


@dataclass(frozen=True)
class Conflict:
    """Two different tallies of one partition and period: somebody was counted twice or not at all, so the study stops."""

    partition: int
    period: Period


@dataclass(eq=False)
class _Gathered:
    """What has come of one tally. Once it is complete only the digests of its chunks are kept, to know repeats by."""

    people: int
    of: int
    totals: dict[str, int] = field(default_factory=dict)
    digests: dict[tuple[str, int], bytes] = field(default_factory=dict)
    counts: dict[tuple[str, int], IntArray] = field(default_factory=dict)

    def contradicts(self, chunk: TallyChunk) -> bool:
        if (chunk.people, chunk.of) != (self.people, self.of):
            return True
        if chunk.release not in self.totals:
            return len(self.totals) == self.of
        known = self.digests.get((chunk.release, chunk.first), chunk.digest)
        return chunk.total != self.totals[chunk.release] or chunk.digest != known

    @property
    def complete(self) -> bool:
        if len(self.totals) < self.of:
            return False
        return len(self.digests) == sum(max(-(-total // CHUNK_COUNTS), 1) for total in self.totals.values())

    def counts_of(self, release: str) -> IntArray:
        firsts = range(0, max(self.totals[release], 1), CHUNK_COUNTS)
        return np.concatenate([self.counts[release, first] for first in firsts])


class TallyAssembler:
    """Takes chunks, answers with whole tallies: each once, however often and by however many gatherers it was sent."""

    def __init__(self) -> None:
        self._gathered: dict[tuple[int, Period], _Gathered] = {}

    def add(self, chunk: TallyChunk) -> Tally | Conflict | None:
        """The tally that this chunk completes, a Conflict if it contradicts an earlier chunk, or None."""
        place = (chunk.partition, chunk.period)
        gathered = self._gathered.setdefault(place, _Gathered(chunk.people, chunk.of))
        if gathered.contradicts(chunk):
            return Conflict(*place)
        if (chunk.release, chunk.first) in gathered.digests:
            return None
        gathered.totals[chunk.release] = chunk.total
        gathered.digests[chunk.release, chunk.first] = chunk.digest
        gathered.counts[chunk.release, chunk.first] = chunk.counts
        if not gathered.complete:
            return None
        tally = Tally(*place, chunk.people, {release: gathered.counts_of(release) for release in gathered.totals})
        gathered.counts.clear()
        return tally
