"""An event loop whose time passes only when everybody waits: an hour of sleeping takes no time, and is the same each run."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

Result = TypeVar("Result")

BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)


TURNS = 100_000
"""So often a loop may turn without any time passing; more, and it would turn for ever."""


class _Stillness:
    """Where a loop would wait for `timeout` seconds for the world outside, they pass at once, and nothing comes."""

    def __init__(self) -> None:
        self.now = 0.0
        self._turns = 0

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise RuntimeError("everybody waits, and nothing will ever happen")
        self._turns = 0 if timeout > 0 else self._turns + 1
        if self._turns > TURNS:
            self._turns = 0  # Whoever was busy is now told to end.
            raise RuntimeError("somebody is always busy, and no time passes")
        self.now += timeout
        return []


class VirtualLoop(asyncio.BaseEventLoop):
    """For what never leaves the process: no threads, no sockets."""

    def __init__(self) -> None:
        super().__init__()
        self._selector = _Stillness()

    @property
    def _clock_resolution(self) -> float:
        """A timer comes at its time or later: whoever was woken sooner would wait again, and no time would pass."""
        return math.ulp(self.time())

    @_clock_resolution.setter
    def _clock_resolution(self, resolution: float) -> None:
        """That of a real clock is no matter here."""

    def time(self) -> float:
        return self._selector.now

    def run_in_executor(  # type: ignore[override]
        self, executor: None, function: Callable[..., Result], *arguments: Any
    ) -> asyncio.Future[Result]:
        """What would be given to a thread is done at once."""
        done: asyncio.Future[Result] = self.create_future()
        try:
            done.set_result(function(*arguments))
        except BaseException as error:
            done.set_exception(error)
        return done

    def _process_events(self, events: list[Any]) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        """Nobody calls from another thread."""


class ManualClock:
    """The `Clock` port on the running loop's time; `jump` sets the wall clock without anybody sleeping less."""

    def __init__(self) -> None:
        self._jumped = timedelta()

    def now(self) -> datetime:
        return BEGINNING + timedelta(seconds=asyncio.get_running_loop().time()) + self._jumped

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    @property
    def ahead(self) -> timedelta:
        """How far the wall clock is ahead of the loop's time."""
        return self._jumped

    def jump(self, by: timedelta) -> None:
        self._jumped += by


def in_virtual_time(main: Coroutine[Any, Any, Result], *, at_most: float = 24 * 3600.0) -> Result:
    """Run to the end, which must come within so many virtual seconds."""

    async def within() -> Result:
        async with asyncio.timeout(at_most):
            return await main

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(within())
