"""The `Disk` port: named files that are replaced as a whole, and are on the disk when a write returns."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Protocol

from streamproc.errors import InvalidInput, Refused
from streamproc.storage.filesystem import (
    LOST_AND_FOUND,
    FileSystem,
    HeldLock,
    LocalFileSystem,
    atomic_write,
    sync_existing_folder,
)

_TEMPORARY = re.compile(r"\.[a-z0-9.-]+\.[0-9a-f]{8}\.tmp")
"""What `FileSystem.create_temporary` makes of the names of state files."""

_STATE = re.compile(r"[a-z]+(-[0-9]+)?\.(state|settled|lock)")
"""What the roles call their files. Whatever else is in the folder is not ours to touch."""

MIN_TRIAL_BYTES = 4096
"""Bytes, the least that takes up room: written to see whether anything can be."""

WRITE_CHUNK_BYTES = 2**20
"""Bytes that are written at a time where only their number matters."""


class StateFolder(Protocol):
    """A folder of state files. A file is read back as it was last written, or not at all."""

    def read(self, name: str) -> bytes | None:
        """The file's content, which survives a crash from now on; None if there is no such file."""
        ...

    def write(self, name: str, content: bytes) -> None:
        """Replace the file; when this returns the new content survives a crash, until then the old one does."""
        ...

    def reserve_space(self, name: str, size: int) -> None:
        """See that a file of so many bytes can take that name; refuse if it cannot."""
        ...

    def lock(self, name: str) -> bool:
        """Take a lock that ends with this process; False if another process holds it."""
        ...

    def clear(self) -> None:
        """Remove every file."""
        ...


class LocalStateFolder:
    """A folder of the file system, readable by its owner only, who must be the user that runs us."""

    def __init__(self, folder: Path, files: FileSystem | None = None) -> None:
        self._folder = folder
        self._files = LocalFileSystem() if files is None else files
        self._locks: dict[str, HeldLock] = {}
        self._writing = Lock()
        self._swept = False
        self._unlocked = False

    def prepare(self) -> None:
        """Make the folder if need be; refuse one that is not ours or cannot be written, before anything depends on it."""
        with self._refusing(self._folder, "used"):
            self._make()
            sync_existing_folder(self._files, self._folder.parent)
            for name in self._own_files():
                self._make_private(self._folder / name, 0o600)
            self._write_trial_file(MIN_TRIAL_BYTES)

    def read(self, name: str) -> bytes | None:
        """Read the whole file; whoever gave it its name may have died before the name was on the disk."""
        with self._refusing(self._folder / name, "read"):
            try:
                content = self._files.read(self._folder / name)
            except (FileNotFoundError, NotADirectoryError):
                return None
            self._files.sync_folder(self._folder)
            return content

    def write(self, name: str, content: bytes) -> None:
        """Temporary file, fsync, rename, fsync of the folder."""
        with self._writing:
            if self._unlocked:
                raise Refused(f"state {self._folder / name}: cannot be written: it may be another process's by now")
            with self._refusing(self._folder / name, "written"):
                self._make()
                self._sweep()
                with atomic_write(self._folder / name, 0o600, self._files) as file:
                    file.write(content)

    def reserve_space(self, name: str, size: int) -> None:
        """Write so many bytes beside what is there, and remove them."""
        with self._refusing(self._folder / name, "written"):
            self._make()
            self._write_trial_file(max(size, MIN_TRIAL_BYTES))

    def lock(self, name: str, *, shared: bool = False) -> bool:
        """A lock on a file of that name, which the kernel lets go of when the process ends, if `unlock` did not before.

        Many can hold it at once if all of them share it.
        """
        if name in self._locks:
            return True
        self.prepare()
        with self._refusing(self._folder / name, "locked"):
            lock = self._files.lock(self._folder / name, shared=shared)
        if lock is not None:
            self._locks[name] = lock
        return lock is not None

    def unlock(self, name: str) -> None:
        """Let others lock it. A write under way is awaited, later ones are refused.

        Threads outlive the tasks that started them: one whose task was cancelled must not replace what the next holder of
        the lock has written, nor bring back what it has purged.
        """
        with self._writing:
            self._unlocked = True
            self._locks.pop(name).release()

    def check_only_own_files(self) -> bool:
        """Refuse a folder with anything in it that is not a state file; whether there is any but for locks."""
        with self._refusing(self._folder, "read"):
            ours = self._own_files()
            others = sorted(self._names() - set(ours))
        if others:
            raise Refused(f"state folder {self._folder}: holds {others[0]!r}, which is not a study's; move that away first")
        return any(not name.endswith(".lock") for name in ours)

    def holds_state(self) -> bool:
        """Whether the folder holds a state file, locks left out; False if it does not exist or cannot be read."""
        try:
            return any(not name.endswith(".lock") for name in self._own_files())
        except OSError:
            return False

    def clear(self) -> None:
        """Remove every state file, then the folder if it can be: the mount point of a volume stays, empty."""
        with self._refusing(self._folder, "removed"):
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
        """What people and programs have put there."""
        return set(self._files.names(self._folder)) - {LOST_AND_FOUND}

    def _own_files(self) -> list[str]:
        return [name for name in self._files.names(self._folder) if _STATE.fullmatch(name) or _TEMPORARY.fullmatch(name)]

    def _make(self) -> None:
        """The folder, and those it is in; each survives a power cut once it holds anything."""
        missing = []
        for folder in (self._folder, *self._folder.parents):
            try:
                self._files.status(folder)
            except FileNotFoundError:
                missing.append(folder)
            else:
                if missing:
                    sync_existing_folder(self._files, folder.parent)
                    # One in which nothing can be made for certain is refused before anything is.
                    self._files.sync_folder(folder)
                break
        for folder in reversed(missing):
            self._files.make_folder(folder, 0o700 if folder == self._folder else 0o777)
            self._files.sync_folder(folder.parent)
        self._make_private(self._folder, 0o700)

    def _make_private(self, path: Path, mode: int) -> None:
        """For its owner only; refused if that is not us, since its owner may change it at any time."""
        try:
            status = self._files.status(path)
        except FileNotFoundError:
            return  # somebody else's temporary file, gone by now
        if path == self._folder and not status.is_folder:
            raise InvalidInput(f"state folder {path}: is a file, a folder was expected")
        if status.owner != self._files.user:
            raise Refused(
                f"state {path}: belongs to user {status.owner}, but this runs as user {self._files.user}; run as its owner, "
                "or give it to this user"
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
        """Remove what killed processes were writing; not before we write, for a refused start changes nothing."""
        if not self._swept:
            for name in self._own_files():
                if _TEMPORARY.fullmatch(name):
                    self._files.sweep(self._folder / name)
            self._swept = True

    @contextmanager
    def _refusing(self, path: Path, what: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise Refused(f"state {path}: cannot be {what}: {error.strerror}; mend that and start again") from None
