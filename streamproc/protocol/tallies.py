"""Records of the tallies topic: the counts of a gatherer, in chunks that two writers of the same tally may interleave."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from streamproc.errors import Malformed
from streamproc.privacy.types import IntArray, Period
from streamproc.protocol.codec import (
    MAX_PEOPLE,
    MAX_RELEASES,
    check_flag,
    check_integers,
    check_part,
    check_partition,
    check_period,
    check_release,
    check_whole,
    pack,
    packed_integers,
    unpack,
)
from streamproc.study.releases import MAX_BINS

CHUNK_COUNTS = 32_768


@dataclass(frozen=True, eq=False)
class TallyChunk:
    """Counts `first, first+1, ...` of the `total` of one release, in a tally of `of` releases. Secret."""

    partition: int
    period: Period
    people: int = field(repr=False)
    of: int
    release: str
    first: int
    total: int
    counts: IntArray = field(repr=False)
    last: bool = False
    """Whether the open study ends with this period."""

    def __post_init__(self) -> None:
        check_partition(self.partition)
        check_period(self.period)
        check_whole("people", self.people, 0, MAX_PEOPLE)
        check_whole("of", self.of, 1, MAX_RELEASES)
        check_release(self.release)
        check_flag("last", self.last)
        check_part(self.first, self.total, self.counts, "counts", longest=CHUNK_COUNTS, most=MAX_BINS)
        # In an open study people who leave are counted, too, so a count may be larger than `people`.
        if self.counts.size and not 0 <= self.counts.min() <= self.counts.max() <= MAX_PEOPLE:
            raise Malformed(f"counts: expected from 0 to {MAX_PEOPLE} each")

    def encode(self) -> bytes:
        """The record's value."""
        fields = {
            "partition": self.partition,
            "period": self.period,
            "people": self.people,
            "of": self.of,
            "release": self.release,
            "first": self.first,
            "total": self.total,
            "counts": packed_integers(self.counts),
        }
        return pack("tally", fields | ({"last": True} if self.last else {}))

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of its canonical bytes."""
        return hashlib.sha256(self.encode()).digest()


def decode_tally(value: bytes | None) -> TallyChunk:
    """Decode a record of the tallies topic. Raises Malformed."""
    fields = unpack(value, "tally")
    return TallyChunk(
        fields["partition"],
        fields["period"],
        fields["people"],
        fields["of"],
        fields["release"],
        fields["first"],
        fields["total"],
        fields.integers("counts"),
        fields.get("last", False),
    )


@dataclass(frozen=True, eq=False)
class Tally:
    """The exact counts of one partition for one period. Secret. Equal tallies have equal bytes."""

    partition: int
    period: Period
    people: int = field(repr=False)
    """Number of individuals of the partition, with or without a report; in an open study, present after this period."""
    counts: Mapping[str, IntArray] = field(repr=False)
    """For each release, the number of people in each window, or the number of people whose `b`-th one is in this period."""
    last: bool = False
    """Whether the open study ends with this period."""

    def __post_init__(self) -> None:
        if not 1 <= len(self.counts) <= MAX_RELEASES:
            raise Malformed(f"of: expected 1 to {MAX_RELEASES} releases")
        ordered = {}
        for release in sorted(self.counts):
            counts = np.asarray(self.counts[release])
            check_integers("counts", counts, counts.size)
            ordered[release] = counts.view()
            ordered[release].flags.writeable = False
        object.__setattr__(self, "counts", ordered)
        self.chunks  # noqa: B018  a tally that cannot be encoded is rejected when it is created

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tally) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    @property
    def key(self) -> bytes:
        """The key of each of its records."""
        return f"{self.partition}/{self.period}".encode()

    @cached_property
    def chunks(self) -> tuple[TallyChunk, ...]:
        """Its chunks, ordered by the name of the release and the first index."""
        return tuple(
            TallyChunk(
                self.partition,
                self.period,
                self.people,
                len(self.counts),
                release,
                first,
                len(counts),
                counts[first : first + CHUNK_COUNTS],
                self.last,
            )
            for release, counts in self.counts.items()
            for first in range(0, max(len(counts), 1), CHUNK_COUNTS)
        )

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 over the digests of its chunks."""
        return hashlib.sha256(b"".join(chunk.digest for chunk in self.chunks)).digest()

    def encode(self) -> list[bytes]:
        """The values of its records, in order."""
        return [chunk.encode() for chunk in self.chunks]


@dataclass(frozen=True)
class Conflict:
    """Two different tallies of one partition and period: someone was counted twice or not at all, so the study must stop."""

    partition: int
    period: Period


@dataclass(eq=False)
class _PartialTally:
    """The chunks of one tally so far. Once it is complete, only their digests are kept, to recognise repeats."""

    people: int
    of: int
    last: bool
    totals: dict[str, int] = field(default_factory=dict)
    digests: dict[tuple[str, int], bytes] = field(default_factory=dict)
    counts: dict[tuple[str, int], IntArray] = field(default_factory=dict)

    def contradicts(self, chunk: TallyChunk) -> bool:
        if (chunk.people, chunk.of, chunk.last) != (self.people, self.of, self.last):
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
    """Assembles tallies from chunks. Each tally is returned once, even if several gatherers have sent it."""

    def __init__(self) -> None:
        self._gathered: dict[tuple[int, Period], _PartialTally] = {}

    def add(self, chunk: TallyChunk) -> Tally | Conflict | None:
        """Add a chunk. Returns the tally that it completes, a Conflict if it contradicts an earlier chunk, or None."""
        key = (chunk.partition, chunk.period)
        gathered = self._gathered.setdefault(key, _PartialTally(chunk.people, chunk.of, chunk.last))
        if gathered.contradicts(chunk):
            return Conflict(*key)
        if (chunk.release, chunk.first) in gathered.digests:
            return None
        gathered.totals[chunk.release] = chunk.total
        gathered.digests[chunk.release, chunk.first] = chunk.digest
        gathered.counts[chunk.release, chunk.first] = chunk.counts
        if not gathered.complete:
            return None
        counts = {release: gathered.counts_of(release) for release in gathered.totals}
        tally = Tally(*key, chunk.people, counts, chunk.last)
        gathered.counts.clear()
        return tally
