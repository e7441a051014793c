"""Load control: a response cache, single-flight requests and a concurrency limit."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Sized
from contextlib import asynccontextmanager
from typing import Generic, TypeAlias, TypeVar

CacheKey: TypeAlias = tuple[str | int | tuple[str, ...], ...]
"""The part of a request that determines the response, without other parts of its address."""

CachedValue = TypeVar("CachedValue", bound=Sized)
"""A value whose `len` is its size in bytes."""


class ResponseCache(Generic[CachedValue]):
    """A least-recently-used cache of responses of the newest version. All open pages send the same requests together."""

    def __init__(self, most_bytes: int) -> None:
        """Limit values and keys together to `most_bytes`. Keys count, because clients choose how long they are."""
        self._max_bytes = most_bytes
        self._version = -1
        self._values: OrderedDict[CacheKey, CachedValue] = OrderedDict()
        self._bytes = 0

    def get(self, version: int, key: CacheKey) -> CachedValue | None:
        """The value of a key in this version; None if it is not in the cache."""
        if version != self._version or key not in self._values:
            return None
        self._values.move_to_end(key)
        return self._values[key]

    def put(self, version: int, key: CacheKey, value: CachedValue) -> None:
        """Store a value. This drops all values of an earlier version, and the least recently used ones above the limit."""
        if version < self._version:
            return
        if version > self._version:
            self._version, self._values, self._bytes = version, OrderedDict(), 0
        if key not in self._values:
            self._values[key] = value
            self._bytes += _size(key, value)
        while self._bytes > self._max_bytes:
            self._bytes -= _size(*self._values.popitem(last=False))


def _size(key: CacheKey, value: Sized) -> int:
    return len(repr(key)) + len(value)


class SingleFlight(Generic[CachedValue]):
    """Runs one task for all concurrent callers that need the same result."""

    def __init__(self) -> None:
        self._tasks: dict[tuple[int, CacheKey], asyncio.Future[CachedValue]] = {}

    async def once(self, what: tuple[int, CacheKey], work: Callable[[], Awaitable[CachedValue]]) -> CachedValue:
        """The result of `work`, or of the running task of the same key. A cancelled caller does not cancel the task."""
        if what not in self._tasks:
            self._tasks[what] = asyncio.ensure_future(work())
            self._tasks[what].add_done_callback(lambda task: self._forget(what, task))
        return await asyncio.shield(self._tasks[what])

    def _forget(self, what: tuple[int, CacheKey], task: asyncio.Future[CachedValue]) -> None:
        del self._tasks[what]
        if not task.cancelled():
            task.exception()  # marks it as retrieved: asyncio would log an exception for which no caller waits any more


class Overloaded(Exception):
    """Too many requests are being handled or wait."""


class ConcurrencyLimiter:
    """Limits the number of concurrent requests and of those that wait, so that public readers do not slow the roles down."""

    def __init__(self, inside: int, waiting: int) -> None:
        self._semaphore = asyncio.Semaphore(inside)
        self._inside = inside
        self._max_present = inside + waiting
        self._present = 0

    def has_waiters(self) -> bool:
        """Whether a request waits."""
        return self._present > self._inside

    @asynccontextmanager
    async def enter(self) -> AsyncIterator[None]:
        """Wait until fewer than the allowed number are inside. Raises Overloaded if too many wait already."""
        if self._present >= self._max_present:
            raise Overloaded
        self._present += 1
        try:
            async with self._semaphore:
                yield
        finally:
            self._present -= 1
