"""HTTP responses of the page: security headers, ETags, compression, JSON, errors, and Server-Sent Events.

An event tells an open page only that something has changed; the page then requests the data, which is cached as usual.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
import re
from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from aiohttp import web

from streamproc.status_page.follower import Follower

HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Server": "streamproc",
}

MIN_GZIP_BYTES = 1_000
"""Minimum size of a body that is compressed. A smaller one fits into one packet anyway."""

_CONTENT_TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}


def content_policy(page: bytes) -> str:
    """Return the Content-Security-Policy: files of this server, and the inline scripts of `page`, by their digests."""
    digests = [hashlib.sha256(script).digest() for script in re.findall(rb"<script>(.*?)</script>", page, re.DOTALL)]
    scripts = " ".join(["'self'", *(f"'sha256-{b64encode(digest).decode()}'" for digest in digests)])
    denied = "object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    return f"default-src 'self'; script-src {scripts}; {denied}"


def add_security_headers(page: bytes) -> Callable[[web.Request, web.StreamResponse], Awaitable[None]]:
    """Return a handler for `on_response_prepare` that adds the security headers; `page` is the HTML of the page."""
    headers = HEADERS | {"Content-Security-Policy": content_policy(page)}

    async def add_headers(request: web.Request, response: web.StreamResponse) -> None:
        response.headers.update(headers)

    return add_headers


@dataclass(frozen=True)
class Body:
    """The body of a response, created once and shared by all connections that it is sent on."""

    plain: bytes
    gzipped: bytes | None
    """The body as gzip; None if it is too small to compress."""
    tag: str
    """The ETag."""

    @classmethod
    def of(cls, plain: bytes) -> Body:
        """Compress and hash a body, which takes a while for a large one."""
        gzipped = gzip.compress(plain, mtime=0) if len(plain) >= MIN_GZIP_BYTES else None
        return cls(plain, gzipped, f'W/"{hashlib.sha256(plain).hexdigest()[:32]}"')

    def __len__(self) -> int:
        return len(self.plain) + len(self.gzipped or b"")

    def negotiate_encoding(self, request: web.Request) -> tuple[bytes, dict[str, str]]:
        """Return the bytes to send, compressed if the client accepts gzip, and their headers."""
        headers = {"ETag": self.tag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
        if self.gzipped is None or "gzip" not in request.headers.get("Accept-Encoding", "").lower():
            return self.plain, headers
        return self.gzipped, headers | {"Content-Encoding": "gzip"}

    def matches_etag(self, request: web.Request) -> bool:
        """Return whether the request names the tag of this body, so that the client has the body."""
        return self.tag in request.headers.get("If-None-Match", "")


def json_bytes(values: Mapping[str, Any]) -> bytes:
    """Return compact JSON. Raises ValueError for NaN and infinity, which JSON cannot represent."""
    return json.dumps(values, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode()


def error_response(status: int, message: str) -> web.Response:
    """Return an error as JSON, with one line under "error"; a 503 also asks the client to retry in two seconds."""
    headers = {"Cache-Control": "no-store"} | ({"Retry-After": "2"} if status == 503 else {})
    return web.Response(status=status, body=json_bytes({"error": message}), content_type="application/json", headers=headers)


class Asset:
    """A file of the page, loaded into memory."""

    def __init__(self, name: str, content: bytes) -> None:
        self.body = Body.of(content)
        self.content_type = _CONTENT_TYPES[name[name.rindex(".") :]]


def assets() -> dict[str, Asset]:
    """Return every file of the page by its name."""
    folder = files("streamproc.status_page") / "static"
    return {
        file.name: Asset(file.name, file.read_bytes())
        for file in folder.iterdir()
        if file.name.endswith(tuple(_CONTENT_TYPES))
    }


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
