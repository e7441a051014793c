"""A simulated machine: its files in memory, its processes, power cuts, full and failing disks, and backups."""

from __future__ import annotations

import errno
import io
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any, BinaryIO, cast

from streamproc.storage.filesystem import FileStatus
from streamproc.testing import Killed
from tests.simulated_filesystem.faults import FileFaults, Step
from tests.simulated_filesystem.storage import Node, Storage, StoredFile, StoredFolder, copied, failure


class SimulatedMachine:
    """A disk and the processes that use it. `random` decides what survives a power cut."""

    def __init__(self, random: Random, root: StoredFolder | None = None) -> None:
        self.random = random
        self.storage = Storage(root or StoredFolder(0, 0o755))
        self.capacity: int | None = None
        """Bytes; None if it never gets full."""
        self.read_only = False
        self.ignores_sync = False
        """Whether a sync returns without an effect, as on a disk with a volatile cache."""
        self.unreadable: set[Path] = set()
        """Files whose reading fails."""
        self.open: dict[Node | None, SimulatedFileSystem] = {}
        self.locks: list[SimulatedLock] = []
        """The locks that are held."""
        self._processes: list[SimulatedFileSystem] = []
        self._temporaries = 0

    def process(self, name: str = "", faults: FileFaults | None = None, *, user: int = 1000) -> SimulatedFileSystem:
        """Return the file system of a new process."""
        self._processes.append(SimulatedFileSystem(self, name, faults or FileFaults(), user))
        return self._processes[-1]

    def power_cut(self) -> None:
        """End every process; data that was not synced is lost, torn or kept."""
        for process in tuple(self._processes):
            process.kill()
        self.storage.root.cut(self.random)

    def image(self) -> StoredFolder:
        """A copy of the disk as it is, for `put_back` or another machine's `root`."""
        return cast(StoredFolder, copied(self.storage.root))

    def put_back(self, image: StoredFolder) -> None:
        """Roll the disk back; an image can be put back any number of times."""
        self.storage = Storage(cast(StoredFolder, copied(image)))

    def flip_bit(self, path: Path) -> None:
        """Flip a random bit of a file, unless it is empty."""
        file = self.storage.file(path)
        if file.content:
            place, bit = self.random.randrange(len(file.content)), 1 << self.random.randrange(8)
            changed = bytearray(file.content)
            changed[place] ^= bit
            file.content = file.kept = bytes(changed)

    def files(self, folder: Path) -> dict[str, bytes]:
        """What is in a folder, by name; nothing if it is not there."""
        try:
            entries = self.storage.folder(folder).entries
        except FileNotFoundError:
            return {}
        return {name: node.content for name, node in sorted(entries.items()) if isinstance(node, StoredFile)}

    def forget(self, process: SimulatedFileSystem) -> None:
        """Close the files and release the locks of a process that has ended."""
        self._processes.remove(process)
        self.open = {file: holder for file, holder in self.open.items() if holder is not process}
        self.locks = [lock for lock in self.locks if lock.holder is not process]

    def next_temporary(self, path: Path) -> Path:
        """A hidden name that was never used before."""
        self._temporaries += 1
        return path.with_name(f".{path.name}.{self._temporaries:08x}.tmp")


class SimulatedFileSystem:
    """The machine's files as one process sees them. It checks no permissions but says whose a file is."""

    def __init__(self, machine: SimulatedMachine, name: str, faults: FileFaults, user: int) -> None:
        self.machine, self.name = machine, name
        self.user = user
        self.alive = True
        self._faults = faults

    def kill(self) -> None:
        """End the process as `kill -9` does: its writes stay, its locks are released, and its later steps have no effect."""
        if self.alive:
            self.alive = False
            self.machine.forget(self)

    def create_temporary(self, path: Path, mode: int) -> tuple[Path, BinaryIO]:
        temporary = self.machine.next_temporary(path)
        with self._changing("create", temporary):
            file = StoredFile(self.user, mode)
            self.machine.storage.folder(path.parent).change({temporary.name: file})
            self.machine.open[file] = self
        return temporary, _OpenFile(self, temporary, file)

    def sync_file(self, file: BinaryIO) -> None:
        assert isinstance(file, _OpenFile)
        with self._step("sync_file", file.path):
            if not self.machine.ignores_sync:
                file.stored.kept = file.stored.content

    def rename(self, old: Path, new: Path) -> None:
        with self._changing("rename", new):
            self._folder_of(new).change({old.name: None, new.name: self._node(old)})

    def sync_folder(self, folder: Path) -> None:
        with self._step("sync_folder", folder):
            found = self.machine.storage.folder(folder)
            if not self.machine.ignores_sync:
                found.sync()

    def may_change(self, folder: Path) -> bool:
        return not self.machine.read_only

    def make_folder(self, folder: Path, mode: int) -> None:
        with self._changing("make_folder", folder):
            within = self._folder_of(folder)
            if folder.name not in within.entries:
                within.change({folder.name: StoredFolder(self.user, mode)})

    def read(self, path: Path) -> bytes:
        with self._step("read", path):
            if path in self.machine.unreadable:
                raise failure(errno.EIO)
            return self.machine.storage.file(path).content

    def names(self, folder: Path) -> list[str]:
        with self._step("names", folder):
            return sorted(self.machine.storage.folder(folder).entries)

    def status(self, path: Path) -> FileStatus:
        with self._step("status", path):
            node = self._node(path)
            return FileStatus(node.owner, node.mode, isinstance(node, StoredFolder))

    def set_mode(self, path: Path, mode: int) -> None:
        with self._changing("set_mode", path):
            self._node(path).mode = mode

    def remove(self, path: Path) -> None:
        with self._changing("remove", path):
            self._remove(path)

    def remove_folder(self, folder: Path) -> None:
        with self._changing("remove_folder", folder):
            if self.machine.storage.folder(folder).entries:
                raise failure(errno.ENOTEMPTY)
            self._folder_of(folder).change({folder.name: None})

    def sweep(self, temporary: Path) -> None:
        with self._changing("sweep", temporary):
            if self._folder_of(temporary).entries.get(temporary.name) not in self.machine.open:
                self._remove(temporary)

    def lock(self, path: Path, *, shared: bool = False) -> SimulatedLock | None:
        with self._changing("lock", path):
            folder = self._folder_of(path)
            if path.name not in folder.entries:
                folder.change({path.name: StoredFile(self.user, 0o600)})
            if any(held.path == path and not (shared and held.shared) for held in self.machine.locks):
                return None
            lock = SimulatedLock(path, self, shared=shared)
            self.machine.locks.append(lock)
            return lock

    def append(self, path: Path, file: StoredFile, content: bytes) -> None:
        """One write, of which a part may be there when it fails."""
        machine = self.machine
        with self._changing("write", path):
            before = file.content
            file.content = before + content[: machine.random.randint(0, len(content))]
            self._faults.inside(self, "write", path)
            self._check_alive()
            file.content = before
            room = len(content) if machine.capacity is None else max(0, machine.capacity - machine.storage.used)
            file.content = before + content[:room]
            if room < len(content):
                raise failure(errno.ENOSPC)

    @contextmanager
    def _step(self, step: Step, path: Path) -> Iterator[None]:
        self._check_alive()
        self._faults.before(self, step, path)
        self._check_alive()
        yield
        self._faults.after(self, step, path)
        self._check_alive()

    @contextmanager
    def _changing(self, step: Step, path: Path) -> Iterator[None]:
        with self._step(step, path):
            if self.machine.read_only:
                raise failure(errno.EROFS)
            yield

    def _check_alive(self) -> None:
        if not self.alive:
            raise Killed(self.name)

    def _node(self, path: Path) -> Node:
        return self.machine.storage.node(path)

    def _folder_of(self, path: Path) -> StoredFolder:
        return self.machine.storage.folder(path.parent)

    def _remove(self, path: Path) -> None:
        folder = self._folder_of(path)
        if path.name in folder.entries:
            folder.change({path.name: None})


class SimulatedLock:
    """A held lock."""

    def __init__(self, path: Path, holder: SimulatedFileSystem, *, shared: bool) -> None:
        self.path, self.holder, self.shared = path, holder, shared

    def release(self) -> None:
        """Release the lock, unless the process was killed: then it is released already, and another process may hold it."""
        with suppress(ValueError):
            self.holder.machine.locks.remove(self)


class _OpenFile(io.BytesIO):
    """A file as `create_temporary` opens it; it is only written to."""

    def __init__(self, process: SimulatedFileSystem, path: Path, stored: StoredFile) -> None:
        super().__init__()
        self.path, self.stored = path, stored
        self._process = process

    def write(self, content: Any, /) -> int:
        self._process.append(self.path, self.stored, bytes(content))
        return len(content)

    def close(self) -> None:
        if not self.closed and self._process.alive:
            self._process.machine.open.pop(self.stored, None)
        super().close()
