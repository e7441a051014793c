"""Reading a whole partition, as it is now."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from streamproc.ports.log import Log, Record


async def everything(log: Log, topic: str, partition: int = 0) -> AsyncGenerator[Record, None]:
    """All committed records of a partition, from its start to where it ends now; none if there is no such topic."""
    if topic not in await log.topics():
        return
    end = await log.stable_offset(topic, partition)
    reader = await log.reader(topic, partition, await log.start_offset(topic, partition))
    try:
        while reader.position < end:
            for record in await reader.read():
                if record.offset < end:
                    yield record
    finally:
        await reader.close()
