"""Copies of a process that keep its id, as when a virtual machine is resumed twice from one snapshot.

`clone` with a new PID namespace copies the memory of the calling process, and the copy is process 1 of its namespace. A
copy of process 1 is therefore process 1 again: its id is what it was, and no `fork` handler runs in it. Only root may.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from collections.abc import Callable
from typing import Any, NoReturn

CLONE_NEWPID = 0x20000000
SIGCHLD = 17
CALL_NUMBERS = {"x86_64": 56, "aarch64": 220}


def clone() -> int:
    """As `os.fork`, in a new PID namespace and without the handlers of `fork`."""
    libc = ctypes.CDLL(None, use_errno=True)
    process = libc.syscall(CALL_NUMBERS[platform.machine()], CLONE_NEWPID | SIGCHLD, 0, 0, 0, 0)
    if process < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return int(process)


def can_clone() -> bool:
    """Whether this machine and user can make such copies."""
    if sys.platform != "linux" or platform.machine() not in CALL_NUMBERS:
        return False
    try:
        process = clone()
    except OSError:
        return False
    if process == 0:
        os._exit(0)
    os.waitpid(process, 0)
    return True


def in_process_1(run: Callable[[], Any]) -> None:
    """Run this in a copy of the calling process that has the id 1, and end with its status."""
    process = clone()
    if process == 0:
        _end_after(run)
    status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    sys.exit(status)


def in_copy(run: Callable[[], Any]) -> None:
    """Run this in a copy of the calling process, which must have the id 1, and wait for it."""
    assert os.getpid() == 1
    process = clone()
    if process == 0:
        _end_after(run)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0


def _end_after(run: Callable[[], Any]) -> NoReturn:
    try:
        assert os.getpid() == 1
        run()
        sys.stdout.flush()
    except BaseException as error:
        os.write(2, f"{error!r}\n".encode())
        os._exit(1)
    os._exit(0)
