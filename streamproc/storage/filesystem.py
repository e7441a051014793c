"""The steps of a file system that state files are made of, so that a simulation can fail at each of them."""

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
"""What a file system may keep for itself at the top of a volume."""


@dataclass(frozen=True)
class FileStatus:
    """Whose a file or folder is, and who may use it."""

    owner: int
    """A user id."""
    mode: int
    """Permission bits only."""
    is_folder: bool


class HeldLock(Protocol):
    """A lock that ends with the process, if it is not released before."""

    def release(self) -> None:
        """Let others take it."""
        ...


class FileSystem(Protocol):
    """What one process may do with files. Every step may fail with an OSError.

    Nothing survives a power cut before it is synced: a file's content by `sync_file`, its name by `sync_folder`.
    """

    @property
    def user(self) -> int:
        """The id of the user that this process runs as."""
        ...

    def create_temporary(self, path: Path, mode: int) -> tuple[Path, BinaryIO]:
        """A new file beside `path` with a hidden name of its own, `.<name>.<8 hex digits>.tmp`; nobody sweeps it while open.

        Nobody whom `mode` (less the umask) keeps out can open it at any moment.
        """
        ...

    def sync_file(self, file: BinaryIO) -> None:
        """When this returns, what was written to the file survives a power cut."""
        ...

    def rename(self, old: Path, new: Path) -> None:
        """Another name in the same folder, in place of the file that has it."""
        ...

    def sync_folder(self, folder: Path) -> None:
        """When this returns, the names in it survive a power cut."""
        ...

    def may_change(self, folder: Path) -> bool:
        """Whether this process may make, rename or remove anything in it."""
        ...

    def make_folder(self, folder: Path, mode: int) -> None:
        """Create it in a folder that is there; one that exists already is left as it is."""
        ...

    def read(self, path: Path) -> bytes:
        """The whole file."""
        ...

    def names(self, folder: Path) -> list[str]:
        """What is in it, sorted."""
        ...

    def status(self, path: Path) -> FileStatus:
        """Of a file or folder."""
        ...

    def set_mode(self, path: Path, mode: int) -> None:
        """Change who may use it."""
        ...

    def remove(self, path: Path) -> None:
        """A file; one that is not there is removed already."""
        ...

    def remove_folder(self, folder: Path) -> None:
        """An empty folder."""
        ...

    def sweep(self, temporary: Path) -> None:
        """Remove a temporary file, if it can be and no process that lives is still writing it."""
        ...

    def lock(self, path: Path, *, shared: bool = False) -> HeldLock | None:
        """The lock on this file, which is created if need be; None if anybody, this process included, holds it.

        A shared one is only kept from its taker by one that is not.
        """
        ...


def sync_existing_folder(files: FileSystem, folder: Path) -> None:
    """Sync a folder in which something was found: whoever made that may have died before it was on the disk.

    Where a folder cannot be synced at all, or not by us, who may not change it either, there is nothing to be done.
    """
    try:
        files.sync_folder(folder)
    except OSError as error:
        if error.errno != errno.EINVAL and files.may_change(folder):
            raise


class LocalFileSystem:
    """The operating system's."""

    @property
    def user(self) -> int:
        return os.geteuid()

    def create_temporary(self, path: Path, mode: int) -> tuple[Path, BinaryIO]:
        while True:
            temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
            file = open(temporary, "xb", opener=lambda name, flags: os.open(name, flags, mode))  # noqa: SIM115 (handed out)
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
    """Mark a new temporary file as one whose writer lives; False if it was swept before that."""
    try:
        _lock(handle)
    except BlockingIOError:
        return False
    except OSError:
        pass  # a file system without locks, where nobody sweeps
    return os.fstat(handle).st_nlink > 0


def _lock(handle: int) -> None:
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


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


_LOCAL = LocalFileSystem()


@contextmanager
def atomic_write(path: Path, mode: int = 0o666, files: FileSystem = _LOCAL) -> Iterator[BinaryIO]:
    """A file to write, which takes the place of `path` when the block ends well, and is removed when it does not.

    What is there afterwards survives a power cut: the content is on disk before the name changes. Nobody whom `mode` (less
    the umask) keeps out can open it at any moment.
    """
    temporary, file = files.create_temporary(path, mode)
    try:
        with file:
            yield file
            files.sync_file(file)
            # Before it is closed: a closed one may be swept.
            files.rename(temporary, path)
    except BaseException:
        files.remove(temporary)
        raise
    files.sync_folder(path.parent)


def display_path(path: Path) -> str:
    """A path on one line, cut from the left if it is long."""
    text = str(path)
    text = text if text.isprintable() else repr(text)
    return text if len(text) <= 120 else "..." + text[-117:]
