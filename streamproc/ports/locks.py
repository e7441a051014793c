"""Locks on files, which the kernel lets go of when the process that holds them ends, however it ends."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


class FileLock:
    """A held lock. Two in one process exclude each other, or not, like two in different processes."""

    def __init__(self, handle: int) -> None:
        self._handle: int | None = handle

    @classmethod
    def take(cls, path: Path, *, shared: bool = False) -> FileLock | None:
        """The lock on this file, which is created if need be; None if it is held already.

        A shared one can be held by many at once, though not beside one that is not.
        """
        while True:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            held = there = False
            try:
                held = _locked(handle, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
                there = held and _is_at(path, handle)
            finally:
                if not there:
                    os.close(handle)
            if there:
                return cls(handle)
            if not held:
                return None

    def release(self) -> None:
        """Let go of it; the file stays, because removing it would let two hold a lock of the same name."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def is_held(path: Path) -> bool:
    """Whether anybody holds the lock, without disturbing others who ask the same."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        return not _locked(handle, fcntl.LOCK_SH)
    finally:
        os.close(handle)


def _is_at(path: Path, handle: int) -> bool:
    """Whether it is still the file of this name: one that a purge removed meanwhile keeps nobody out."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(handle))
    except FileNotFoundError:
        return False


def _locked(handle: int, kind: int) -> bool:
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
