"""Who gathers which partition on one machine: a lock per member, so that each knows its share, and one per partition."""

from __future__ import annotations

import asyncio
from pathlib import Path
from threading import Lock

from streamproc.errors import LogUnavailable
from streamproc.storage.filesystem import FileLock, is_held

POLL_INTERVAL_S = 0.25
"""Seconds between two looks at the locks."""


class EmbeddedGroupMembership:
    """Locks `<group>-member-<i>.lock` and `<group>-<p>.lock` in the folder; a process that dies lets go of all of them."""

    def __init__(self, folder: Path, group: str, partitions: int) -> None:
        self._folder, self._group, self._partitions = folder, group, partitions
        self._slot: tuple[int, FileLock] | None = None
        self._owned: dict[int, FileLock] = {}
        self._leaving: set[int] = set()
        self._last: frozenset[int] | None = None
        self._looking = Lock()
        self._closed = False

    @property
    def joined(self) -> bool:
        return self._last is not None

    async def assigned(self, *, timeout: float = 0.5) -> frozenset[int]:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        # Whoever asks again has stopped work on what was missing from the last answer.
        for partition in self._leaving:
            self._owned.pop(partition).release()
        self._leaving.clear()
        while True:
            assignment = await asyncio.to_thread(self._look)
            left = deadline - loop.time()
            if assignment != self._last or left <= 0:
                self._last = assignment
                return assignment
            await asyncio.sleep(min(POLL_INTERVAL_S, left))

    async def close(self) -> None:
        # A look outlives the task that was cancelled in it: one under way is awaited, a later one takes nothing.
        with self._looking:
            self._closed = True
            for lock in self._owned.values():
                lock.release()
            self._owned.clear()
            self._leaving.clear()
            if self._slot is not None:
                self._slot[1].release()
                self._slot = None

    def _look(self) -> frozenset[int]:
        with self._looking:
            return frozenset() if self._closed else self._assignment()

    def _assignment(self) -> frozenset[int]:
        try:
            share = self._share()
            for partition in range(self._partitions):
                if partition not in self._owned and len(self._owned) < share:
                    lock = FileLock.take(self._folder / f"{self._group}-{partition}.lock")
                    if lock is not None:
                        self._owned[partition] = lock
        except OSError as error:
            raise LogUnavailable(f"locks of {self._group}: {error.strerror}") from None
        self._leaving = set(sorted(self._owned)[share:])
        return frozenset(self._owned) - self._leaving

    def _share(self) -> int:
        """How many partitions are this member's: all shares together are all partitions."""
        slots = [self._folder / f"{self._group}-member-{number}.lock" for number in range(self._partitions)]
        if self._slot is None:
            for number, path in enumerate(slots):
                lock = FileLock.take(path)
                if lock is not None:
                    self._slot = number, lock
                    break
            else:
                # More members than partitions: this one waits for a slot to become free.
                return 0
        own = self._slot[0]
        others = [number for number, path in enumerate(slots) if number != own and is_held(path)]
        rank = sum(number < own for number in others)
        return self._partitions // (len(others) + 1) + (rank < self._partitions % (len(others) + 1))
