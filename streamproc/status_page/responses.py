"""How the page answers: headers that keep a browser to this origin, and tags that spare it what it has."""

from __future__ import annotations

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

HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Server": "streamproc",
}

MIN_GZIP_BYTES = 1_000
"""Bytes below which a body is not compressed: it fits into one packet as it is."""

_KINDS = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}


def content_policy(page: bytes) -> str:
    """What a browser may load and run: files of this server, and the scripts that stand in the page itself."""
    inside = [hashlib.sha256(script).digest() for script in re.findall(rb"<script>(.*?)</script>", page, re.DOTALL)]
    scripts = " ".join(["'self'", *(f"'sha256-{b64encode(digest).decode()}'" for digest in inside)])
    nothing = "object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    return f"default-src 'self'; script-src {scripts}; {nothing}"


def adding_headers(page: bytes) -> Callable[[web.Request, web.StreamResponse], Awaitable[None]]:
    """For `on_response_prepare`."""
    headers = HEADERS | {"Content-Security-Policy": content_policy(page)}

    async def add_headers(request: web.Request, response: web.StreamResponse) -> None:
        response.headers.update(headers)

    return add_headers


@dataclass(frozen=True)
class Body:
    """The body of a response, made once and shared by every connection that it is sent on."""

    plain: bytes
    packed: bytes | None
    """The same as gzip; None if it is not worth it."""
    tag: str

    @classmethod
    def of(cls, plain: bytes) -> Body:
        """Takes a while for a large one."""
        packed = gzip.compress(plain, mtime=0) if len(plain) >= MIN_GZIP_BYTES else None
        return cls(plain, packed, f'W/"{hashlib.sha256(plain).hexdigest()[:32]}"')

    def __len__(self) -> int:
        return len(self.plain) + len(self.packed or b"")

    def negotiate_encoding(self, request: web.Request) -> tuple[bytes, dict[str, str]]:
        """The bytes to send in answer to a request, and the headers that go with them."""
        headers = {"ETag": self.tag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
        if self.packed is None or "gzip" not in request.headers.get("Accept-Encoding", "").lower():
            return self.plain, headers
        return self.packed, headers | {"Content-Encoding": "gzip"}

    def matches_etag(self, request: web.Request) -> bool:
        """Whether the request names the tag of this body, which the client then has."""
        return self.tag in request.headers.get("If-None-Match", "")


def json_bytes(values: Mapping[str, Any]) -> bytes:
    """JSON; a number that is none would be no JSON."""
    return json.dumps(values, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode()


def error_response(status: int, said: str) -> web.Response:
    """One line that says what was expected."""
    headers = {"Cache-Control": "no-store"} | ({"Retry-After": "2"} if status == 503 else {})
    return web.Response(status=status, body=json_bytes({"error": said}), content_type="application/json", headers=headers)


class Asset:
    """A file of the page, in memory."""

    def __init__(self, name: str, content: bytes) -> None:
        self.body = Body.of(content)
        self.kind = _KINDS[name[name.rindex(".") :]]


def assets() -> dict[str, Asset]:
    """Every file of the page by name."""
    folder = files("streamproc.status_page") / "static"
    return {file.name: Asset(file.name, file.read_bytes()) for file in folder.iterdir() if file.name.endswith(tuple(_KINDS))}
