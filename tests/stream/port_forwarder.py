"""A door that is opened late: connections to a port of this machine, passed on to another one."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress


class PortForwarder:
    """Forwards a port. Until `open` it refuses connections."""

    def __init__(self, to: int) -> None:
        self._to = to
        self._socket = socket.socket()
        self._socket.bind(("127.0.0.1", 0))
        self.port = int(self._socket.getsockname()[1])

    def open(self) -> None:
        self._socket.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                inside, _ = self._socket.accept()
                outside = socket.create_connection(("127.0.0.1", self._to))
                for one, other in ((inside, outside), (outside, inside)):
                    threading.Thread(target=_pass_on, args=(one, other), daemon=True).start()


def _pass_on(one: socket.socket, other: socket.socket) -> None:
    with suppress(OSError):
        while data := one.recv(65_536):
            other.sendall(data)
    with suppress(OSError):
        other.shutdown(socket.SHUT_RDWR)
    one.close()
