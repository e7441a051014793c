"""Connections of a listener are bounded in number, in time and in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry

from streamproc.service.connections import Connection, Limits
from streamproc.service.http_server import Address, Listener, operator_listener
from streamproc.testing import VirtualLoop
from tests.fuzz.listener_harness import RecordingTransport

LIMITS = Limits(connections=4, reserved=2)

under_way: list[web.Request] = []
"""Requests that wait forever."""


class ClientTransport(RecordingTransport):
    """A connection whose client reads as much as the test says."""

    def __init__(self) -> None:
        super().__init__()
        self.unread = 0

    def get_write_buffer_size(self) -> int:
        return self.unread


class Client:
    """One connection to a listener, on virtual time."""

    def __init__(self, listener: Listener) -> None:
        self.transport = ClientTransport()
        self.connection: Connection = listener.connections()
        self.connection.connection_made(self.transport)

    @property
    def is_open(self) -> bool:
        return not self.transport.is_closing()

    async def send(self, text: str) -> None:
        self.connection.data_received(text.encode())
        await asyncio.sleep(0.001)

    async def ask(self, path: str) -> bytes:
        """All that came back so far."""
        await self.send(f"GET {path} HTTP/1.1\r\nHost: here\r\n\r\n")
        return bytes(self.transport.sent)


def run_in_virtual_time(test: Callable[[Listener], Coroutine[Any, Any, None]], limits: Limits = LIMITS) -> None:
    """Run the test with a listener that has an address whose requests never end."""

    async def run() -> None:
        listener = Listener(Address("127.0.0.1", 0), CollectorRegistry(), lambda: True, limits=limits)

        async def wait(request: web.Request) -> web.Response:
            under_way.append(request)
            try:
                await asyncio.Event().wait()
            finally:
                under_way.remove(request)
            raise AssertionError

        listener.app.add_routes([web.get("/wait", wait)])
        await listener._runner.setup()
        await test(listener)

    under_way.clear()
    loop = VirtualLoop()
    try:
        loop.run_until_complete(run())
    finally:
        loop.close()


async def occupy_all_connections(listener: Listener) -> list[Client]:
    """As many clients as there may be, and each with a request under way."""
    clients = [Client(listener) for _ in range(listener.connections.limits.connections)]
    for client in clients:
        assert await client.ask("/wait") == b""
    return clients


def test_a_client_that_does_not_finish_its_headers_is_dropped() -> None:
    async def slow(listener: Listener) -> None:
        client = Client(listener)
        await client.send("GET /livez HTTP/1.1\r\nX-Slow: ")
        seconds = 0
        while client.is_open:
            await asyncio.sleep(1)
            await client.send("a")
            seconds += 1
        assert LIMITS.head <= seconds <= 1.5 * LIMITS.head
        assert len(listener.connections) == 0

    run_in_virtual_time(slow)


def test_a_client_that_sends_nothing_is_dropped_and_one_that_comes_back_in_time_is_not() -> None:
    async def idle(listener: Listener) -> None:
        silent, regular = Client(listener), Client(listener)
        for _ in range(3):
            await asyncio.sleep(0.8 * LIMITS.idle)
            assert (await regular.ask("/livez")).endswith(b"ok\n")
        assert (silent.is_open, regular.is_open) == (False, True)

    run_in_virtual_time(idle)


def test_a_client_that_leaves_a_short_response_unread_is_dropped() -> None:
    """Its response is in the write buffer and below the high-water mark: aiohttp does not wait for it."""

    async def unread(listener: Listener) -> None:
        reads, stalls = Client(listener), Client(listener)
        for client in (reads, stalls):
            await client.ask("/livez")
            client.transport.unread = 100
        for _ in range(4):
            await asyncio.sleep(LIMITS.stall / 4)
            reads.transport.unread = 0
            await asyncio.sleep(LIMITS.stall / 4)
            reads.transport.unread = 100
        assert (reads.is_open, stalls.is_open) == (True, False)

    run_in_virtual_time(unread)


@pytest.mark.parametrize("path", ["/livez", "/wait"])
def test_requests_that_come_faster_than_they_are_answered_are_not_kept(path: str) -> None:
    async def pipelined(listener: Listener) -> None:
        client, requests = Client(listener), f"GET {path} HTTP/1.1\r\nHost: here\r\nX-Long: {'a' * 8000}\r\n\r\n"
        await client.ask("/wait")
        for _ in range(20):
            if client.is_open:
                await client.send(requests)
        assert not client.is_open

    run_in_virtual_time(pipelined)


def test_a_client_may_ask_as_often_as_it_likes() -> None:
    async def often(listener: Listener) -> None:
        client, size = Client(listener), 0
        for _ in range(500):
            path = f"/livez?{'a' * 1000}"
            size += len(path)
            await client.ask(path)
        assert size > LIMITS.request_bytes
        assert client.is_open
        assert client.transport.sent.count(b"ok\n") == 500

    run_in_virtual_time(often)


def test_a_full_listener_answers_probes_and_tells_others_to_come_back() -> None:
    async def full(listener: Listener) -> None:
        clients = await occupy_all_connections(listener)
        probe, other = Client(listener), Client(listener)
        assert (await probe.ask("/livez")).startswith(b"HTTP/1.1 200")
        answer = await other.ask("/metrics")
        assert answer.startswith(b"HTTP/1.1 503")
        assert b"Retry-After: 5\r\n" in answer
        assert (probe.is_open, other.is_open) == (False, False), "a place for probes is free again at once"
        assert all(client.is_open for client in clients)

    run_in_virtual_time(full)


def test_silent_clients_do_not_keep_probes_out_of_a_full_listener() -> None:
    async def full(listener: Listener) -> None:
        await occupy_all_connections(listener)
        for _ in range(5):
            Client(listener)
            assert len(listener.connections) <= LIMITS.connections + LIMITS.reserved
        assert (await Client(listener).ask("/readyz")).endswith(b"ready\n")

    run_in_virtual_time(full)


def test_a_new_client_takes_the_place_of_the_one_that_is_idle_for_longest() -> None:
    async def idle(listener: Listener) -> None:
        clients = []
        for _ in range(LIMITS.connections):
            clients.append(Client(listener))
            await asyncio.sleep(2)
        new = Client(listener)
        assert [client.is_open for client in clients] == [False, True, True, True]
        assert (await new.ask("/metrics")).startswith(b"HTTP/1.1 200")
        assert new.is_open, "its place is not one of those for probes"

    run_in_virtual_time(idle)


def test_a_client_that_is_gone_leaves_its_place_while_its_request_is_under_way() -> None:
    async def gone(listener: Listener) -> None:
        clients = await occupy_all_connections(listener)
        clients[0].connection.connection_lost(None)
        await asyncio.sleep(0.001)
        assert len(listener.connections) == LIMITS.connections - 1
        assert len(under_way) == LIMITS.connections - 1

    run_in_virtual_time(gone)


@pytest.mark.parametrize("sent_first", [False, True])
def test_a_probe_is_answered_though_two_backlogs_of_connections_are_accepted_before_it_is_read(sent_first: bool) -> None:
    """asyncio admits the rest of one backlog and all of the next before it reads what the first of them sent."""

    async def flooded(listener: Listener) -> None:
        await occupy_all_connections(listener)
        for _ in range(1_000):
            Client(listener)
        probe, request = Client(listener), b"GET /livez HTTP/1.1\r\nHost: here\r\n\r\n"
        if sent_first:
            probe.connection.data_received(request)
        for _ in range(1_000 if sent_first else 2 * (100 + 1)):
            Client(listener)
        if not sent_first:
            probe.connection.data_received(request)
        await asyncio.sleep(0.001)
        assert probe.transport.sent.endswith(b"ok\n")

    run_in_virtual_time(flooded, Limits(connections=4))


def test_both_listeners_together_leave_200_of_1024_file_descriptors() -> None:
    operator = operator_listener(Address("127.0.0.1", 0), CollectorRegistry(), lambda: True, None).connections.limits
    public = Listener(Address("127.0.0.1", 0), CollectorRegistry(), lambda: True).connections.limits
    assert sum(limits.connections + limits.reserved for limits in (operator, public)) <= 1_024 - 200
