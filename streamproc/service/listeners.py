"""The two HTTP listeners: one for everybody, one for the operator. Each has `/metrics`, `/livez` and `/readyz`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import ip_address

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from streamproc.errors import InvalidInput
from streamproc.service.operator_token import TOKEN_FILE, Handler, demand

LOOPBACK = "127.0.0.1"

_NOW = {"Cache-Control": "no-store"}

PATIENCE = 5.0
"""Seconds that answers under way have to end when the process is told to."""


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

    def __init__(self, address: Address, registry: CollectorRegistry, ready: Callable[[], bool]) -> None:
        self._address = address
        self._registry = registry
        self._ready = ready
        self.app = web.Application()
        self.app.add_routes(
            [
                web.get("/metrics", self._metrics),
                web.get("/livez", self._livez),
                web.get("/readyz", self._readyz),
            ]
        )
        self._one_at_a_time = asyncio.Lock()
        self._runner = web.AppRunner(self.app, access_log=None, shutdown_timeout=PATIENCE)

    async def start(self) -> Address:
        """Listen; answers with the address, whose port is now known."""
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._address.host, self._address.port)
        try:
            await site.start()
        except OSError as error:
            where = f"{self._address.host}:{self._address.port}"
            raise InvalidInput(f"listener {where}: cannot listen there: {error.strerror}") from None
        name = self._runner.addresses[0]
        return Address(self._address.host, int(name[1]))

    async def stop(self) -> None:
        """Stop listening."""
        await self._runner.cleanup()

    async def _metrics(self, request: web.Request) -> web.Response:
        # A release may have 65,536 bins: whoever asks for them must not hold up the roles, which share the event loop.
        async with self._one_at_a_time:
            body = await asyncio.to_thread(generate_latest, self._registry)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _livez(self, request: web.Request) -> web.Response:
        return web.Response(text="ok\n", headers=_NOW)

    async def _readyz(self, request: web.Request) -> web.Response:
        ready = self._ready()
        return web.Response(text="ready\n" if ready else "not ready\n", status=200 if ready else 503, headers=_NOW)


def operator_listener(
    address: Address, registry: CollectorRegistry, ready: Callable[[], bool], token: str | None
) -> Listener:
    """A listener for what is private: with a token whoever comes must show it, without one it is for this machine only."""
    if token is None and not address.is_loopback:
        raise InvalidInput(
            f"--operator {address.host}:{address.port}: others can reach it, so it needs a token in the file that "
            f"{TOKEN_FILE} names; or listen on {LOOPBACK}"
        )
    listener = Listener(address, registry, ready)
    if token is None:
        listener.app.middlewares.append(_called_by_its_address)
    else:
        demand(listener.app, token)
    return listener


@web.middleware
async def _called_by_its_address(request: web.Request, handler: Handler) -> web.StreamResponse:
    """A page that somebody on this machine visits can give its own name this address, and then read what is here."""
    host = request.host if request.host.endswith("]") else request.host.rpartition(":")[0] or request.host
    if not Address(host.strip("[]"), 0).is_loopback:
        return web.Response(status=403, text=f"ask by the address, such as {LOOPBACK}\n", headers=_NOW)
    return await handler(request)
