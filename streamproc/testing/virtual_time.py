"""An asyncio event loop with virtual time: when all tasks wait, the time jumps to the next timer.

An hour of `asyncio.sleep` takes no real time, and every run is the same.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

Result = TypeVar("Result")

BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)
"""What a `ManualClock` shows when the loop starts."""

TURNS = 100_000
"""Iterations of the loop without any time passing after which it is considered stuck."""


class _VirtualSelector:
    """Takes the place of the loop's selector: instead of waiting for I/O, it advances the time by the timeout."""

    def __init__(self) -> None:
        self.now = 0.0
        self._turns = 0

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise RuntimeError("deadlock: all tasks wait and no timer is set")
        self._turns = 0 if timeout > 0 else self._turns + 1
        if self._turns > TURNS:
            self._turns = 0  # The runner cancels the tasks next, which needs more iterations.
            raise RuntimeError("a task never waits, so no time passes")
        self.now += timeout
        return []


class VirtualLoop(asyncio.BaseEventLoop):
    """An event loop in virtual time, for tasks without threads and sockets. Its time starts at 0 seconds."""

    def __init__(self) -> None:
        super().__init__()
        self._selector = _VirtualSelector()

    @property
    def _clock_resolution(self) -> float:
        """The smallest step of the time. With a larger one, timers would fire early and their tasks wait again forever."""
        return math.ulp(self.time())

    @_clock_resolution.setter
    def _clock_resolution(self, resolution: float) -> None:
        """Ignore the resolution of the system's clock, which the base class sets."""

    def time(self) -> float:
        return self._selector.now

    def run_in_executor(  # type: ignore[override]
        self, executor: None, function: Callable[..., Result], *arguments: Any
    ) -> asyncio.Future[Result]:
        """Call the function at once instead of in a thread."""
        done: asyncio.Future[Result] = self.create_future()
        try:
            done.set_result(function(*arguments))
        except BaseException as error:
            done.set_exception(error)
        return done

    def _process_events(self, events: list[Any]) -> None:
        """Do nothing: there are no I/O events."""

    def _write_to_self(self) -> None:
        """Do nothing: there are no other threads to wake the loop for."""


class ManualClock:
    """A clock that shows the time of the running loop. `jump` sets it without a change to how long sleeps take."""

    def __init__(self) -> None:
        self._jumped = timedelta()

    def now(self) -> datetime:
        return BEGINNING + timedelta(seconds=asyncio.get_running_loop().time()) + self._jumped

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    @property
    def ahead(self) -> timedelta:
        """Sum of all jumps."""
        return self._jumped

    def jump(self, by: timedelta) -> None:
        """Set the clock forward or back."""
        self._jumped += by


def in_virtual_time(main: Coroutine[Any, Any, Result], *, at_most: float = 24 * 3600.0) -> Result:
    """Run a coroutine in virtual time and return its result.

    Raises TimeoutError after `at_most` virtual seconds, and RuntimeError if all tasks wait for each other or none waits.
    """

    async def within() -> Result:
        async with asyncio.timeout(at_most):
            return await main

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(within())
