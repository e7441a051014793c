"""Snapshots of the people present in the panel of an open study, so that a reader need not begin with the first column.

In every `SUMMARY_EVERY`-th period the topic of a release holds, after the column, who is present, and the period record of
the ledger holds a summary with the digest of that. A reader who starts there trusts both for everything that came before.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from streamproc.errors import Malformed, VerificationFailed
from streamproc.privacy.types import IntArray, Period
from streamproc.protocol.codec import Fields, check_period, check_release, check_whole, pack
from streamproc.releases.kind import MAX_ROWS
from streamproc.releases.step import PresentPeople

SUMMARY_EVERY = 128
"""An open study has a summary in every period that is a multiple of this."""

CHUNK_ROWS = 65_536
"""Rows of a full chunk."""

BYTES_PER_ROW = 9
"""Maximum bytes that a snapshot takes for a row: 5 for its number, 2 for its state, 2 for its age."""

_GROUPS = 5
"""Maximum bytes of one gap between row numbers, each with 7 of its bits."""

Shorts: TypeAlias = npt.NDArray[np.uint16]


def has_summary(period: int) -> bool:
    """Whether a period of an open study ends with a snapshot and a summary."""
    return period % SUMMARY_EVERY == 0


@dataclass(frozen=True)
class SnapshotChunk:
    """The people present after a period, from the `first`-th on, of `total`, in the order of their row numbers."""

    release: str
    period: Period
    first: int
    total: int
    numbers: bytes = field(repr=False)
    """The gaps between row numbers (`pack_gaps`)."""
    states: bytes = field(repr=False)
    """The state of each, 2 bytes, big-endian."""
    ages: bytes = field(repr=False)
    """The number of periods in which each was present, 2 bytes, big-endian."""

    def __post_init__(self) -> None:
        check_release(self.release)
        check_period(self.period)
        check_whole("total", self.total, 0, MAX_ROWS)
        check_whole("first", self.first, 0, max(self.total - 1, 0))
        if self.first % CHUNK_ROWS:
            raise Malformed(f"first: expected a multiple of {CHUNK_ROWS}")
        for name in ("states", "ages"):
            value = getattr(self, name)
            if type(value) is not bytes or len(value) != 2 * self.rows:
                raise Malformed(f"{name}: expected 2 bytes for each row")
        if type(self.numbers) is not bytes or not self.rows <= len(self.numbers) <= _GROUPS * self.rows:
            raise Malformed("numbers: expected 1 to 5 bytes for each row")

    @property
    def rows(self) -> int:
        """Number of people in this chunk."""
        return min(CHUNK_ROWS, self.total - self.first)

    @property
    def data(self) -> bytes:
        """The bytes that enter the digest of the snapshot."""
        return self.numbers + self.states + self.ages

    def encode(self) -> bytes:
        """The record's value."""
        fields = {
            "release": self.release,
            "period": self.period,
            "first": self.first,
            "total": self.total,
            "numbers": self.numbers,
            "states": self.states,
            "ages": self.ages,
        }
        return pack("snapshot", fields)


def decode_snapshot(fields: Fields) -> SnapshotChunk:
    """Decode the chunk in the fields of a message. Raises Malformed."""
    place = (fields["release"], fields["period"], fields["first"], fields["total"])
    return SnapshotChunk(*place, fields["numbers"], fields["states"], fields["ages"])


def snapshot_chunks(release: str, period: Period, present: PresentPeople) -> Iterator[SnapshotChunk]:
    """The chunks of a snapshot, in order."""
    total = len(present.numbers)
    for first in range(0, max(total, 1), CHUNK_ROWS):
        part = slice(first, first + CHUNK_ROWS)
        numbers = pack_gaps(present.numbers[part].astype(np.int64))
        states, ages = (array[part].astype(">u2").tobytes() for array in (present.states, present.ages))
        yield SnapshotChunk(release, period, first, total, numbers, states, ages)


def snapshot_digest(chunks: Iterator[SnapshotChunk] | Sequence[SnapshotChunk]) -> bytes:
    """SHA-256 of the numbers, states and ages of each chunk, one chunk after the other."""
    found = hashlib.sha256()
    for chunk in chunks:
        found.update(chunk.data)
    return found.digest()


def pack_gaps(numbers: IntArray) -> bytes:
    """The first of ascending numbers, then for each further one how many lie between it and the one before.

    Each is written in groups of 7 bits, the lowest first, a byte for each group; the highest bit of a byte says that
    another group follows.
    """
    gaps = np.diff(numbers, prepend=-1) - 1
    lengths = 1 + np.searchsorted([1 << 7 * group for group in range(1, _GROUPS)], gaps, side="right")
    starts = np.cumsum(lengths) - lengths
    packed = np.zeros(int(lengths.sum()), dtype=np.uint8)
    for group in range(_GROUPS):
        longer = np.flatnonzero(lengths > group)
        more = (lengths[longer] > group + 1).astype(np.int64) << 7
        packed[starts[longer] + group] = gaps[longer] >> 7 * group & 0x7F | more
    return packed.tobytes()


def unpack_gaps(data: bytes, rows: int) -> IntArray:
    """The ascending numbers of `pack_gaps`. Raises Malformed unless they are `rows` row numbers in their shortest form."""
    packed = np.frombuffer(data, dtype=np.uint8).astype(np.int64)
    ends = np.flatnonzero(packed < 0x80)
    if len(ends) != rows or (rows and ends[-1] != len(packed) - 1) or (not rows and len(packed)):
        raise Malformed("numbers: expected one for each row")
    starts = np.concatenate((np.zeros(1, dtype=np.int64), ends[:-1] + 1))[:rows]
    lengths = ends - starts + 1
    if (lengths > _GROUPS).any() or (packed[ends[lengths > 1]] == 0).any():
        raise Malformed("numbers: expected each in its shortest form")
    gaps = np.zeros(rows, dtype=np.int64)
    for group in range(_GROUPS):
        longer = np.flatnonzero(lengths > group)
        gaps[longer] |= (packed[starts[longer] + group] & 0x7F) << 7 * group
    numbers: IntArray = np.cumsum(gaps + 1) - 1
    if rows and int(numbers[-1]) >= MAX_ROWS:
        raise Malformed(f"numbers: expected row numbers below {MAX_ROWS}")
    return numbers


class SnapshotAssembler:
    """Assembles one snapshot from its chunks, which come in order."""

    def __init__(self, release: str, period: Period, total: int) -> None:
        self._release = release
        self._period = period
        self._total = total
        self._first = 0
        self._chunks: list[SnapshotChunk] = []
        self._hash = hashlib.sha256()

    def add(self, chunk: SnapshotChunk, *, keep: bool = False) -> bool:
        """Add the next chunk, and return whether it was the last. Raises VerificationFailed. `keep` keeps its content."""
        expected = (self._release, self._period, self._first, self._total)
        if (chunk.release, chunk.period, chunk.first, chunk.total) != expected:
            raise VerificationFailed(
                f"release {self._release}: expected row {self._first} of {self._total} of the snapshot of period "
                f"{self._period}, but row {chunk.first} of {chunk.total} of period {chunk.period} came"
            )
        self._hash.update(chunk.data)
        self._first += chunk.rows
        if keep:
            self._chunks.append(chunk)
        return self._first == self._total

    @property
    def digest(self) -> bytes:
        """Digest of the chunks so far."""
        return self._hash.digest()

    def present(self) -> PresentPeople:
        """The people in the chunks that were kept. Raises VerificationFailed if their numbers do not ascend."""
        try:
            parts = [unpack_gaps(chunk.numbers, chunk.rows) for chunk in self._chunks]
        except Malformed as malformed:
            raise VerificationFailed(f"release {self._release}: a snapshot is malformed: {malformed.reason}") from None
        numbers = np.concatenate(parts)
        if (np.diff(numbers) <= 0).any():
            raise VerificationFailed(f"release {self._release}: the row numbers of a snapshot do not ascend")
        states, ages = (_shorts([getattr(chunk, name) for chunk in self._chunks]) for name in ("states", "ages"))
        return PresentPeople(numbers.astype(np.uint32), states, ages)


def _shorts(parts: Sequence[bytes]) -> Shorts:
    return np.frombuffer(b"".join(parts), dtype=">u2").astype(np.uint16)
