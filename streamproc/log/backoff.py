"""Pauses between two attempts to reach a broker: exponential back-off, and a limit on the length of one outage."""

from __future__ import annotations

import asyncio

from streamproc.errors import LogUnavailable

OUTAGE_PAUSE_S = 0.5
"""Seconds between two attempts during an outage."""


class Backoff:
    """Exponential back-off: each pause is twice the previous one, from `first` seconds up to at most `longest` seconds."""

    def __init__(self, first: float, longest: float) -> None:
        if not 0 < first <= longest:
            raise ValueError(f"back-off: expected 0 < first <= longest, not first {first!r}, longest {longest!r}")
        self._first, self._longest = first, longest
        self._next = first

    def next_pause(self) -> float:
        """Return the number of seconds to wait before the next attempt, and double it for the one after that."""
        pause = self._next
        self._next = min(2 * pause, self._longest)
        return pause

    def reset(self) -> None:
        """Start again with the first pause. Call this after an attempt that succeeded."""
        self._next = self._first


class OutageTimeout:
    """Limits each outage of a broker to `seconds`, for commands that continue after a broker has been restarted."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._deadline: float | None = None

    def reset(self) -> None:
        """Note that the broker has answered, so that the next error begins a new outage."""
        self._deadline = None

    async def wait(self, problem: LogUnavailable) -> None:
        """Sleep before the next attempt. Raises `problem` if the outage would then have lasted longer than allowed."""
        now = asyncio.get_running_loop().time()
        if self._deadline is None:
            self._deadline = now + self._seconds
        if now + OUTAGE_PAUSE_S > self._deadline:
            raise problem
        await asyncio.sleep(OUTAGE_PAUSE_S)
