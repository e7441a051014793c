"""How the page answers: headers that keep a browser to this origin, and tags that spare it what it has."""

from __future__ import annotations

import hashlib
import json
import re
from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping
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

LARGE = 32_768
"""Bytes above which compressing is left to a thread."""

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


def tagged(request: web.Request, body: bytes, kind: str) -> web.Response:
    """The body, or 304 if the browser has it."""
    tag = f'W/"{hashlib.sha256(body).hexdigest()[:32]}"'
    headers = {"ETag": tag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
    if tag in request.headers.get("If-None-Match", ""):
        return web.Response(status=304, headers=headers)
    response = web.Response(body=body, content_type=kind, charset="utf-8", headers=headers, zlib_executor_size=LARGE)
    response.enable_compression()
    return response


def plain(request: web.Request, values: Mapping[str, Any]) -> web.Response:
    """Values as JSON."""
    return tagged(request, encoded(values), "application/json")


def encoded(values: Mapping[str, Any]) -> bytes:
    """JSON; a number that is none would be no JSON."""
    return json.dumps(values, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode()


def problem(status: int, said: str) -> web.Response:
    """One line that says what was expected."""
    headers = {"Cache-Control": "no-store"} | ({"Retry-After": "2"} if status == 503 else {})
    return web.Response(status=status, body=encoded({"error": said}), content_type="application/json", headers=headers)


class Asset:
    """A file of the page, in memory."""

    def __init__(self, name: str, body: bytes) -> None:
        self.body = body
        self.kind = _KINDS[name[name.rindex(".") :]]


def assets() -> dict[str, Asset]:
    """Every file of the page by name."""
    folder = files("streamproc.service.status_page") / "static"
    return {file.name: Asset(file.name, file.read_bytes()) for file in folder.iterdir() if file.name.endswith(tuple(_KINDS))}
