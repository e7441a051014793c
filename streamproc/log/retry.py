"""Attempts to reach a broker: exponential back-off, a limit on the length of one outage, and the retry of a role's work."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from streamproc.errors import LogUnavailable, NotAllowed, OutcomeUnknown

Result = TypeVar("Result")

OUTAGE_PAUSE_S = 0.5
"""Seconds between two attempts during an outage that a command waits for."""

MIN_RETRY_PAUSE_S, MAX_RETRY_PAUSE_S = 0.5, 30.0
"""Seconds between two attempts of a role: doubled from the first value up to the second."""


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


class PartMonitor(Protocol):
    """Shows which parts of a process are healthy and which wait for the broker."""

    def mark_healthy(self, part: str) -> None:
        """Mark a part as healthy."""
        ...

    def mark_degraded(self, problem: str, part: str) -> None:
        """Mark a part as degraded, because of a problem that will be retried."""
        ...

    def forget_part(self, part: str) -> None:
        """Forget a part that has ended."""
        ...


async def retry_while_unavailable(work: Callable[[], Awaitable[Result]], monitor: PartMonitor, part: str) -> Result:
    """Do the work and return its result; retry it, with back-off, as long as the broker is unavailable.

    `monitor` shows `part` as degraded until the work is done. Work that runs for long marks its part as healthy itself.
    NotAllowed is raised at once, because a retry does not help.
    """
    backoff, time = Backoff(MIN_RETRY_PAUSE_S, MAX_RETRY_PAUSE_S), asyncio.get_running_loop().time
    try:
        while True:
            began = time()
            try:
                result = await work()
                monitor.mark_healthy(part)
                return result
            except NotAllowed:
                raise
            except (LogUnavailable, OutcomeUnknown) as problem:
                if time() - began > MAX_RETRY_PAUSE_S:
                    backoff.reset()  # the work ran for a while, so this is a new outage
                pause = backoff.next_pause()
                monitor.mark_degraded(f"the broker is away, trying again in {pause:g} s: {problem}", part)
                await asyncio.sleep(pause)
    finally:
        monitor.forget_part(part)
