"""For commands that follow a study: a broker that is restarted under them is waited for."""

from __future__ import annotations

import asyncio

from streamproc.errors import LogUnavailable

PAUSE = 0.5
"""Seconds between two tries."""


class OutageTimeout:
    """Outlasts a broker that is away for at most `seconds` at a time."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._until: float | None = None

    def reset(self) -> None:
        """The broker is there: what comes now is another absence."""
        self._until = None

    async def wait(self, problem: LogUnavailable) -> None:
        """Pause before the next try; raises the problem if that would be after the time allowed."""
        now = asyncio.get_running_loop().time()
        if self._until is None:
            self._until = now + self._seconds
        if now + PAUSE > self._until:
            raise problem
        await asyncio.sleep(PAUSE)
