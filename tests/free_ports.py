"""Ports for servers that need a fixed port before they start, and that may be killed and restarted on it."""

from __future__ import annotations

import fcntl
import os
import socket
import tempfile
from pathlib import Path
from random import SystemRandom

LEAST, MOST = 10_000, 65_535
RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
"""The file that holds the range from which the system takes ports of clients and of servers without a fixed port."""
USUAL = "32768 65535"
"""The range to assume if the system does not state it."""

CLAIMS = Path(tempfile.gettempdir()) / f"streamproc-test-ports-{os.getuid()}"
"""A file per port, locked by the process that was given it."""

_claimed: list[int] = []
"""Files that are locked as long as this process lives."""


def free_ports(count: int) -> list[int]:
    """Ports that are free, that the system gives to nobody by itself, and this to nobody else while the process lives.

    One of the system's own range may be somebody else's by the time the server listens, or while it is away: every test
    beside this one, and every client that knocks, is given ports of that range.
    """
    CLAIMS.mkdir(mode=0o700, exist_ok=True)
    first, last = map(int, (RANGE.read_text() if RANGE.exists() else USUAL).split())
    named = [port for port in range(LEAST, MOST + 1) if not first <= port <= last]
    given: list[int] = []
    for port in [*SystemRandom().sample(named, len(named)), *[0] * count]:
        if len(given) == count:
            break
        given += _claim(port)
    return given


def _claim(port: int) -> list[int]:
    """The port, for port 0 one of the system's; none if somebody else has it."""
    with socket.socket() as trial:
        try:
            trial.bind(("127.0.0.1", port))
        except OSError:
            return []
        bound: int = trial.getsockname()[1]
        file = os.open(CLAIMS / f"{bound}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            return []
        _claimed.append(file)
        return [bound]
