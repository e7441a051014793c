"""The HTTP listeners of a process: a public one and the operator's. Each has `/metrics`, `/livez` and `/readyz`."""

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
from streamproc.service.http_connections import ACCEPT_BACKLOG, OPERATOR_LIMITS, Connections, Limits
from streamproc.service.load_control import (
    CHUNK,
    ConcurrencyLimiter,
    Overloaded,
    Pace,
    SingleFlight,
    pieces_of,
    stream_response,
)
from streamproc.storage.environment import read_secret

LOOPBACK = "127.0.0.1"

_NO_STORE = {"Cache-Control": "no-store"}

SHUTDOWN_TIMEOUT_S = 5.0
"""Seconds that responses in progress have to complete when the process stops."""

LINGERING_TIME_S = 2.0
"""Seconds for which the body of a request is read and dropped before its connection is closed. No request needs a body."""

METRICS_AT_ONCE, METRICS_WAITING = 16, 64
"""Maximum number of clients that are sent large metrics concurrently, and of those that wait. All share the bytes of one
version, 6.8 MB for a release of 65,536 bins, but a slow client may still be sent an older version."""


@dataclass(frozen=True)
class Address:
    """The host and the port that a listener binds to."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Address:
        """Parse `HOST:PORT`. Port 0 means any free port, and `:PORT` means the loopback address. Raises InvalidInput."""
        host, colon, port = text.rpartition(":")
        if not colon or not port.isascii() or not port.isdigit() or int(port) > 65_535:
            raise InvalidInput(f"listener {text!r}: HOST:PORT was expected, such as 127.0.0.1:9100")
        return cls(host.strip("[]") or LOOPBACK, int(port))

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the address. Of host names, only `localhost` counts as loopback."""
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
        """`version` changes whenever the metrics of `registry` change. Without it, they are encoded for each request."""
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
        # Request bodies are never used, so they are not decompressed. The handler of a client that is gone is cancelled.
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
        """Listen, and return the address with the actual port. Raises InvalidInput if the address cannot be bound."""
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
        """Stop listening, and close all connections."""
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
            headers = _NO_STORE | {"Retry-After": "2"}
            return web.Response(status=503, text="too many clients read the metrics; try again later\n", headers=headers)

    async def _livez(self, request: web.Request) -> web.Response:
        return web.Response(text="ok\n", headers=_NO_STORE)

    async def _readyz(self, request: web.Request) -> web.Response:
        ready = self._ready()
        return web.Response(text="ready\n" if ready else "not ready\n", status=200 if ready else 503, headers=_NO_STORE)


class EncodedMetrics:
    """The metrics of a registry as text, which all connections share; they are encoded once for each version."""

    def __init__(self, registry: CollectorRegistry, version: Callable[[], int] | None) -> None:
        self._registry = registry
        self._version = version
        self._encoded: tuple[int, bytes] | None = None
        self._encoding = SingleFlight[bytes]()
        # A separate thread, because the roles use the threads of the default executor.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="metrics")

    async def encode(self) -> bytes:
        """The current metrics, or those of an encoding that is already in progress for another client.

        A client that disconnects does not cancel an encoding, because another client may wait for it.
        """
        version = None if self._version is None else self._version()
        if self._encoded is not None and self._encoded[0] == version:
            return self._encoded[1]
        return await self._encoding.once((version or 0, ("metrics",)), lambda: self._encode(version))

    def close(self) -> None:
        """Do not start another encoding."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _encode(self, version: int | None) -> bytes:
        # A release may have 65,536 bins. Encoding them in the event loop would block the roles.
        body = await asyncio.get_running_loop().run_in_executor(self._thread, generate_latest, self._registry)
        if version is not None:
            self._encoded = version, body
        return body


def operator_listener(
    address: Address, registry: CollectorRegistry, ready: Callable[[], bool], token: str | None
) -> Listener:
    """A listener for private metrics. Requests need the token; without a token, the address must be a loopback address.

    Raises InvalidInput if there is no token and other machines can reach the address.
    """
    if token is None and not address.is_loopback:
        raise InvalidInput(
            f"--operator {address.host}:{address.port}: others can reach it, so it needs a token in the file that "
            f"{TOKEN_FILE} names; or listen on {LOOPBACK}"
        )
    listener = Listener(address, registry, ready, limits=OPERATOR_LIMITS)
    if token is None:
        listener.app.middlewares.append(_require_loopback_host)
    else:
        require_bearer_token(listener.app, token)
    return listener


@web.middleware
async def _require_loopback_host(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Reject requests whose Host header is not a loopback address, against DNS rebinding.

    A web page that is open in a browser on this machine can let its own host name resolve to the loopback address.
    """
    host = request.host if request.host.endswith("]") else request.host.rpartition(":")[0] or request.host
    if not Address(host.strip("[]"), 0).is_loopback:
        return web.Response(status=403, text=f"ask by the address, such as {LOOPBACK}\n", headers=_NO_STORE)
    return await handler(request)


TOKEN_FILE = "STREAMPROC_OPERATOR_TOKEN_FILE"
"""The environment variable that names the file with the operator's token."""
MIN_TOKEN_LENGTH = 16
"""Minimum number of characters of a token. The number of attempts to guess it is not limited."""
PATHS_WITHOUT_TOKEN = ("/livez", "/readyz")
"""Paths for probes, which have no token. The responses say whether the process works, and nothing about people."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def read_token(environ: Mapping[str, str]) -> str | None:
    """The token in the file that the environment names; None if it names none. Raises InvalidInput for a weak token."""
    if not environ.get(TOKEN_FILE):
        return None
    token = read_secret(TOKEN_FILE, Path(environ[TOKEN_FILE])).strip()
    if len(token) < MIN_TOKEN_LENGTH or not token.isascii() or not token.isprintable() or " " in token:
        raise InvalidInput(
            f"{TOKEN_FILE}: expected one line of {MIN_TOKEN_LENGTH} or more letters, digits and signs, without spaces"
        )
    return token


def require_bearer_token(app: web.Application, token: str) -> None:
    """Reject requests without the header `Authorization: Bearer TOKEN`, except for `PATHS_WITHOUT_TOKEN`."""
    expected = f"Bearer {token}".encode()

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        shown = request.headers.get("Authorization", "").encode("utf-8", "surrogateescape")
        if request.path in PATHS_WITHOUT_TOKEN or hmac.compare_digest(shown, expected):
            return await handler(request)
        return web.Response(status=401, text="a token is needed\n", headers={"WWW-Authenticate": "Bearer"})

    app.middlewares.append(check)
