"""Many short byte strings at once: where each lies in one piece of memory, for NumPy to work on all of them together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self, TypeAlias

import numpy as np
import numpy.typing as npt

from streamproc.privacy.types import IntArray

Block: TypeAlias = npt.NDArray[np.uint8]
"""A row of bytes for each string, as many as were asked for."""

MAX_BLOCK_BYTES = 256
"""Bytes; that many may be read from wherever a string begins, or could begin."""


@dataclass(frozen=True, eq=False, repr=False)
class ByteStrings:
    """Strings in `data`, some of which may be parts of others. There is room before the first and after the last."""

    data: bytes
    starts: IntArray
    lengths: IntArray

    @classmethod
    def of(cls, strings: Sequence[bytes]) -> Self:
        """These strings, one after the other."""
        lengths = np.fromiter(map(len, strings), dtype=np.int64, count=len(strings))
        return cls(_with_room(b"".join(strings)), MAX_BLOCK_BYTES + np.cumsum(lengths) - lengths, lengths)

    @classmethod
    def of_text(cls, strings: Sequence[str]) -> Self:
        """These strings in UTF-8."""
        joined = "\0".join(strings).encode()
        # Asking each string for its length takes longer than looking for what is between them.
        between = np.flatnonzero(np.frombuffer(joined, dtype=np.uint8) == 0)
        if len(between) != len(strings) - 1:
            return cls.of([string.encode() for string in strings])
        starts, ends = np.append(0, between + 1), np.append(between, len(joined))
        return cls(_with_room(joined), MAX_BLOCK_BYTES + starts, ends - starts)

    @property
    def ends(self) -> IntArray:
        """Where each string is over."""
        return self.starts + self.lengths

    def part(self, starts: IntArray, lengths: IntArray, valid: npt.NDArray[np.bool_]) -> ByteStrings:
        """Other strings in the same memory; those that are not valid are empty."""
        return ByteStrings(self.data, np.where(valid, starts, self.starts), np.where(valid, lengths, 0))

    def blocks(self, width: int, *, before: int = 0) -> Block:
        """The `width` bytes from `before` the start of each string on, whatever lies there."""
        everywhere = np.ndarray(len(self.data) - width + 1, dtype=f"V{width}", buffer=self.data, strides=(1,))
        return everywhere[self.starts - before].view(np.uint8).reshape(-1, width)


def _with_room(joined: bytes) -> bytes:
    room = bytes(MAX_BLOCK_BYTES)
    return b"".join((room, joined, room))
