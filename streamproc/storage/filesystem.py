"""Durable files: file system operations as a port, so that a simulation can fail at each of them; locks; atomic writes."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

LOST_AND_FOUND = "lost+found"
"""Folder that some file systems create at the top of a volume."""


@dataclass(frozen=True)
class FileStatus:
    """Owner and permissions of a file or folder."""

    owner: int
    """User id."""
    mode: int
    """Permission bits only."""
    is_folder: bool


class HeldLock(Protocol):
    """A lock that is released by `release` or at the end of the process."""

    def release(self) -> None:
        """Release the lock."""
        ...


class FileSystem(Protocol):
    """File system operations of one process. Each of them may raise OSError.

    Nothing survives a power cut before it is synced: a file's content by `sync_file`, its name by `sync_folder`.
    """

    @property
    def user(self) -> int:
        """Effective user id of this process."""
        ...

    def create_temporary(self, path: Path, mode: int) -> tuple[Path, BinaryIO]:
        """Create a file in the folder of `path`, named `.<name>.<8 hex digits>.tmp`. `sweep` skips it while it is open.

        It has the permissions `mode` (less the umask) from the beginning.
        """
        ...

    def sync_file(self, file: BinaryIO) -> None:
        """Make what was written to the file survive a power cut."""
        ...

    def rename(self, old: Path, new: Path) -> None:
        """Rename a file within its folder, and replace the file that has the new name."""
        ...

    def sync_folder(self, folder: Path) -> None:
        """Make the names in a folder survive a power cut."""
        ...

    def may_change(self, folder: Path) -> bool:
        """Return whether this process may create, rename or remove files in a folder."""
        ...

    def make_folder(self, folder: Path, mode: int) -> None:
        """Create a folder whose parent exists. An existing folder is left unchanged."""
        ...

    def read(self, path: Path) -> bytes:
        """Return the content of a file."""
        ...

    def names(self, folder: Path) -> list[str]:
        """Return the names in a folder, sorted."""
        ...

    def status(self, path: Path) -> FileStatus:
        """Return the status of a file or folder."""
        ...

    def set_mode(self, path: Path, mode: int) -> None:
        """Set the permission bits of a file or folder."""
        ...

    def remove(self, path: Path) -> None:
        """Remove a file. A missing file is not an error."""
        ...

    def remove_folder(self, folder: Path) -> None:
        """Remove an empty folder."""
        ...

    def sweep(self, temporary: Path) -> None:
        """Remove a temporary file unless a running process is still writing it. Errors are ignored."""
        ...

    def lock(self, path: Path, *, shared: bool = False) -> HeldLock | None:
        """Lock a file, which is created if needed. Returns None if any process, this one included, holds the lock.

        Several holders can share a shared lock.
        """
        ...


def sync_existing_folder(files: FileSystem, folder: Path) -> None:
    """Sync a folder in which something was found, because the process that created it may have died before its sync.

    Errors are ignored if the file system cannot sync folders, or if this process may not change the folder.
    """
    try:
        files.sync_folder(folder)
    except OSError as error:
        if error.errno != errno.EINVAL and files.may_change(folder):
            raise


class LocalFileSystem:
    """The file system of the operating system."""

    @property
    def user(self) -> int:
        return os.geteuid()

    def create_temporary(self, path: Path, mode: int) -> tuple[Path, BinaryIO]:
        while True:
            temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
            file = open(temporary, "xb", opener=lambda name, flags: os.open(name, flags, mode))  # noqa: SIM115 (returned)
            if _is_ours(file.fileno()):
                return temporary, file
            file.close()

    def sync_file(self, file: BinaryIO) -> None:
        file.flush()
        os.fsync(file.fileno())

    def rename(self, old: Path, new: Path) -> None:
        old.replace(new)

    def sync_folder(self, folder: Path) -> None:
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def may_change(self, folder: Path) -> bool:
        return os.access(folder, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids)

    def make_folder(self, folder: Path, mode: int) -> None:
        folder.mkdir(mode, exist_ok=True)

    def read(self, path: Path) -> bytes:
        return path.read_bytes()

    def names(self, folder: Path) -> list[str]:
        return sorted(os.listdir(folder))

    def status(self, path: Path) -> FileStatus:
        found = path.stat()
        return FileStatus(found.st_uid, stat.S_IMODE(found.st_mode), stat.S_ISDIR(found.st_mode))

    def set_mode(self, path: Path, mode: int) -> None:
        path.chmod(mode)

    def remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def remove_folder(self, folder: Path) -> None:
        folder.rmdir()

    def sweep(self, temporary: Path) -> None:
        with suppress(OSError):
            handle = os.open(temporary, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                _lock(handle)
                temporary.unlink()
            finally:
                os.close(handle)

    def lock(self, path: Path, *, shared: bool = False) -> HeldLock | None:
        return FileLock.take(path, shared=shared)


def _is_ours(handle: int) -> bool:
    """Lock a new temporary file, so that it is not swept. Returns False if it was swept before that."""
    try:
        _lock(handle)
    except BlockingIOError:
        return False
    except OSError:
        pass  # A file system without locks: no process can sweep.
    return os.fstat(handle).st_nlink > 0


def _lock(handle: int) -> None:
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


class FileLock:
    """A lock (`flock`) that is held. Two locks in one process behave like locks in two processes."""

    def __init__(self, handle: int) -> None:
        self._handle: int | None = handle

    @classmethod
    def take(cls, path: Path, *, shared: bool = False) -> FileLock | None:
        """Lock a file, which is created if needed. Returns None if the lock is held already.

        Several holders can share a shared lock, but not together with an exclusive one.
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
        """Release the lock. The file stays, because after its removal two processes could hold a lock of the same name."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def is_held(path: Path) -> bool:
    """Return whether any process holds an exclusive lock. Processes that call this do not disturb each other."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        return not _locked(handle, fcntl.LOCK_SH)
    finally:
        os.close(handle)


def _is_at(path: Path, handle: int) -> bool:
    """Return whether `path` is still the opened file. A lock on a file that a purge has removed excludes nobody."""
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


_LOCAL = LocalFileSystem()


@contextmanager
def atomic_write(path: Path, mode: int = 0o666, files: FileSystem = _LOCAL) -> Iterator[BinaryIO]:
    """Open a temporary file that replaces `path` when the block ends, or is removed if the block raises.

    The content is synced before the rename, so the file survives a power cut. It has the permissions `mode` (less the umask)
    from the beginning.
    """
    temporary, file = files.create_temporary(path, mode)
    try:
        with file:
            yield file
            files.sync_file(file)
            # The rename comes before the close, because a closed temporary file may be swept.
            files.rename(temporary, path)
    except BaseException:
        files.remove(temporary)
        raise
    files.sync_folder(path.parent)


def display_path(path: Path) -> str:
    """Return a path for a message: on one line, and cut on the left if it is longer than 120 characters."""
    text = str(path)
    text = text if text.isprintable() else repr(text)
    return text if len(text) <= 120 else "..." + text[-117:]
