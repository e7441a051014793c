"""The `Disk` port: named files that are replaced as a whole, and are on the disk when a write returns."""

from __future__ import annotations

from pathlib import Path
from threading import Lock
from typing import Protocol

from streamproc.errors import InvalidInput, Refused
from streamproc.ports.atomic import replacing
from streamproc.ports.locks import FileLock


class Disk(Protocol):
    """A folder of state files. A file is read back as it was last written, or not at all."""

    def read(self, name: str) -> bytes | None:
        """The file's content; None if there is no such file."""
        ...

    def write(self, name: str, content: bytes) -> None:
        """Replace the file; when this returns the new content survives a crash, until then the old one does."""
        ...

    def lock(self, name: str) -> bool:
        """Take a lock that ends with this process; False if another process holds it."""
        ...

    def clear(self) -> None:
        """Remove every file."""
        ...


class FolderDisk:
    """A folder of the file system, readable by its owner only."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._locks: dict[str, FileLock] = {}
        self._writing = Lock()
        self._unlocked = False

    def read(self, name: str) -> bytes | None:
        """Read the whole file."""
        try:
            return (self._folder / name).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Refused(
                f"state {self._folder / name}: cannot be read: {error.strerror}; mend that and start again"
            ) from None

    def write(self, name: str, content: bytes) -> None:
        """Temporary file, fsync, rename, fsync of the folder."""
        with self._writing:
            if self._unlocked:
                raise Refused(f"state {self._folder / name}: cannot be written: it may be another process's by now")
            self._make()
            try:
                with replacing(self._folder / name, 0o600) as file:
                    file.write(content)
            except OSError as error:
                raise Refused(
                    f"state {self._folder / name}: cannot be written: {error.strerror}; mend that and start again"
                ) from None

    def lock(self, name: str) -> bool:
        """A lock on a file of that name, which the kernel lets go of when the process ends, if `unlock` did not before."""
        if name in self._locks:
            return True
        self._make()
        try:
            lock = FileLock.take(self._folder / name)
        except OSError as error:
            raise Refused(f"state {self._folder / name}: cannot be locked: {error.strerror}") from None
        if lock is not None:
            self._locks[name] = lock
        return lock is not None

    def unlock(self, name: str) -> None:
        """Let others lock it. A write under way is awaited, later ones are refused.

        Threads outlive the tasks that started them: one whose task was cancelled must not replace what the next holder of
        the lock has written.
        """
        with self._writing:
            self._unlocked = True
            self._locks.pop(name).release()

    def clear(self) -> None:
        """Remove what is in the folder, then the folder."""
        if self._folder.is_dir():
            for file in self._folder.iterdir():
                file.unlink()
            self._folder.rmdir()

    def _make(self) -> None:
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self._folder.stat().st_mode & 0o077:
                self._folder.chmod(0o700)
        except FileExistsError:
            raise InvalidInput(f"state folder {self._folder}: is a file, a folder was expected") from None
        except OSError as error:
            raise Refused(f"state folder {self._folder}: cannot be used: {error.strerror}") from None
