"""Many readers at once: a few are let in at a time, and what all of them ask for is made once."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Sized
from contextlib import asynccontextmanager
from typing import Generic, TypeAlias, TypeVar

CacheKey: TypeAlias = tuple[str | int | tuple[str, ...], ...]
"""What is asked for, and nothing else that an address may hold."""

CachedValue = TypeVar("CachedValue", bound=Sized)
"""Its length is the memory it takes, in bytes."""


class ResponseCache(Generic[CachedValue]):
    """Answers of the newest version by their question, those asked for last: all pages ask the same at the same time."""

    def __init__(self, most_bytes: int) -> None:
        """`most_bytes` of answers and questions: who asks decides how long those are, too."""
        self._most = most_bytes
        self._version = -1
        self._answers: OrderedDict[CacheKey, CachedValue] = OrderedDict()
        self._bytes = 0

    def get(self, version: int, question: CacheKey) -> CachedValue | None:
        """The answer, if it is there and of that version."""
        if version != self._version or question not in self._answers:
            return None
        self._answers.move_to_end(question)
        return self._answers[question]

    def put(self, version: int, question: CacheKey, answer: CachedValue) -> None:
        """Keep it, in place of all of an earlier version, and of those not asked for longest."""
        if version < self._version:
            return
        if version > self._version:
            self._version, self._answers, self._bytes = version, OrderedDict(), 0
        if question not in self._answers:
            self._answers[question] = answer
            self._bytes += _size(question, answer)
        while self._bytes > self._most:
            self._bytes -= _size(*self._answers.popitem(last=False))


def _size(question: CacheKey, answer: Sized) -> int:
    return len(repr(question)) + len(answer)


class SingleFlight(Generic[CachedValue]):
    """Work under way, by what it is for: whoever wants the same waits for it."""

    def __init__(self) -> None:
        self._tasks: dict[tuple[int, CacheKey], asyncio.Future[CachedValue]] = {}

    async def once(self, what: tuple[int, CacheKey], work: Callable[[], Awaitable[CachedValue]]) -> CachedValue:
        """The result of `work`, or of the same for another; who goes away meanwhile does not end it."""
        if what not in self._tasks:
            self._tasks[what] = asyncio.ensure_future(work())
            self._tasks[what].add_done_callback(lambda task: self._forget(what, task))
        return await asyncio.shield(self._tasks[what])

    def _forget(self, what: tuple[int, CacheKey], task: asyncio.Future[CachedValue]) -> None:
        del self._tasks[what]
        if not task.cancelled():
            task.exception()  # told to whoever still waits, and else to nobody


class Overloaded(Exception):
    """Too many ask at once."""


class ConcurrencyLimiter:
    """Lets a few in at a time and has a few more wait: readers of a public page must not hold up the study."""

    def __init__(self, inside: int, waiting: int) -> None:
        self._places = asyncio.Semaphore(inside)
        self._inside = inside
        self._most = inside + waiting
        self._there = 0

    def has_waiters(self) -> bool:
        """Whether somebody waits for a place."""
        return self._there > self._inside

    @asynccontextmanager
    async def enter(self) -> AsyncIterator[None]:
        """Wait for a place; Crowded if too many do already."""
        if self._there >= self._most:
            raise Overloaded
        self._there += 1
        try:
            async with self._places:
                yield
        finally:
            self._there -= 1
