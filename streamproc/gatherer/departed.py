"""The people who have left an open study, by keyed hash, forever: a second participation would be a second cost.

It takes 17 bytes of memory for each of them: 16 for the hash and one for the reason, in the sorted arrays of a `HashIndex`.
The same number of bytes is on disk. There it is an append-only sequence, in the order in which people left and, within a
period, in the order of their hashes, so that it depends on the log and the cuts only. Each `SEGMENT_HASHES` of it are a file
of their own, which never changes; the rest is in the checkpoint, with the digests of the files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from streamproc.gatherer.hash_index import HASH_BYTES, NO_HASHES, Hashes, HashIndex
from streamproc.privacy.types import IntArray
from streamproc.protocol.codec import DIGEST_BYTES

SEGMENT_HASHES = 65_536
"""Number of hashes in a segment. So a checkpoint holds at most 1.1 MB of them, and 100 million people are 1,526 files."""

Arrays: TypeAlias = dict[str, npt.NDArray[np.generic]]


class Departed:
    """Everybody who has left, with the reason: `TENURE_OVER` or `ABSENT` of `releases.open_presence`."""

    def __init__(self) -> None:
        self._index = HashIndex(np.uint8)
        self._rest = NO_HASHES
        """Hashes that are in no stored segment, in the order of the sequence."""
        self._rest_reasons = np.empty(0, dtype=np.uint8)
        self._digests = b""

    def __len__(self) -> int:
        return len(self._index)

    @property
    def nbytes(self) -> int:
        """Bytes of memory of all arrays."""
        return self._index.nbytes + self._rest.high.nbytes + self._rest.low.nbytes + self._rest_reasons.nbytes

    @property
    def stored_segments(self) -> int:
        """Number of segments that are stored."""
        return len(self._digests) // DIGEST_BYTES

    def find(self, hashes: Hashes) -> IntArray:
        """The reason of each person's leaving; -1 for a person who has not left."""
        return self._index.find(hashes)

    def add(self, hashes: Hashes, reason: int) -> None:
        """Add people who leave in one period for one reason."""
        ordered = hashes.where(hashes.order())
        reasons = np.full(len(hashes), reason, dtype=np.uint8)
        self._index.add(ordered, reasons)
        self._rest = self._rest.extended(ordered)
        self._rest_reasons = np.append(self._rest_reasons, reasons)

    def new_segments(self) -> Iterator[Arrays]:
        """The full segments that are not stored yet. Call `note_stored` for each before the next checkpoint is made."""
        for start in range(0, len(self._rest) - SEGMENT_HASHES + 1, SEGMENT_HASHES):
            part = slice(start, start + SEGMENT_HASHES)
            yield _arrays(Hashes(self._rest.high[part], self._rest.low[part]), self._rest_reasons[part])

    def note_stored(self, digests: Sequence[bytes]) -> None:
        """Note that the first of `new_segments` are stored, in files with these digests."""
        stored = SEGMENT_HASHES * len(digests)
        self._digests += b"".join(digests)
        self._rest = Hashes(self._rest.high[stored:].copy(), self._rest.low[stored:].copy())
        self._rest_reasons = self._rest_reasons[stored:].copy()

    def arrays(self) -> Arrays:
        """The digests of the stored segments, and the hashes that are in none, for a checkpoint."""
        rest = _arrays(self._rest, self._rest_reasons)
        digests = np.frombuffer(self._digests, dtype=np.uint8)
        return {f"departed/{name}": array for name, array in rest.items()} | {"departed/segments": digests}

    @classmethod
    def restored(
        cls, state: Mapping[str, npt.NDArray[np.generic]], segments: Iterable[Mapping[str, npt.NDArray[np.generic]]]
    ) -> Departed:
        """The people whose `arrays` are in `state`; `segments` are the stored ones. Raises ValueError if they do not fit."""
        self = cls()
        for segment in segments:
            hashes, reasons = _contents(segment["hashes"], segment["reasons"])
            if len(hashes) != SEGMENT_HASHES:
                raise ValueError
            self._index.add(hashes, reasons)
        self._digests = state["departed/segments"].tobytes()
        self._rest, self._rest_reasons = _contents(state["departed/hashes"], state["departed/reasons"])
        if len(self) != SEGMENT_HASHES * self.stored_segments:
            raise ValueError
        self._index.add(self._rest, self._rest_reasons)
        return self


def stored_digests(state: Mapping[str, npt.NDArray[np.generic]]) -> list[bytes]:
    """The digests of the stored segments, from the `arrays` of a checkpoint."""
    digests = state["departed/segments"].tobytes()
    return [digests[start : start + DIGEST_BYTES] for start in range(0, len(digests), DIGEST_BYTES)]


def _arrays(hashes: Hashes, reasons: npt.NDArray[np.uint8]) -> Arrays:
    return {"hashes": np.frombuffer(hashes.to_bytes(), dtype=np.uint8), "reasons": reasons}


def _contents(hashes: npt.NDArray[np.generic], reasons: npt.NDArray[np.generic]) -> tuple[Hashes, npt.NDArray[np.uint8]]:
    if len(hashes) != HASH_BYTES * len(reasons):
        raise ValueError
    return Hashes.of_bytes(hashes.tobytes()), np.array(reasons, dtype=np.uint8)
