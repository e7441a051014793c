"""Writing a partition's rejects, each once, however often its gatherer is stopped, resumed or taken over.

A gatherer makes the same rejects from the same log, one for each record at most. Before it appends rejects it reads what
has come to the rejects topic, and leaves out the records that have a reject there. A checkpoint remembers from where on the
topic must be read: rejects are appended before the checkpoint that follows them is written, so those below that position are
of records that will not be rejected again. Two gatherers of one partition that append at the same moment may both write one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import numpy as np

from streamproc.errors import Malformed, OffsetLost
from streamproc.log.port import Log, Offset, Reader, Record
from streamproc.protocol.rejects import Reject, decode_reject

_NONE = np.empty(0, dtype=np.int64)


class RejectWriter:
    """Writes the rejects of one partition. It takes 16 bytes for each reject on the topic that it has not come to yet."""

    def __init__(self, log: Log, topic: str, partition: int, reader: Reader, offload: Callable[..., Awaitable[Any]]) -> None:
        self._log = log
        self._topic = topic
        self._partition = partition
        self._reader = reader
        self._offload = offload
        self._there = _NONE
        """Offsets of records that have a reject on the topic, ascending, as far as it was not made here yet."""
        self._places = _NONE
        """Where on the topic each of these rejects lies."""
        self._written = _NONE
        """Offsets of records whose rejects were appended here and have not been read back yet."""

    @classmethod
    async def open(
        cls, log: Log, topic: str, partition: int, position: Offset, offload: Callable[..., Awaitable[Any]]
    ) -> RejectWriter:
        """A writer that knows what the topic holds from `position` on; of a topic that does not reach it, everything."""
        start = await log.start_offset(topic, 0)
        first = position if start <= position <= await log.high_watermark(topic, 0) else start
        self = cls(log, topic, partition, await log.reader(topic, 0, first), offload)
        await self.catch_up()
        return self

    @property
    def position(self) -> Offset:
        """The offset to resume reading the topic from; valid once `catch_up` has returned."""
        return Offset(int(self._places.min(initial=self._reader.position)))

    async def catch_up(self) -> None:
        """Read what has come to the topic."""
        end = await self._log.last_stable_offset(self._topic, 0)
        try:
            while self._reader.position < end:
                records = await self._reader.read()
                await self._offload(self._take_note, records)
        except OffsetLost:
            # Records expire after 30 days, or the topic was created again: it does not hold what was read from it before.
            await self._reader.close()
            self._there = self._places = _NONE
            self._reader = await self._log.reader(self._topic, 0, await self._log.start_offset(self._topic, 0))
            await self.catch_up()

    async def write(self, rejects: Sequence[Reject]) -> Sequence[Reject]:
        """Append the rejects that the topic does not hold, and return those."""
        await self.catch_up()
        new: Sequence[Reject] = await self._offload(self._new, rejects)
        if new:
            values = await self._offload(_encoded, new)
            await self._log.append_many(self._topic, 0, values)
            self._written = np.append(self._written, [reject.offset for reject in new])
        return new

    async def close(self) -> None:
        """Stop reading."""
        await self._reader.close()

    def _take_note(self, records: Sequence[Record]) -> None:
        found = _rejects_in(records, self._partition)
        if found:
            places, offsets = np.array(found, dtype=np.int64).T
            others = ~np.isin(offsets, self._written)
            self._written = self._written[~np.isin(self._written, offsets)]
            # A sort of the new ones and a merge: a sort of all for each chunk would be quadratic in the chunks.
            offsets, first = np.unique(offsets[others], return_index=True)
            places = places[others][first]
            at = np.searchsorted(self._there, offsets)
            fresh = np.append(self._there, -1)[at] != offsets
            self._there = np.insert(self._there, at[fresh], offsets[fresh])
            self._places = np.insert(self._places, at[fresh], places[fresh])

    def _new(self, rejects: Sequence[Reject]) -> list[Reject]:
        offsets = np.array([reject.offset for reject in rejects], dtype=np.int64)
        at = np.searchsorted(self._there, offsets)
        known = np.append(self._there, -1)[at] == offsets
        if known.any():
            self._there, self._places = np.delete(self._there, at[known]), np.delete(self._places, at[known])
        return [reject for reject, is_known in zip(rejects, known.tolist(), strict=True) if not is_known]


def _rejects_in(records: Sequence[Record], partition: int) -> list[tuple[int, int]]:
    """Where the rejects of a partition lie among these, and the offsets of the records that they are of."""
    found = []
    for record in records:
        try:
            reject = decode_reject(record.value)
        except Malformed:
            continue
        if reject.partition == partition:
            found.append((record.offset, reject.offset))
    return found


def _encoded(rejects: Sequence[Reject]) -> list[tuple[None, bytes]]:
    return [(None, reject.encode()) for reject in rejects]
