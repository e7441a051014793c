"""Ports for servers that must be told theirs before they start, and may be killed and started again on them."""

from __future__ import annotations

import socket
from pathlib import Path
from random import SystemRandom

LEAST, MOST = 10_000, 65_535
RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
"""From which the system takes a port for whoever connects, and for whoever listens without naming one."""
USUAL = "32768 65535"
"""Where it does not say so, it takes none below these."""


def free_ports(count: int) -> list[int]:
    """Ports that are free, and that the system gives to nobody by itself.

    One of its own range may be somebody else's by the time the server listens, or while it is away: every test beside this
    one, and every client that knocks, is given ports of that range.
    """
    first, last = map(int, (RANGE.read_text() if RANGE.exists() else USUAL).split())
    named = [port for port in range(LEAST, MOST + 1) if not first <= port <= last]
    sockets: list[socket.socket] = []
    try:
        for port in [*SystemRandom().sample(named, len(named)), *[0] * count]:
            if len(sockets) == count:
                break
            sockets += _bound(port)
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def _bound(port: int) -> list[socket.socket]:
    """One that has the port; none if somebody else has."""
    bound = socket.socket()
    try:
        bound.bind(("127.0.0.1", port))
    except OSError:
        bound.close()
        return []
    return [bound]
