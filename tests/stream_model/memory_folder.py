"""A state folder in memory, which tests can inspect, copy and restore."""

from __future__ import annotations


class MemoryStateFolder:
    def __init__(self, files: dict[str, bytes] | None = None) -> None:
        self.files = dict(files or {})
        self._locks: set[str] = set()

    def read(self, name: str) -> bytes | None:
        return self.files.get(name)

    def write(self, name: str, content: bytes) -> None:
        self.files[name] = content

    def reserve_space(self, name: str, size: int) -> None:
        """Do nothing: there is always enough space."""

    def lock(self, name: str) -> bool:
        free = name not in self._locks
        self._locks.add(name)
        return free

    def clear(self) -> None:
        self.files.clear()

    def copy(self) -> MemoryStateFolder:
        """Return a copy, as a backup or a cloned machine has."""
        return MemoryStateFolder(self.files)
