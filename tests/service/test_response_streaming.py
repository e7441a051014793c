"""Clients that read large responses slowly: who is dropped, and when."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from aiohttp import web

from streamproc.service.load_control import ConcurrencyLimiter, Pace, pieces_of, stream_response
from streamproc.testing import in_virtual_time

BODY = b"x" * 1_000_000


class SlowClient:
    """A request and its response, whose client reads `rate` bytes a second, in virtual time; `buffer` bytes at once."""

    method = "GET"

    def __init__(self, rate: float, buffer: int = 300_000) -> None:
        self._rate, self._buffer = rate, buffer
        self.transport = self
        self.read = 0
        self.dropped_at: float | None = None

    async def prepare(self, request: object) -> None:
        pass

    async def write(self, data: memoryview) -> None:
        taken = min(self._buffer, len(data))
        self._buffer -= taken
        if taken < len(data):
            await (asyncio.sleep((len(data) - taken) / self._rate) if self._rate else asyncio.Event().wait())
        self.read += len(data)

    async def write_eof(self) -> None:
        pass

    def abort(self) -> None:
        self.dropped_at = asyncio.get_running_loop().time()

    async def fetch(self, limiter: ConcurrencyLimiter, pace: Pace | None = None) -> None:
        async with limiter.enter():
            client = cast(Any, self)
            await stream_response(cast(web.Request, client), client, pieces_of([BODY]), limiter.has_waiters, pace or Pace())


@pytest.mark.parametrize(("count", "rate"), [(4, 100_000), (6, 100_000), (20, 40_000)])
def test_slow_clients_are_all_served_though_others_wait(count: int, rate: int) -> None:
    clients = [SlowClient(rate) for _ in range(count)]

    async def ask_together() -> None:
        limiter = ConcurrencyLimiter(4, 64)
        await asyncio.gather(*(client.fetch(limiter) for client in clients))

    in_virtual_time(ask_together())
    assert [client.read for client in clients] == [len(BODY)] * count


def test_the_time_before_others_waited_does_not_count_against_a_client() -> None:
    slow, next_one = SlowClient(40_000, buffer=0), SlowClient(1_000_000)

    async def ask() -> None:
        limiter = ConcurrencyLimiter(1, 64)
        first = asyncio.create_task(slow.fetch(limiter))
        await asyncio.sleep(9)
        await next_one.fetch(limiter)
        await first

    in_virtual_time(ask())
    assert (slow.read, next_one.read) == (len(BODY), len(BODY))


def test_a_client_that_reads_nothing_is_dropped_seconds_after_others_begin_to_wait() -> None:
    silent, next_one = SlowClient(0), SlowClient(1_000_000)

    async def ask() -> None:
        limiter = ConcurrencyLimiter(1, 64)
        first = asyncio.create_task(silent.fetch(limiter))
        await asyncio.sleep(10)
        await next_one.fetch(limiter)
        await first

    in_virtual_time(ask())
    assert silent.dropped_at is not None
    assert 10 + Pace().contended <= silent.dropped_at <= 11 + Pace().contended
    assert next_one.read == len(BODY)


def test_a_client_that_reads_nothing_is_dropped_though_others_wait_only_now_and_then() -> None:
    silent = SlowClient(0)

    async def ask() -> None:
        limiter = ConcurrencyLimiter(1, 64)
        first = asyncio.create_task(silent.fetch(limiter))
        while not first.done():
            waiting = asyncio.create_task(SlowClient(1_000_000).fetch(limiter))
            await asyncio.sleep(2)
            waiting.cancel()
            await asyncio.sleep(2)
        await first

    in_virtual_time(ask())
    assert silent.dropped_at is not None
    assert silent.dropped_at <= Pace().alone + 1
