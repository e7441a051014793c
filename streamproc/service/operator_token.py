"""The operator's token: what is private is shown on this machine, or to who has the token."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from aiohttp import web

from streamproc.errors import InvalidInput
from streamproc.ports.secret_file import read_secret

TOKEN_FILE = "STREAMPROC_OPERATOR_TOKEN_FILE"
SHORTEST = 16
"""Characters of a token, at least: nothing slows down who guesses."""
OPEN = ("/livez", "/readyz")
"""For probes, which have no token: they tell whether the process does its work, and nothing about people."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def read_token(environ: Mapping[str, str]) -> str | None:
    """The token in the file that the environment names; None if it names none. Raises InvalidInput."""
    if not environ.get(TOKEN_FILE):
        return None
    token = read_secret(TOKEN_FILE, Path(environ[TOKEN_FILE])).strip()
    if len(token) < SHORTEST or not token.isascii() or not token.isprintable() or " " in token:
        raise InvalidInput(
            f"{TOKEN_FILE}: expected one line of {SHORTEST} or more letters, digits and signs, without spaces"
        )
    return token


def demand(app: web.Application, token: str) -> None:
    """Answer requests only if they carry `Authorization: Bearer TOKEN`, but for `OPEN`."""
    expected = f"Bearer {token}".encode()

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        shown = request.headers.get("Authorization", "").encode("utf-8", "surrogateescape")
        if request.path in OPEN or hmac.compare_digest(shown, expected):
            return await handler(request)
        return web.Response(status=401, text="a token is needed\n", headers={"WWW-Authenticate": "Bearer"})

    app.middlewares.append(check)
