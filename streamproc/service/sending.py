"""Sends large responses in chunks, and drops a client that does not read them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import Any

from aiohttp import web

CHUNK = 81_920
"""Bytes written at once. aiohttp waits for a full write buffer only after a write of more than 65,536 bytes."""

CROWD_CHECK_INTERVAL_S = 0.5
"""Seconds between two checks whether other clients wait."""


@dataclass(frozen=True)
class Pace:
    """How fast a client must read a large response. It takes up one of a few places meanwhile, and memory."""

    window: int = 1 << 20
    """Bytes that must be read within each of these times."""
    alone: float = 30.0
    """Seconds while nobody waits for the place: 35 kB a second are enough."""
    crowded: float = 5.0
    """Seconds while others wait: a client that reads nothing must not keep them waiting for long."""


async def stream_response(
    request: web.Request,
    response: web.StreamResponse,
    pieces: AsyncIterator[bytes],
    is_crowded: Callable[[], bool],
    pace: Pace,
) -> web.StreamResponse:
    """Send a response piece by piece, and return it; the connection of a client that is slower than `pace` is aborted.

    The response holds no more than a chunk beyond the write buffer's limit, besides the piece it is at.
    """
    try:
        await response.prepare(request)
        if request.method != "HEAD":
            waited, sent = 0.0, 0
            async for piece in pieces:
                for start in range(0, len(piece), CHUNK):
                    chunk = memoryview(piece)[start : start + CHUNK]
                    waited += await _wait(response.write(chunk), waited, is_crowded, pace)
                    sent += len(chunk)
                    if sent >= pace.window:
                        waited, sent = 0.0, 0
            await _wait(response.write_eof(), waited, is_crowded, pace)
    except TimeoutError:
        if request.transport is not None:
            request.transport.abort()  # `close` would wait until the write buffer is sent
    except ConnectionError:
        pass  # the client is gone
    return response


async def _wait(write: Coroutine[Any, Any, None], waited: float, is_crowded: Callable[[], bool], pace: Pace) -> float:
    """Wait until the write buffer has taken what is written; the seconds this took.

    Raises TimeoutError if they and those `waited` before exceed what `pace` allows.
    """
    now = asyncio.get_running_loop().time
    began, writing = now(), asyncio.ensure_future(write)
    try:
        while not writing.done():
            left = (pace.crowded if is_crowded() else pace.alone) - waited - (now() - began)
            if left <= 0:
                raise TimeoutError
            await asyncio.wait([writing], timeout=min(left, CROWD_CHECK_INTERVAL_S))
        writing.result()
    finally:
        writing.cancel()
    return now() - began


async def pieces_of(parts: Iterable[bytes]) -> AsyncIterator[bytes]:
    """What is there already, as `stream_response` takes it."""
    for part in parts:
        yield part
