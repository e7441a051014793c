"""The `StateFolder` port: named files that are replaced atomically and are durable when a write returns."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Protocol

from streamproc.errors import InvalidInput, Refused, StateFolderUnusable
from streamproc.storage.filesystem import (
    LOST_AND_FOUND,
    FileSystem,
    HeldLock,
    LocalFileSystem,
    atomic_write,
    sync_existing_folder,
)

_TEMPORARY = re.compile(r"\.[a-z0-9.-]+\.[0-9a-f]{8}\.tmp")
"""Names that `FileSystem.create_temporary` derives from the names of state files."""

_STATE = re.compile(r"[a-z]+(-[0-9]+)?\.(state|settled|lock)|departed-[0-9]+-[0-9]{6,}\.state")
"""Names of the files of the roles: checkpoints, locks, and segments of hashes, which have the numbers of a partition and of
the segment. Other files in the folder are never touched."""

MIN_TRIAL_BYTES = 4096
"""Size of the smallest trial file in bytes: one block of most file systems."""

WRITE_CHUNK_BYTES = 2**20
"""Bytes of a trial file that are written at a time."""


class StateFolder(Protocol):
    """A folder of state files. `read` returns what was written last, or None."""

    def read(self, name: str) -> bytes | None:
        """Return the content of a file, which survives a crash from now on, or None if there is no such file."""
        ...

    def write(self, name: str, content: bytes) -> None:
        """Replace a file. When this returns, the new content survives a crash; until then the old content does."""
        ...

    def reserve_space(self, name: str, size: int) -> None:
        """Raise Refused unless a file of `size` bytes can be written under that name."""
        ...

    def lock(self, name: str) -> bool:
        """Take a lock that ends with this process. Returns False if another process holds it."""
        ...

    def clear(self) -> None:
        """Remove every file."""
        ...


class LocalStateFolder:
    """A folder of the file system that only its owner may read. The owner must be the user of this process."""

    def __init__(self, folder: Path, files: FileSystem | None = None) -> None:
        self._folder = folder
        self._files = LocalFileSystem() if files is None else files
        self._locks: dict[str, HeldLock] = {}
        self._writing = Lock()
        self._swept = False
        self._unlocked = False

    def prepare(self) -> None:
        """Create the folder if needed. Raises Refused if it belongs to another user or cannot be written."""
        with self._refusing(self._folder, "use"):
            self._make()
            sync_existing_folder(self._files, self._folder.parent)
            for name in self._own_files():
                self._make_private(self._folder / name, 0o600)
            self._write_trial_file(MIN_TRIAL_BYTES)

    def read(self, name: str) -> bytes | None:
        """Read the whole file, and sync the folder: a process may have died between the rename and the sync."""
        with self._refusing(self._folder / name, "read"):
            try:
                content = self._files.read(self._folder / name)
            except (FileNotFoundError, NotADirectoryError):
                return None
            self._files.sync_folder(self._folder)
            return content

    def write(self, name: str, content: bytes) -> None:
        """Write a temporary file, sync it, rename it, and sync the folder."""
        with self._writing:
            if self._unlocked:
                raise Refused(
                    f"cannot write state file {self._folder / name}: its lock was released, and another process may own it"
                )
            with self._refusing(self._folder / name, "write"):
                self._make()
                self._sweep()
                with atomic_write(self._folder / name, 0o600, self._files) as file:
                    file.write(content)

    def reserve_space(self, name: str, size: int) -> None:
        """Write a temporary file of `size` bytes and remove it."""
        with self._refusing(self._folder / name, "write"):
            self._make()
            self._write_trial_file(max(size, MIN_TRIAL_BYTES))

    def lock(self, name: str, *, shared: bool = False) -> bool:
        """Lock a file of that name until `unlock` or until the process ends. Returns False if another process holds it.

        Several processes can hold a shared lock at the same time.
        """
        if name in self._locks:
            return True
        self.prepare()
        with self._refusing(self._folder / name, "lock"):
            lock = self._files.lock(self._folder / name, shared=shared)
        if lock is not None:
            self._locks[name] = lock
        return lock is not None

    def unlock(self, name: str) -> None:
        """Release the lock. Waits for a write that has begun; later writes raise Refused.

        A thread outlives the task that started it. After its task was cancelled it must not replace what the next holder of
        the lock has written, or recreate what that holder has purged.
        """
        with self._writing:
            self._unlocked = True
            self._locks.pop(name).release()

    def check_only_own_files(self) -> bool:
        """Return whether the folder has state files other than locks. Raises Refused if it has other files."""
        with self._refusing(self._folder, "read"):
            ours = self._own_files()
            others = sorted(self._names() - set(ours))
        if others:
            raise StateFolderUnusable(
                self._folder, f"contains {others[0]!r}, which is not a state file. Move it away first."
            )
        return any(not name.endswith(".lock") for name in ours)

    def holds_state(self) -> bool:
        """Return whether the folder has state files other than locks. False if it does not exist or cannot be read."""
        try:
            return any(not name.endswith(".lock") for name in self._own_files())
        except OSError:
            return False

    def clear(self) -> None:
        """Remove every state file, then the folder. The mount point of a volume stays and is empty."""
        with self._refusing(self._folder, "remove"):
            try:
                names = self._own_files()
            except FileNotFoundError:
                return
            for name in names:
                self._files.remove(self._folder / name)
            try:
                self._files.remove_folder(self._folder)
            except OSError:
                if self._names():
                    raise
                self._files.sync_folder(self._folder)
            else:
                self._files.sync_folder(self._folder.parent)

    def _names(self) -> set[str]:
        """Return the names in the folder, without those that the file system creates itself."""
        return set(self._files.names(self._folder)) - {LOST_AND_FOUND}

    def _own_files(self) -> list[str]:
        return [name for name in self._files.names(self._folder) if _STATE.fullmatch(name) or _TEMPORARY.fullmatch(name)]

    def _make(self) -> None:
        """Create the folder and its parents so that each of them survives a power cut before a file is written."""
        missing = []
        for folder in (self._folder, *self._folder.parents):
            try:
                self._files.status(folder)
            except FileNotFoundError:
                missing.append(folder)
            else:
                if missing:
                    sync_existing_folder(self._files, folder.parent)
                    # If the folder cannot be synced, this fails before anything is created in it.
                    self._files.sync_folder(folder)
                break
        for folder in reversed(missing):
            self._files.make_folder(folder, 0o700 if folder == self._folder else 0o777)
            self._files.sync_folder(folder.parent)
        self._make_private(self._folder, 0o700)

    def _make_private(self, path: Path, mode: int) -> None:
        """Restrict a file or folder to its owner. Raises Refused if that is another user, who may change it at any time."""
        try:
            status = self._files.status(path)
        except FileNotFoundError:
            return  # a temporary file of another process, which has removed it
        if path == self._folder and not status.is_folder:
            raise InvalidInput(f"state folder {path}: is a file, expected a folder")
        if status.owner != self._files.user:
            raise Refused(
                f"state {path}: belongs to user {status.owner}, but this process runs as user {self._files.user}. Run it as "
                "the owner, or change the owner."
            )
        if status.mode & 0o077 and (path == self._folder or not status.is_folder):
            self._files.set_mode(path, mode)

    def _write_trial_file(self, size: int) -> None:
        temporary, file = self._files.create_temporary(self._folder / "trial", 0o600)
        try:
            with file:
                for written in range(0, size, WRITE_CHUNK_BYTES):
                    file.write(bytes(min(WRITE_CHUNK_BYTES, size - written)))
                self._files.sync_file(file)
        finally:
            self._files.remove(temporary)

    def _sweep(self) -> None:
        """Remove temporary files of killed processes. A refused start changes nothing, so this waits for the first write."""
        if not self._swept:
            for name in self._own_files():
                if _TEMPORARY.fullmatch(name):
                    self._files.sweep(self._folder / name)
            self._swept = True

    @contextmanager
    def _refusing(self, path: Path, verb: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            kind = "state folder" if path == self._folder else "state file"
            raise Refused(f"cannot {verb} {kind} {path}: {error.strerror}. Fix this and restart.") from None
