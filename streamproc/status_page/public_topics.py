"""Access to the public topics of a study and to no others: the status page reads the log only through this."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

from streamproc.log.port import Log, Offset, Reader
from streamproc.protocol.topics import Topics
from streamproc.study import Study

READ_BATCH = 4
"""Maximum records per read of `pieces`. A chunk of a column has half a megabyte."""


class PublicTopics:
    """Read access to the public topics of a log. Any other topic raises PermissionError."""

    def __init__(self, log: Log, study: Study) -> None:
        self._log = log
        accesses = Topics(study.name).access([release.name for release in study.releases])
        self._public_topics = frozenset(access.topic for access in accesses if access.public)

    async def topics(self) -> Mapping[str, int]:
        """Return the public topics that exist, with their numbers of partitions."""
        return {topic: count for topic, count in (await self._log.topics()).items() if topic in self._public_topics}

    async def start_offset(self, topic: str, partition: int) -> Offset:
        """Return the first offset of a partition."""
        return await self._log.start_offset(self._check_public(topic), partition)

    async def high_watermark(self, topic: str, partition: int) -> Offset:
        """Return the high watermark of a partition."""
        return await self._log.high_watermark(self._check_public(topic), partition)

    async def last_stable_offset(self, topic: str, partition: int) -> Offset:
        """Return the last stable offset of a partition."""
        return await self._log.last_stable_offset(self._check_public(topic), partition)

    async def reader(self, topic: str, partition: int, offset: Offset) -> Reader:
        """Return a reader of committed records only: a draw that is not committed is not released."""
        return await self._log.reader(self._check_public(topic), partition, offset)

    async def pieces(self, topic: str, offset: Offset, max_bytes: int) -> AsyncIterator[tuple[Offset, bytes]]:
        """Yield committed records from `offset` to the topic's end, each with the offset after it.

        Stops once the records have `max_bytes` bytes, but yields at least one record if there is one.
        """
        end = await self.last_stable_offset(topic, 0)
        reader = await self.reader(topic, 0, min(offset, end))
        size = 0
        try:
            while reader.position < end and size < max_bytes:
                for record in await reader.read(max_records=READ_BATCH):
                    if record.offset >= end or size >= max_bytes:
                        return
                    value = record.value or b""
                    size += len(value)
                    yield Offset(record.offset + 1), value
        finally:
            await reader.close()

    def _check_public(self, topic: str) -> str:
        if topic not in self._public_topics:
            raise PermissionError(f"topic {topic} is not public")
        return topic
