"""The `Clock` port: what time it is, and waiting."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Wall time in UTC, and a way to let time pass."""

    def now(self) -> datetime:
        """The time, aware, in UTC. It may jump in either direction."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after at least that long."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        """The machine's idea of the time."""
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        """Leave the loop to others meanwhile."""
        await asyncio.sleep(seconds)
