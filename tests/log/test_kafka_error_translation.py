"""Which errors of a connection are waited out, which are a denial, and which are not shown."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from streamproc.errors import LogUnavailable, NotAllowed
from streamproc.log.kafka.error_translation import probe_broker
from streamproc.log.kafka.settings import KafkaSettings

TLS = {"STREAMPROC_KAFKA_SECURITY": "SSL"}
ALERT = bytes.fromhex("15030300020228")
"""What a server that wants TLS answers to anything else, and one that cannot agree on it."""


@asynccontextmanager
async def server(answer: bytes) -> AsyncIterator[int]:
    """Reads what comes, answers this, and hangs up."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1024)
        writer.write(answer)
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with listening:
        yield listening.sockets[0].getsockname()[1]


async def attempt(answer: bytes, environ: dict[str, str]) -> None:
    async with server(answer) as port, asyncio.timeout(20):
        await probe_broker("127.0.0.1", port, KafkaSettings.parse((f"127.0.0.1:{port}",), environ), timeout=10)


@pytest.mark.parametrize("environ", [{}, TLS])
async def test_a_connection_that_ends_early_may_be_a_broker_that_is_restarting(environ: dict[str, str]) -> None:
    with pytest.raises(LogUnavailable):
        await attempt(b"", environ)


async def test_a_host_that_is_not_known_is_said_to_be_that() -> None:
    with pytest.raises(LogUnavailable, match="[Nn]ame"):
        await probe_broker("nohost.invalid", 9092, KafkaSettings.parse(("nohost.invalid:9092",), {}), timeout=10)


async def test_an_answer_in_tls_to_a_plain_client_is_a_denial() -> None:
    with pytest.raises(NotAllowed, match="the broker answers in TLS, but STREAMPROC_KAFKA_SECURITY is PLAINTEXT"):
        await attempt(ALERT, {})


async def test_a_server_that_cannot_agree_on_tls_is_a_denial() -> None:
    with pytest.raises(NotAllowed, match="TLS failed: .*handshake failure"):
        await attempt(ALERT, TLS)


async def test_a_server_that_does_not_speak_tls_at_all_is_a_denial() -> None:
    with pytest.raises(NotAllowed, match="TLS failed: wrong version number"):
        await attempt(b"HTTP/1.1 400 Bad Request\r\n\r\n", TLS)


async def test_the_loop_does_not_complain_of_writing_to_a_lost_connection(caplog: pytest.LogCaptureFixture) -> None:
    here, there = socket.socketpair()
    _, writer = await asyncio.open_connection(sock=here)
    there.close()
    for _ in range(20):
        writer.write(b"into the void")
    assert caplog.records == []
    writer.close()
