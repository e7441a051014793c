"""A disk in memory, which can be looked at, copied and put back."""

from __future__ import annotations


class MemoryDisk:
    def __init__(self, files: dict[str, bytes] | None = None) -> None:
        self.files = dict(files or {})
        self._locks: set[str] = set()

    def read(self, name: str) -> bytes | None:
        return self.files.get(name)

    def write(self, name: str, content: bytes) -> None:
        self.files[name] = content

    def reserve_space(self, name: str, size: int) -> None:
        """There is always some."""

    def lock(self, name: str) -> bool:
        free = name not in self._locks
        self._locks.add(name)
        return free

    def clear(self) -> None:
        self.files.clear()

    def copy(self) -> MemoryDisk:
        """What a backup or a cloned machine has."""
        return MemoryDisk(self.files)
