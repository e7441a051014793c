"""Many short byte strings in one buffer, so that NumPy can work on all of them together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self, TypeAlias

import numpy as np
import numpy.typing as npt

from streamproc.privacy.types import IntArray

Block: TypeAlias = npt.NDArray[np.uint8]
"""A row of bytes for each string, all of the same width."""

MAX_BLOCK_BYTES = 256
"""Maximum width of a block in bytes. The buffer has this margin before the first string and after the last."""


@dataclass(frozen=True, eq=False, repr=False)
class ByteStrings:
    """Strings in the buffer `data`, which may overlap. The buffer has a margin of `MAX_BLOCK_BYTES` at both ends."""

    data: bytes
    starts: IntArray
    lengths: IntArray

    @classmethod
    def of(cls, strings: Sequence[bytes]) -> Self:
        """Copy strings into a new buffer."""
        lengths = np.fromiter(map(len, strings), dtype=np.int64, count=len(strings))
        return cls(_with_margins(b"".join(strings)), MAX_BLOCK_BYTES + np.cumsum(lengths) - lengths, lengths)

    @classmethod
    def of_text(cls, strings: Sequence[str]) -> Self:
        """Copy strings, encoded in UTF-8, into a new buffer."""
        joined = "\0".join(strings).encode()
        # Searching the joined bytes for separators is faster than taking the length of each string.
        between = np.flatnonzero(np.frombuffer(joined, dtype=np.uint8) == 0)
        if len(between) != len(strings) - 1:
            return cls.of([string.encode() for string in strings])
        starts, ends = np.append(0, between + 1), np.append(between, len(joined))
        return cls(_with_margins(joined), MAX_BLOCK_BYTES + starts, ends - starts)

    @property
    def ends(self) -> IntArray:
        """The index in `data` after the end of each string."""
        return self.starts + self.lengths

    def part(self, starts: IntArray, lengths: IntArray, valid: npt.NDArray[np.bool_]) -> ByteStrings:
        """Other strings in the same buffer. Those that are not `valid` are empty."""
        return ByteStrings(self.data, np.where(valid, starts, self.starts), np.where(valid, lengths, 0))

    def blocks(self, width: int, *, before: int = 0) -> Block:
        """A block of `width` bytes for each string that begins `before` bytes before its start. It may exceed the string."""
        everywhere = np.ndarray(len(self.data) - width + 1, dtype=f"V{width}", buffer=self.data, strides=(1,))
        return everywhere[self.starts - before].view(np.uint8).reshape(-1, width)


def _with_margins(joined: bytes) -> bytes:
    room = bytes(MAX_BLOCK_BYTES)
    return b"".join((room, joined, room))
