"""Server-Sent Events: open pages are notified when the snapshot changes."""

from __future__ import annotations

import asyncio

from aiohttp import web

from streamproc.status_page.follower import Follower
from streamproc.status_page.responses import error_response

KEEPALIVE_S = 10.0
"""Seconds after which a stream without events sends a comment, which shows that the connection is alive."""

MAX_STREAMS = 256
"""Maximum open streams; further pages poll the status every few seconds instead."""


class EventStreams:
    """The open streams of one listener. An event carries only a version: a page then requests the data, which is cached."""

    def __init__(self, follower: Follower) -> None:
        self._follower = follower
        self._open: set[asyncio.Task[None]] = set()

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Serve one stream until the client disconnects or the process stops."""
        if len(self._open) >= MAX_STREAMS:
            return error_response(503, "too many open event streams; poll /api/v1/status instead")
        response = web.StreamResponse(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        response.content_type = "text/event-stream"
        await response.prepare(request)
        task = asyncio.create_task(self._send_events(response))
        self._open.add(task)
        try:
            await asyncio.wait([task])
        finally:
            self._open.discard(task)
            task.cancel()
        return response

    async def _send_events(self, response: web.StreamResponse) -> None:
        seen = -1
        try:
            await response.write(b"retry: 1000\n\n")
            while True:
                version = await self._follower.wait_for_change(seen, KEEPALIVE_S)
                await response.write(b": still here\n\n" if version == seen else b"event: news\ndata: %d\n\n" % version)
                seen = version
        except (ConnectionError, asyncio.CancelledError):
            pass  # the client has disconnected, or the process stops

    async def close(self, app: web.Application) -> None:
        """End all streams, for `on_shutdown`: a listener waits for its open responses."""
        for task in list(self._open):
            task.cancel()
