"""Tells open pages that there is something new, by Server-Sent Events."""

from __future__ import annotations

import asyncio

from aiohttp import web

from streamproc.status_page.follower import Follower
from streamproc.status_page.responses import error_response

KEEPALIVE_S = 10.0
"""Seconds after which a quiet stream says that it still lives."""

MAX_STREAMS = 256
"""Open at once; further pages ask again every few seconds instead."""


class EventStreams:
    """The open streams of one listener. An event carries only a number: what is new is asked for, and cached, as usual."""

    def __init__(self, follower: Follower) -> None:
        self._follower = follower
        self._open: set[asyncio.Task[None]] = set()

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """One stream, until the page or the process goes away."""
        if len(self._open) >= MAX_STREAMS:
            return error_response(503, "too many pages listen; ask for the status now and then instead")
        response = web.StreamResponse(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        response.content_type = "text/event-stream"
        await response.prepare(request)
        task = asyncio.create_task(self._tell(response))
        self._open.add(task)
        try:
            await asyncio.wait([task])
        finally:
            self._open.discard(task)
            task.cancel()
        return response

    async def _tell(self, response: web.StreamResponse) -> None:
        seen = -1
        try:
            await response.write(b"retry: 1000\n\n")
            while True:
                version = await self._follower.news(seen, KEEPALIVE_S)
                await response.write(b": still here\n\n" if version == seen else b"event: news\ndata: %d\n\n" % version)
                seen = version
        except (ConnectionError, asyncio.CancelledError):
            pass  # the page is gone, or we are

    async def close(self, app: web.Application) -> None:
        """For `on_shutdown`: a listener waits for what is open."""
        for task in list(self._open):
            task.cancel()
