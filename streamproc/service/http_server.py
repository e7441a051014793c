"""The two HTTP listeners: one for everybody, one for the operator. Each has `/metrics`, `/livez` and `/readyz`."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from streamproc.errors import InvalidInput
from streamproc.service.connections import ACCEPT_BACKLOG, OPERATOR_LIMITS, Connections, Limits
from streamproc.service.load_control import ConcurrencyLimiter, Overloaded, SingleFlight
from streamproc.service.response_streaming import CHUNK, Pace, pieces_of, stream_response
from streamproc.storage.secret_files import read_secret

LOOPBACK = "127.0.0.1"

_NOW = {"Cache-Control": "no-store"}

SHUTDOWN_TIMEOUT_S = 5.0
"""Seconds that answers under way have to end when the process is told to."""

LINGERING_TIME_S = 2.0
"""Seconds for which the body of a request, which is not wanted, is read and dropped before its connection is closed."""

METRICS_AT_ONCE, METRICS_WAITING = 16, 64
"""Clients to which large metrics are sent at a time, and those that wait for their turn. All share the bytes of one version,
6.8 MB for a release of 65,536 bins, but a slow client may still be sent a version that newer ones have replaced."""


@dataclass(frozen=True)
class Address:
    """Where to listen."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Address:
        """`HOST:PORT`; port 0 takes a free one, and `:PORT` is one of this machine only."""
        host, colon, port = text.rpartition(":")
        if not colon or not port.isascii() or not port.isdigit() or int(port) > 65_535:
            raise InvalidInput(f"listener {text!r}: HOST:PORT was expected, such as 127.0.0.1:9100")
        return cls(host.strip("[]") or LOOPBACK, int(port))

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it; a name is taken for one that others can, but for `localhost`."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


class Listener:
    """An HTTP server on one address."""

    def __init__(
        self,
        address: Address,
        registry: CollectorRegistry,
        ready: Callable[[], bool],
        *,
        version: Callable[[], int] | None = None,
        limits: Limits | None = None,
        pace: Pace | None = None,
    ) -> None:
        """`version` changes whenever the metrics of `registry` do; without it they are taken to change all the time."""
        self._address = address
        self._ready = ready
        self._limits, self._pace = limits or Limits(), pace or Pace()
        self._metrics = EncodedMetrics(registry, version)
        self._scrapes = ConcurrencyLimiter(METRICS_AT_ONCE, METRICS_WAITING)
        self.app = web.Application()
        self.app.add_routes(
            [
                web.get("/metrics", self._serve_metrics),
                web.get("/livez", self._livez),
                web.get("/readyz", self._readyz),
            ]
        )
        # A request body is never read, so it need not be unpacked either. A handler whose client is gone leaves its place.
        self._runner = web.AppRunner(
            self.app,
            access_log=None,
            shutdown_timeout=SHUTDOWN_TIMEOUT_S,
            handler_cancellation=True,
            auto_decompress=False,
            lingering_time=LINGERING_TIME_S,
            keepalive_timeout=self._limits.idle,
        )
        self.connections = Connections(self._new_protocol, self._limits)
        """Makes the protocol of each new connection."""
        self.app.middlewares.append(self.connections.middleware)
        self._server: asyncio.Server | None = None

    async def start(self) -> Address:
        """Listen; answers with the address, whose port is now known."""
        await self._runner.setup()
        host, port = self._address.host, self._address.port
        try:
            self._server = await asyncio.get_running_loop().create_server(
                self.connections, host, port, backlog=ACCEPT_BACKLOG
            )
        except OSError as error:
            raise InvalidInput(f"listener {host}:{port}: cannot listen there: {error.strerror}") from None
        name = self._server.sockets[0].getsockname()
        return Address(host, int(name[1]))

    async def stop(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()
        await self._runner.cleanup()
        self.connections.abort_all()
        self._metrics.close()

    def _new_protocol(self) -> asyncio.Protocol:
        assert self._runner.server is not None, "a connection is made after the runner is set up"
        return self._runner.server()

    async def _serve_metrics(self, request: web.Request) -> web.StreamResponse:
        body = await self._metrics.encode()
        if len(body) <= CHUNK:
            return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})
        del body  # a client that waits must not keep a version in memory
        try:
            async with self._scrapes.enter():
                body = await self._metrics.encode()
                headers = {"Content-Type": CONTENT_TYPE_LATEST, "Content-Length": str(len(body))}
                response = web.StreamResponse(headers=headers)
                return await stream_response(request, response, pieces_of([body]), self._scrapes.has_waiters, self._pace)
        except Overloaded:
            headers = _NOW | {"Retry-After": "2"}
            return web.Response(status=503, text="too many clients read the metrics; try again later\n", headers=headers)

    async def _livez(self, request: web.Request) -> web.Response:
        return web.Response(text="ok\n", headers=_NOW)

    async def _readyz(self, request: web.Request) -> web.Response:
        ready = self._ready()
        return web.Response(text="ready\n" if ready else "not ready\n", status=200 if ready else 503, headers=_NOW)


class EncodedMetrics:
    """The metrics of a registry as text, which all connections share; they are encoded once for each version."""

    def __init__(self, registry: CollectorRegistry, version: Callable[[], int] | None) -> None:
        self._registry = registry
        self._version = version
        self._encoded: tuple[int, bytes] | None = None
        self._encoding = SingleFlight[bytes]()
        # A thread of its own: scrapes must not take those of the default executor, which the roles use.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="metrics")

    async def encode(self) -> bytes:
        """The metrics as they are now, or as they were when the encoding began that is under way for another client.

        A client that disconnects does not end an encoding: the next client waits for the same one.
        """
        version = None if self._version is None else self._version()
        if self._encoded is not None and self._encoded[0] == version:
            return self._encoded[1]
        return await self._encoding.once((version or 0, ("metrics",)), lambda: self._encode(version))

    def close(self) -> None:
        """Start no further encoding."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _encode(self, version: int | None) -> bytes:
        # A release may have 65,536 bins: encoding them must not hold up the roles, which share the event loop.
        body = await asyncio.get_running_loop().run_in_executor(self._thread, generate_latest, self._registry)
        if version is not None:
            self._encoded = version, body
        return body


def operator_listener(
    address: Address, registry: CollectorRegistry, ready: Callable[[], bool], token: str | None
) -> Listener:
    """A listener for what is private: with a token whoever comes must show it, without one it is for this machine only."""
    if token is None and not address.is_loopback:
        raise InvalidInput(
            f"--operator {address.host}:{address.port}: others can reach it, so it needs a token in the file that "
            f"{TOKEN_FILE} names; or listen on {LOOPBACK}"
        )
    listener = Listener(address, registry, ready, limits=OPERATOR_LIMITS)
    if token is None:
        listener.app.middlewares.append(_called_by_its_address)
    else:
        require_bearer_token(listener.app, token)
    return listener


@web.middleware
async def _called_by_its_address(request: web.Request, handler: Handler) -> web.StreamResponse:
    """A page that somebody on this machine visits can give its own name this address, and then read what is here."""
    host = request.host if request.host.endswith("]") else request.host.rpartition(":")[0] or request.host
    if not Address(host.strip("[]"), 0).is_loopback:
        return web.Response(status=403, text=f"ask by the address, such as {LOOPBACK}\n", headers=_NOW)
    return await handler(request)


TOKEN_FILE = "STREAMPROC_OPERATOR_TOKEN_FILE"
MIN_TOKEN_LENGTH = 16
"""Characters of a token, at least: nothing slows down who guesses."""
PATHS_WITHOUT_TOKEN = ("/livez", "/readyz")
"""For probes, which have no token: they tell whether the process does its work, and nothing about people."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def read_token(environ: Mapping[str, str]) -> str | None:
    """The token in the file that the environment names; None if it names none. Raises InvalidInput."""
    if not environ.get(TOKEN_FILE):
        return None
    token = read_secret(TOKEN_FILE, Path(environ[TOKEN_FILE])).strip()
    if len(token) < MIN_TOKEN_LENGTH or not token.isascii() or not token.isprintable() or " " in token:
        raise InvalidInput(
            f"{TOKEN_FILE}: expected one line of {MIN_TOKEN_LENGTH} or more letters, digits and signs, without spaces"
        )
    return token


def require_bearer_token(app: web.Application, token: str) -> None:
    """Answer requests only if they carry `Authorization: Bearer TOKEN`, but for `OPEN`."""
    expected = f"Bearer {token}".encode()

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        shown = request.headers.get("Authorization", "").encode("utf-8", "surrogateescape")
        if request.path in PATHS_WITHOUT_TOKEN or hmac.compare_digest(shown, expected):
            return await handler(request)
        return web.Response(status=401, text="a token is needed\n", headers={"WWW-Authenticate": "Bearer"})

    app.middlewares.append(check)
