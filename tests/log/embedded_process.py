"""Another process on an embedded log, which prints a line for each thing done."""

from __future__ import annotations

import asyncio
import resource
import signal
import sys
from pathlib import Path

from streamproc.errors import LogError
from streamproc.log.embedded import EmbeddedLog


def say(*words: object) -> None:
    print(*words, flush=True)


async def append(log: EmbeddedLog, topic: str, name: str, count: str) -> None:
    """`count` records, and each tenth time a transaction of two more."""
    producer = await log.transactional_producer(f"{topic}.{name}")
    await producer.fence()
    for number in range(int(count)):
        say(await log.append(topic, 0, f"{name}/{number}".encode()))
        if number % 10 == 0:
            await producer.begin()
            for half in "ab":
                await producer.send(topic, 0, f"{name}/{number}{half}".encode())
            await producer.commit()


async def join(log: EmbeddedLog, topic: str) -> None:
    """Take part in gathering until killed."""
    member = await log.join_group(f"{topic}.gather", topic)
    while True:
        say(*sorted(await member.assigned(timeout=5)))


async def fill(log: EmbeddedLog, topic: str) -> None:
    """Append until the disk is full, which it is at 3 MB."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3_000_000, 3_000_000))
    try:
        while True:
            say(await log.append(topic, 0, b"x" * 100_000))
    except LogError as error:
        say(type(error).__name__, error)


async def main() -> None:
    what, folder, topic, *more = sys.argv[1:]
    async with EmbeddedLog(Path(folder)) as log:
        if what == "append":
            await append(log, topic, *more)
        else:
            await {"join": join, "fill": fill}[what](log, topic)


if __name__ == "__main__":
    asyncio.run(main())
