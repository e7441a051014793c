"""Load control: a response cache, single-flight requests, a concurrency limit, and a minimum speed for slow clients."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Sized
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

from aiohttp import web

CacheKey: TypeAlias = tuple[str | int | tuple[str, ...], ...]
"""The part of a request that determines the response, without other parts of its address."""

CachedValue = TypeVar("CachedValue", bound=Sized)
"""A value whose `len` is its size in bytes."""


class ResponseCache(Generic[CachedValue]):
    """A least-recently-used cache of responses of the newest version. All open pages send the same requests together."""

    def __init__(self, max_bytes: int) -> None:
        """Limit values and keys together to `max_bytes`. Keys count, because clients choose how long they are."""
        self._max_bytes = max_bytes
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


CHUNK = 81_920
"""Bytes written at once. aiohttp waits for a full write buffer only after a write of more than 65,536 bytes."""

CONTENTION_CHECK_INTERVAL_S = 0.5
"""Seconds between two checks whether other clients wait."""


@dataclass(frozen=True)
class Pace:
    """How fast a client must read a large response. It takes up one of a few places meanwhile, and memory."""

    rate: int = 32_768
    """Bytes a second that a client must read, averaged over the seconds below. A slow mobile line is faster."""
    alone: float = 30.0
    """Seconds over which a client is measured while nobody waits for its place."""
    contended: float = 5.0
    """Seconds while others wait, counted from when they began to: a client that reads nothing must not keep them waiting for
    long. Each chunk is read within 2.5 seconds at `rate`, so these are enough for two."""


class Meter:
    """Measures a client: it must read `seconds * rate` bytes for every `seconds` that it keeps the server waiting."""

    def __init__(self, seconds: float, rate: int) -> None:
        self._seconds, self._rate = seconds, rate
        self._waited, self._read = 0.0, 0

    @property
    def seconds_left(self) -> float:
        """Seconds that the client still has to read the bytes that are missing."""
        return self._seconds - self._waited

    def count_seconds(self, seconds: float) -> None:
        """The server has waited for the client."""
        self._waited += seconds

    def count_bytes(self, count: int) -> None:
        """The client has read bytes; once they are enough, the next interval begins."""
        self._read += count
        if self._read >= self._seconds * self._rate:
            self._waited, self._read = 0.0, 0


class Meters:
    """The meters of one client: one all the time, and one while other clients wait, from when they began to."""

    def __init__(self, pace: Pace, others_wait: Callable[[], bool]) -> None:
        self._pace, self._others_wait = pace, others_wait
        self._alone = Meter(pace.alone, pace.rate)
        self._contended: Meter | None = None

    async def wait_for(self, write: Coroutine[Any, Any, None], count: int) -> None:
        """Wait until the write buffer has taken the `count` bytes of a write; TimeoutError if the client is too slow."""
        now = asyncio.get_running_loop().time
        writing = asyncio.ensure_future(write)
        try:
            while not writing.done():
                left = min(meter.seconds_left for meter in self._current())
                if left <= 0:
                    raise TimeoutError
                began = now()
                await asyncio.wait([writing], timeout=min(left, CONTENTION_CHECK_INTERVAL_S))
                for meter in self._meters():
                    meter.count_seconds(now() - began)
            writing.result()
        finally:
            writing.cancel()
        for meter in self._meters():
            meter.count_bytes(count)

    def _current(self) -> list[Meter]:
        """The meters that apply from now on."""
        if not self._others_wait():
            self._contended = None
        elif self._contended is None:
            self._contended = Meter(self._pace.contended, self._pace.rate)
        return self._meters()

    def _meters(self) -> list[Meter]:
        return [self._alone] if self._contended is None else [self._alone, self._contended]


async def stream_response(
    request: web.Request,
    response: web.StreamResponse,
    pieces: AsyncIterator[bytes],
    others_wait: Callable[[], bool],
    pace: Pace,
) -> web.StreamResponse:
    """Send a response piece by piece, and return it; the connection of a client that is slower than `pace` is aborted.

    Besides the current piece, the response holds at most one chunk more than the limit of the write buffer.
    """
    meters = Meters(pace, others_wait)
    try:
        await response.prepare(request)
        if request.method != "HEAD":
            async for piece in pieces:
                for start in range(0, len(piece), CHUNK):
                    chunk = memoryview(piece)[start : start + CHUNK]
                    await meters.wait_for(response.write(chunk), len(chunk))
            await meters.wait_for(response.write_eof(), 0)
    except TimeoutError:
        if request.transport is not None:
            request.transport.abort()  # `close` would wait until the write buffer is sent
    except ConnectionError:
        pass  # the client is gone
    return response


async def pieces_of(parts: Iterable[bytes]) -> AsyncIterator[bytes]:
    """What is there already, as `stream_response` takes it."""
    for part in parts:
        yield part
