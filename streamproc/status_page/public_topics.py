"""The public topics of a study, and nothing else: the only way in which the status page reads."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

from streamproc.log.port import Log, Offset, Reader
from streamproc.protocol.topics import Topics
from streamproc.study import Study

READ_AT_ONCE = 4
"""Records that `pieces` reads at a time. A chunk of a column has half a megabyte."""


class PublicTopics:
    """The part of a log that everybody may read. Another topic raises PermissionError, and nothing here writes."""

    def __init__(self, log: Log, study: Study) -> None:
        self._log = log
        accesses = Topics(study.name).access([release.name for release in study.releases])
        self._open = frozenset(access.topic for access in accesses if access.public)

    async def topics(self) -> Mapping[str, int]:
        """Those of the public topics that exist."""
        return {topic: count for topic, count in (await self._log.topics()).items() if topic in self._open}

    async def start_offset(self, topic: str, partition: int) -> Offset:
        """As the log says."""
        return await self._log.start_offset(self._public(topic), partition)

    async def high_watermark(self, topic: str, partition: int) -> Offset:
        """As the log says."""
        return await self._log.high_watermark(self._public(topic), partition)

    async def last_stable_offset(self, topic: str, partition: int) -> Offset:
        """As the log says."""
        return await self._log.last_stable_offset(self._public(topic), partition)

    async def reader(self, topic: str, partition: int, offset: Offset) -> Reader:
        """A reader of what is committed: a draw that is not has not left the synthesizer."""
        return await self._log.reader(self._public(topic), partition, offset)

    async def pieces(self, topic: str, offset: Offset, most: int) -> AsyncIterator[tuple[Offset, bytes]]:
        """Committed records from `offset` to where the topic ends now, each with the offset after it, until they have `most`
        bytes; at least one if there is one."""
        end = await self.last_stable_offset(topic, 0)
        reader = await self.reader(topic, 0, min(offset, end))
        given = 0
        try:
            while reader.position < end and given < most:
                for record in await reader.read(max_records=READ_AT_ONCE):
                    if record.offset >= end or given >= most:
                        return
                    value = record.value or b""
                    given += len(value)
                    yield Offset(record.offset + 1), value
        finally:
            await reader.close()

    def _public(self, topic: str) -> str:
        if topic not in self._open:
            raise PermissionError(f"topic {topic} is not public")
        return topic
