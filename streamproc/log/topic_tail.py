"""Tailing: read a topic of one partition to its end, then read records as they are appended."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from streamproc.errors import NoSuchTopic, TopicLost
from streamproc.log.port import Offset, Reader, Record


class ReadableLog(Protocol):
    """The calls of `Log` that a reader of topics needs."""

    async def start_offset(self, topic: str, partition: int) -> Offset: ...
    async def high_watermark(self, topic: str, partition: int) -> Offset: ...
    async def last_stable_offset(self, topic: str, partition: int) -> Offset: ...
    async def reader(self, topic: str, partition: int, offset: Offset) -> Reader: ...


class TopicTail:
    """Reads the committed records of partition 0 of a topic, from `start` on. The topic need not exist yet."""

    def __init__(self, log: ReadableLog, topic: str, start: int = 0) -> None:
        self._log = log
        self._start = Offset(start)
        self._reader: Reader | None = None
        self.topic = topic

    @property
    def position(self) -> Offset:
        """The offset after the last record that was read."""
        return self._start if self._reader is None else self._reader.position

    async def open(self) -> None:
        """Open the reader now. Raises NoSuchTopic if the topic does not exist, TopicLost if its first records are gone."""
        if self._reader is None:
            # The list of all topics would not do: Kafka leaves out a topic that this user may not see.
            if await self._log.start_offset(self.topic, 0) > self._start:
                raise TopicLost(self.topic, "its first records are gone; it must be kept forever")
            self._reader = await self._log.reader(self.topic, 0, self._start)

    async def poll(self, *, timeout: float) -> Sequence[Record]:
        """The next records, waiting up to `timeout` seconds for one; none if the topic does not exist.

        Raises TopicLost if the topic is opened by this call and its first records are gone.
        """
        try:
            await self.open()
        except NoSuchTopic:
            await asyncio.sleep(timeout)
            return ()
        assert self._reader is not None
        return await self._reader.read(timeout=timeout)

    async def is_caught_up(self) -> bool:
        """Whether everything that was readable when this was called has been read."""
        if self._reader is None:
            return await self._is_missing()
        return self._reader.position >= await self._log.last_stable_offset(self.topic, 0)

    async def is_at_end(self) -> bool:
        """Whether everything has been read and no transaction is open on the topic."""
        if self._reader is None:
            return await self._is_missing()
        return self._reader.position >= await self._log.high_watermark(self.topic, 0)

    async def close(self) -> None:
        """Stop reading."""
        if self._reader is not None:
            await self._reader.close()

    async def _is_missing(self) -> bool:
        try:
            await self._log.start_offset(self.topic, 0)
        except NoSuchTopic:
            return True
        return False
