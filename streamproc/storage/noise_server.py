"""A program that draws noise, each draw in a new process whose generator takes its seed from the operating system.

OpenDP takes its randomness from OpenSSL's generator, which runs in user space. After it is seeded it does not use the
operating system again, so two copies of a process (such as a virtual machine that is resumed twice from one snapshot) draw
the same noise. OpenSSL detects a `fork` by the new process id, but not such a copy. Therefore this program loads OpenDP,
never draws, and forks a process for each connection that it receives. The generator of that process is created at its first
draw and takes its seed from `getrandom`. A snapshot of this program contains no generator whose output could repeat.

`streamproc.storage.noise_client` starts this program. The protocol:

- On the control socket (a stream) each message is one byte with one file descriptor, which is a connection. The program
  sends one byte when it is ready. It ends when the other side closes the control socket, and ignores SIGINT, SIGTERM and
  SIGHUP.
- On a connection a request is `REQUEST` (sigma, number of integers) and the exact integers; the response is `STATUS` (0) and
  as many noisy integers. Integers have 64 bits, in native byte order. A status other than 0 is the `errno` of a
  process that could not be started. A draw that fails closes the connection without a response, and nothing about it is
  logged.

Only the standard library and OpenDP are imported here. NumPy stays out, because it starts threads, and a process with
threads cannot fork safely.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import struct
import sys
from array import array
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from opendp.mod import Measurement

REQUEST = struct.Struct("=dQ")
STATUS = struct.Struct("=Q")
READY = b"\0"
INTEGER_BYTES = 8

MEMORY, MEMORY_PER_INTEGER = 1 << 20, 192
"""Upper bound of the memory of a draw, in bytes: a constant and a part per integer. It is allocated before the draw."""


@lru_cache(maxsize=4096)
def gaussian_measurement(sigma: float) -> Measurement:
    """Return OpenDP's discrete Gaussian mechanism on vectors of 64-bit integers. This draws nothing."""
    # `opendp.prelude` would load twice as much.
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_gaussian
    from opendp.metrics import l2_distance
    from opendp.mod import enable_features

    enable_features("contrib")
    domain: Any = vector_domain(atom_domain(T="i64"))
    return make_gaussian(domain, l2_distance(T="f64"), scale=sigma)


def receive(connection: socket.socket, size: int) -> bytes:
    """Receive exactly `size` bytes. Raises EOFError if the other side closes the connection before that."""
    content = bytearray(size)
    view = memoryview(content)
    while view:
        got = connection.recv_into(view)
        if not got:
            raise EOFError
        view = view[got:]
    return bytes(content)


def serve(descriptor: int) -> None:
    """Fork a process for each connection that is received on the control socket, until that is closed."""
    for end in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(end, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # so that ended children do not stay as zombies
    # OpenDP imports NumPy if it can. This entry makes the import fail.
    sys.modules.setdefault("numpy", None)  # type: ignore[arg-type]
    prepare()
    with socket.socket(fileno=descriptor) as control:
        control.sendall(READY)
        while True:
            message, descriptors, _, _ = socket.recv_fds(control, 1, 1)
            if not message:
                return
            for connection in descriptors:
                with socket.socket(fileno=connection) as accepted:
                    _start(control, accepted)


def prepare() -> None:
    """Load OpenDP without drawing."""
    gaussian_measurement(1.0)
    gc.collect()
    gc.freeze()  # so that a forked process does not write to, and thereby copy, shared pages


def _start(control: socket.socket, connection: socket.socket) -> None:
    try:
        if os.fork() == 0:
            control.close()
            _answer_and_end(connection)
    except OSError as error:
        # No process was started and nothing was drawn, so the error number reveals nothing about a draw.
        connection.send(STATUS.pack(error.errno or 1))


def _answer_and_end(connection: socket.socket) -> NoReturn:
    try:
        answer(connection)
    except BaseException:
        os._exit(1)
    os._exit(0)


def answer(connection: socket.socket) -> None:
    """Serve the requests on this connection until the other side closes it."""
    while True:
        try:
            sigma, count = REQUEST.unpack(receive(connection, REQUEST.size))
        except EOFError:
            return
        bytes([1]) * (MEMORY + MEMORY_PER_INTEGER * count)  # fails before the draw if memory is short
        exact = array("q", receive(connection, INTEGER_BYTES * count))
        noisy = array("q", gaussian_measurement(sigma)(exact.tolist()))
        connection.sendall(STATUS.pack(0) + noisy.tobytes())
