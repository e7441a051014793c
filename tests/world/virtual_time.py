"""An event loop whose time passes only when everybody waits: an hour of sleeping takes no time, and is the same each run."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

Result = TypeVar("Result")

BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)


class _Stillness(selectors.DefaultSelector):
    """Where a loop would wait for `timeout` seconds, they pass at once."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("everybody waits, and nothing will ever happen")
        self.now += max(timeout, 0.0)
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """For what never leaves the process: no threads, no sockets."""

    def __init__(self) -> None:
        self._stillness = _Stillness()
        super().__init__(self._stillness)

    def time(self) -> float:
        return self._stillness.now


class ManualClock:
    """The `Clock` port on the running loop's time; `jump` sets the wall clock without anybody sleeping less."""

    def __init__(self) -> None:
        self._jumped = timedelta()

    def now(self) -> datetime:
        return BEGINNING + timedelta(seconds=asyncio.get_running_loop().time()) + self._jumped

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def jump(self, by: timedelta) -> None:
        self._jumped += by


def in_virtual_time(main: Coroutine[Any, Any, Result], *, at_most: float = 24 * 3600.0) -> Result:
    """Run to the end, which must come within so many virtual seconds."""

    async def within() -> Result:
        async with asyncio.timeout(at_most):
            return await main

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(within())
