"""Client of `streamproc.storage.noise_server`, which draws noise in processes of its own."""

from __future__ import annotations

import atexit
import os
import socket
import subprocess
import sys
import threading
import weakref
from contextlib import suppress

import numpy as np

from streamproc.errors import NoiseUnavailable
from streamproc.privacy.types import IntArray
from streamproc.storage.noise_server import INTEGER_BYTES, READY, REQUEST, STATUS, receive

START_TIMEOUT_S = 60.0
"""Maximum time for the program to start, in seconds. Loading OpenDP takes less than one second."""

DRAW_TIMEOUT_S = 600.0
"""Maximum time for a draw, in seconds. The largest draw takes less than a tenth of it, so whether it expires depends on the
machine and not on the noise."""

_PROGRAM = (
    "import sys; sys.path[:] = sys.argv[2:]; from streamproc.storage.noise_server import serve; serve(int(sys.argv[1]))"
)


class NoiseProcess:
    """A process that draws noise. It starts and ends with this object. Its first draw seeds its generator."""

    def __init__(self) -> None:
        self._connection = _program.connect()
        self._connection.settimeout(DRAW_TIMEOUT_S)
        self._close = weakref.finalize(self, self._connection.close)

    def gaussian(self, exact: IntArray, sigma: float) -> IntArray:
        """Return `exact` plus independent discrete Gaussian noise on each entry.

        Raises NoiseUnavailable, and then nothing of the draw was released.
        """
        try:
            with suppress(BrokenPipeError, ConnectionResetError):  # The reason may still be readable.
                self._connection.sendall(REQUEST.pack(sigma, exact.size) + exact.astype(np.int64, copy=False).tobytes())
            [status] = STATUS.unpack(receive(self._connection, STATUS.size))
            if status:
                raise NoiseUnavailable(f"the process that draws noise cannot be started: {os.strerror(status)}")
            content = receive(self._connection, INTEGER_BYTES * exact.size)
        except TimeoutError:
            raise NoiseUnavailable(
                f"the process that draws noise did not answer within {DRAW_TIMEOUT_S:g} seconds"
            ) from None
        except (EOFError, OSError):
            raise NoiseUnavailable(
                "the process that draws noise ended before it answered, and nothing was released. Check whether it was "
                "killed or memory is short."
            ) from None
        return np.frombuffer(content, dtype=np.int64).reshape(exact.shape).copy()

    def close(self) -> None:
        """End the process."""
        self._close()


class _Program:
    """The program that forks these processes. There is one for this whole process, started at the first draw."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._control: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def connect(self) -> socket.socket:
        """Return a connection to a new process. Starts the program if it is not running, for example after it was killed."""
        ours, theirs = socket.socketpair()
        try:
            with self._lock, theirs:
                if self._control is None or not self._hand_over(theirs):
                    self._end()
                    self._start()
                    self._hand_over(theirs)
        except OSError as error:
            self.end()
            ours.close()
            raise NoiseUnavailable(f"the process that draws noise cannot be started: {error.strerror}") from None
        except BaseException:
            ours.close()
            raise
        return ours

    def _hand_over(self, connection: socket.socket) -> bool:
        """Send the connection to the program. Returns False if the program has ended."""
        assert self._control is not None
        try:
            socket.send_fds(self._control, [READY], [connection.fileno()])
        except (BrokenPipeError, ConnectionResetError):
            return False
        return True

    def _start(self) -> None:
        self._control, theirs = socket.socketpair()
        with theirs:
            flags = ["-I", "-B"] if sys.dont_write_bytecode else ["-I"]
            # `-I` ignores the environment, so the import path of this process is passed on.
            command = [sys.executable, *flags, "-c", _PROGRAM, str(theirs.fileno()), *sys.path]
            nothing = subprocess.DEVNULL
            # In a session of its own the program does not receive Ctrl-C. It ends when the control socket is closed.
            self._process = subprocess.Popen(
                command, stdin=nothing, stdout=nothing, stderr=nothing, pass_fds=[theirs.fileno()], start_new_session=True
            )
        self._control.settimeout(START_TIMEOUT_S)
        try:
            receive(self._control, len(READY))
        except (EOFError, OSError):
            self._end()
            raise NoiseUnavailable(
                "the process that draws noise did not start. Check what `python -c 'import opendp.prelude'` prints, and "
                "whether memory or the number of processes is limited."
            ) from None
        self._control.settimeout(None)

    def _end(self) -> None:
        control, process = self._control, self._process
        self._control = self._process = None
        if control is not None:
            control.close()
        if process is not None:
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def end(self) -> None:
        """End the program. Processes that are still drawing continue until their connection is closed."""
        with self._lock:
            self._end()


_program = _Program()
atexit.register(_program.end)
