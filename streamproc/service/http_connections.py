"""Limits on the connections of an HTTP listener: how many there are, how long each may wait, how much memory each may take.

aiohttp leaves these to a reverse proxy. Checked with 3.14: it accepts any number of connections, waits an hour for a
request, keeps up to 32 pipelined requests of 128 headers of 8 kB each, and closes a connection only once its write buffer is
sent.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass

from aiohttp import web

PROBES = ("/livez", "/readyz")
"""Requests that are answered on a reserved connection."""

SHORTEST_IDLE = 1.0
"""Seconds that a connection must have been idle before a new one may take its place. A client that has just connected sends
its request within this time."""

ACCEPT_BACKLOG = 100
"""Connections that wait in the kernel to be accepted. asyncio accepts one more in each turn of its loop, and two turns pass
before it reads from the first: `Limits.reserved` is larger than both together."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class Limits:
    """Limits of one listener. A connection takes at most about half a megabyte, of which the kernel has one half."""

    connections: int = 512
    """Open connections. Those of both listeners of a process are 816 with the reserved ones, which leaves 200 for its files
    and the broker's sockets below 1,024, a usual limit on open files."""
    reserved: int = 256
    """Further connections, on which only `PROBES` are answered: probes must not fail because many people read the page. More
    than are accepted before the request of one of them is read (`ACCEPT_BACKLOG`)."""
    stall: float = 30.0
    """Seconds in which a client must read what its connection's write buffer holds, or at least down to the low-water mark.
    With `write_buffer` this makes about 3 kB a second; a slow mobile line is faster."""
    head: float = 10.0
    """Seconds from the first byte of a request to the end of its headers."""
    idle: float = 75.0
    """Seconds that a connection may stay open without a request. nginx closes its own idle connections after 60 s; a server
    that closes first makes the proxy fail a request now and then."""
    request_bytes: int = 65_536
    """Bytes received and not answered yet, of all pipelined requests together. A browser's request has less than 4 kB."""
    write_buffer: int = 65_536
    """Bytes in a connection's write buffer above which a response waits; one more chunk of it can be there."""
    kernel_buffer: int = 131_072
    """Bytes that the kernel is asked to buffer (Linux takes twice as many). By default it would take up to 4 MB."""


OPERATOR_LIMITS = Limits(connections=32, reserved=16)
"""The operator's listener has a few clients: probes, Prometheus and a person."""


class Connections:
    """The open connections of one listener. Call it to make the protocol of a new connection."""

    def __init__(self, make_protocol: Callable[[], asyncio.Protocol], limits: Limits) -> None:
        self.limits = limits
        self._make_protocol = make_protocol
        self._open: dict[asyncio.BaseTransport, Connection] = {}
        self._reserved: dict[asyncio.BaseTransport, Connection] = {}
        """Those of the open connections that are reserved, the oldest first."""

    def __call__(self) -> Connection:
        return Connection(self, self._make_protocol)

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[Connection]:
        return iter(list(self._open.values()))

    def admit(self, connection: Connection, transport: asyncio.Transport) -> bool:
        """Register a new connection; False if there is no place for it.

        A full listener closes the connection that has been idle for longest. If none is idle, the new connection is a
        reserved one, and takes the place of the oldest reserved connection that has sent nothing, or else of the oldest
        whose request is not complete.
        """
        full = len(self._open) - len(self._reserved) >= self.limits.connections
        if full and not self._close_idle():
            if len(self._reserved) >= self.limits.reserved and not self._close_reserved():
                return False
            connection.reserved = True
            self._reserved[transport] = connection
        self._open[transport] = connection
        return True

    def remove(self, transport: asyncio.BaseTransport) -> None:
        """Forget a connection that is closed."""
        self._open.pop(transport, None)
        self._reserved.pop(transport, None)

    def abort_all(self) -> None:
        """Close every connection at once, whatever it still has to send."""
        for connection in self:
            connection.abort()

    def _close_idle(self) -> bool:
        """Close the unreserved connection that has been idle for longest, if one has been for `SHORTEST_IDLE`."""
        idle = [each for each in self._open.values() if not each.reserved and each.idle_for() >= SHORTEST_IDLE]
        if not idle:
            return False
        max(idle, key=Connection.idle_for).abort()
        return True

    def _close_reserved(self) -> bool:
        """Close a reserved connection without a request under way, if there is one."""
        waiting = [each for each in self._reserved.values() if each.idle_for() >= 0]
        found = next((each for each in waiting if not each.has_sent), waiting[0] if waiting else None)
        if found is not None:
            found.abort()
        return found is not None

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Notes which connections have a request under way, and answers only `PROBES` on a reserved one."""
        connection = None if request.transport is None else self._open.get(request.transport)
        if connection is None:
            return await handler(request)
        connection.begin_request(_head_bytes(request))
        try:
            if connection.reserved and request.path not in PROBES:
                response: web.StreamResponse = _too_many_connections()
            else:
                response = await handler(request)
            if connection.reserved or request.can_read_body:  # no request here has a body that is wanted
                response.force_close()
            return response
        finally:
            connection.end_request()


class Connection(asyncio.Protocol):
    """One connection: passes everything on to aiohttp's protocol, and aborts the connection if it goes beyond a limit."""

    def __init__(self, connections: Connections, make_protocol: Callable[[], asyncio.Protocol]) -> None:
        self._connections, self._limits = connections, connections.limits
        self._make_protocol = make_protocol
        self._loop = asyncio.get_running_loop()
        self._protocol: asyncio.Protocol | None = None
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.reserved = False
        self._busy = False
        """Whether a request is being handled."""
        self._unanswered = 0
        """Bytes of requests whose handling has not begun."""
        self._idle_since = self._loop.time()
        self._head_since: float | None = None
        """When the first byte of the request came whose headers are not complete."""
        self._unsent_since: float | None = None
        """Since when the write buffer has not been seen empty, nor gone down to the low-water mark."""

    def idle_for(self) -> float:
        """Seconds without a request under way; negative during one."""
        return -1.0 if self._busy else self._loop.time() - self._idle_since

    @property
    def has_sent(self) -> bool:
        """Whether the client has sent bytes of a request whose handling has not begun."""
        return self._unanswered > 0

    def begin_request(self, size: int) -> None:
        """A request of about `size` bytes is being handled from now on."""
        self._busy, self._head_since = True, None
        self._unanswered = max(0, self._unanswered - size)

    def end_request(self) -> None:
        """Its response is made; what is not sent yet is in the write buffer."""
        self._busy, self._idle_since = False, self._loop.time()

    def abort(self) -> None:
        """Close the connection at once. `close` would wait until the write buffer is sent."""
        if self._transport is not None:
            self._connections.remove(self._transport)
            self._transport.abort()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        if not self._connections.admit(self, transport):
            transport.abort()
            return
        self._transport = transport
        transport.set_write_buffer_limits(high=self._limits.write_buffer)
        connected = transport.get_extra_info("socket")
        if connected is not None:
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._limits.kernel_buffer)
        if self.reserved:
            self._head_since = self._loop.time()
        self._protocol = self._make_protocol()
        self._protocol.connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        if self._protocol is None:
            return
        self._unanswered += len(data)
        if self._unanswered > self._limits.request_bytes:
            self.abort()
            return
        if self._head_since is None and not self._busy:
            self._head_since = self._loop.time()
        self._protocol.data_received(data)

    def eof_received(self) -> bool | None:
        return None if self._protocol is None else self._protocol.eof_received()

    def pause_writing(self) -> None:
        if self._protocol is not None:
            self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._unsent_since = None
        if self._protocol is not None:
            self._protocol.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            self._connections.remove(self._transport)
        if self._protocol is not None:
            self._protocol.connection_lost(exc)

    def _watch(self) -> None:
        """Abort the connection if it exceeds a limit; reschedules itself."""
        limits, now = self._limits, self._loop.time()
        assert self._transport is not None
        if self._transport.get_write_buffer_size() == 0:
            self._unsent_since = None
        elif self._unsent_since is None:
            self._unsent_since = now
        stalled = self._unsent_since is not None and now - self._unsent_since >= limits.stall
        slow = not self._busy and self._head_since is not None and now - self._head_since >= limits.head
        if stalled or slow or self.idle_for() >= limits.idle:
            self.abort()
        else:
            self._timer = self._loop.call_later(min(limits.stall, limits.head, limits.idle) / 4, self._watch)


def _head_bytes(request: web.Request) -> int:
    """The bytes of a request up to the end of its headers, as most clients write them."""
    line = len(request.method) + len(request.raw_path.encode("utf-8", "surrogateescape")) + len("  HTTP/1.1\r\n")
    return line + sum(len(name) + len(value) + len(": \r\n") for name, value in request.raw_headers) + len("\r\n")


def _too_many_connections() -> web.Response:
    headers = {"Retry-After": "5", "Cache-Control": "no-store"}
    return web.Response(status=503, text="too many connections are open; try again later\n", headers=headers)
