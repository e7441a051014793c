"""What a command does not show of a connection that was lost."""

from __future__ import annotations

import asyncio
import socket

import pytest

import streamproc.log.kafka  # noqa: F401  which says what is left out


async def test_the_loop_does_not_complain_of_writing_to_a_lost_connection(caplog: pytest.LogCaptureFixture) -> None:
    here, there = socket.socketpair()
    _, writer = await asyncio.open_connection(sock=here)
    there.close()
    for _ in range(20):
        writer.write(b"into the void")
    assert caplog.records == []
    writer.close()
