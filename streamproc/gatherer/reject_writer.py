"""Writes the rejects of a partition, each once, even if its gatherer is stopped, resumed or replaced.

A gatherer makes the same rejects from the same log, at most one for each record. Before it appends rejects, it reads the
rejects topic and leaves out the records that have a reject there. A checkpoint stores the position from which the topic must
be read: rejects are appended before the next checkpoint is written, so the records of the rejects below that position will
not be rejected again. Two gatherers of one partition that append at the same time may both write the same reject.

The topic is not read with `TopicTail`, because its first records expire after 30 days and are not needed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import numpy as np

from streamproc.errors import Malformed, OffsetLost
from streamproc.log.port import Log, Offset, Reader, Record
from streamproc.protocol.rejects import Reject, decode_reject

_EMPTY = np.empty(0, dtype=np.int64)


class RejectWriter:
    """Writes the rejects of one partition. It takes 16 bytes for each reject in the topic that was not made again yet."""

    def __init__(self, log: Log, topic: str, partition: int, reader: Reader, offload: Callable[..., Awaitable[Any]]) -> None:
        self._log = log
        self._topic = topic
        self._partition = partition
        self._reader = reader
        self._offload = offload
        self._known = _EMPTY
        """Offsets of records that have a reject in the topic which this writer has not been given yet, ascending."""
        self._positions = _EMPTY
        """The offset in the rejects topic of each of these rejects."""
        self._written = _EMPTY
        """Offsets of records whose rejects were appended by this writer and have not been read back yet."""

    @classmethod
    async def open(
        cls, log: Log, topic: str, partition: int, position: Offset, offload: Callable[..., Awaitable[Any]]
    ) -> RejectWriter:
        """A writer that has read the topic from `position` on, or from its start if the topic does not hold `position`."""
        start = await log.start_offset(topic, 0)
        first = position if start <= position <= await log.high_watermark(topic, 0) else start
        self = cls(log, topic, partition, await log.reader(topic, 0, first), offload)
        await self.catch_up()
        return self

    @property
    def position(self) -> Offset:
        """The offset to resume reading the topic from; valid once `catch_up` has returned."""
        return Offset(int(self._positions.min(initial=self._reader.position)))

    async def catch_up(self) -> None:
        """Read the topic to its current end."""
        end = await self._log.last_stable_offset(self._topic, 0)
        try:
            while self._reader.position < end:
                records = await self._reader.read()
                await self._offload(self._add_known, records)
        except OffsetLost:
            # Records expire after 30 days, or the topic was recreated: it does not hold what was read from it before.
            await self._reader.close()
            self._known = self._positions = _EMPTY
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

    def _add_known(self, records: Sequence[Record]) -> None:
        found = _rejects_in(records, self._partition)
        if found:
            positions, offsets = np.array(found, dtype=np.int64).T
            others = ~np.isin(offsets, self._written)
            self._written = self._written[~np.isin(self._written, offsets)]
            # The new ones are sorted and merged, because a sort of all for each chunk would be quadratic in the chunks.
            offsets, first = np.unique(offsets[others], return_index=True)
            positions = positions[others][first]
            at = np.searchsorted(self._known, offsets)
            fresh = np.append(self._known, -1)[at] != offsets
            self._known = np.insert(self._known, at[fresh], offsets[fresh])
            self._positions = np.insert(self._positions, at[fresh], positions[fresh])

    def _new(self, rejects: Sequence[Reject]) -> list[Reject]:
        offsets = np.array([reject.offset for reject in rejects], dtype=np.int64)
        at = np.searchsorted(self._known, offsets)
        known = np.append(self._known, -1)[at] == offsets
        if known.any():
            self._known, self._positions = np.delete(self._known, at[known]), np.delete(self._positions, at[known])
        return [reject for reject, is_known in zip(rejects, known.tolist(), strict=True) if not is_known]


def _rejects_in(records: Sequence[Record], partition: int) -> list[tuple[int, int]]:
    """The offset of each reject of a partition among these records, and the offset of the report record it is about."""
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
