"""The `Clock` port: wall-clock time and sleeping."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Wall-clock time in UTC, and sleeping."""

    def now(self) -> datetime:
        """Return the time as an aware datetime in UTC. It may jump in either direction."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after at least `seconds`."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        """Return the time of the machine's clock."""
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        """Sleep without blocking the event loop."""
        await asyncio.sleep(seconds)
