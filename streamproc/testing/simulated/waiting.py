"""Waiting for something to change, at most for a while of the loop's time."""

from __future__ import annotations

import asyncio


class Changes:
    """Something that changes; those who wait are woken by each change."""

    def __init__(self) -> None:
        self.version = 0
        """Grows with every change."""
        self._waiting: list[asyncio.Future[None]] = []

    def wake(self) -> None:
        """Something has changed."""
        self.version += 1
        for waiter in self._waiting:
            _wake(waiter)
        self._waiting.clear()

    async def after(self, seen: int, timeout: float) -> None:
        """Wait for a change after version `seen`, at most `timeout` seconds."""
        if self.version != seen:
            return
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        alarm = loop.call_later(timeout, _wake, waiter)
        self._waiting.append(waiter)
        try:
            await waiter
        finally:
            alarm.cancel()
            if waiter in self._waiting:
                self._waiting.remove(waiter)


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
