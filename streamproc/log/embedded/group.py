"""Group membership on one machine: a lock per member, from which each computes its share, and a lock per partition."""

from __future__ import annotations

import asyncio
from pathlib import Path
from threading import Lock

from streamproc.errors import LogUnavailable
from streamproc.storage.filesystem import FileLock, is_held

POLL_INTERVAL_S = 0.25
"""Seconds between two checks of the locks."""


class EmbeddedGroupMembership:
    """Locks `<group>-member-<i>.lock` and `<group>-<p>.lock` in the folder. They are released when the process ends."""

    def __init__(self, folder: Path, group: str, partitions: int) -> None:
        self._folder, self._group, self._partitions = folder, group, partitions
        self._slot: tuple[int, FileLock] | None = None
        self._owned: dict[int, FileLock] = {}
        self._leaving: set[int] = set()
        self._last: frozenset[int] | None = None
        self._updating = Lock()
        self._closed = False

    @property
    def joined(self) -> bool:
        return self._last is not None

    async def assigned(self, *, timeout: float = 0.5) -> frozenset[int]:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        # A caller that asks again has stopped work on the partitions that were missing from the last result.
        for partition in self._leaving:
            self._owned.pop(partition).release()
        self._leaving.clear()
        while True:
            assignment = await asyncio.to_thread(self._update)
            left = deadline - loop.time()
            if assignment != self._last or left <= 0:
                self._last = assignment
                return assignment
            await asyncio.sleep(min(POLL_INTERVAL_S, left))

    async def close(self) -> None:
        # An update runs in a thread, which outlives a cancelled task. Wait for it; a later one takes no locks.
        with self._updating:
            self._closed = True
            for lock in self._owned.values():
                lock.release()
            self._owned.clear()
            self._leaving.clear()
            if self._slot is not None:
                self._slot[1].release()
                self._slot = None

    def _update(self) -> frozenset[int]:
        with self._updating:
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
        """Return the number of partitions of this member. The shares of all members add up to all partitions."""
        slots = [self._folder / f"{self._group}-member-{number}.lock" for number in range(self._partitions)]
        if self._slot is None:
            for number, path in enumerate(slots):
                lock = FileLock.take(path)
                if lock is not None:
                    self._slot = number, lock
                    break
            else:
                # There are more members than partitions, so this one waits for a free slot.
                return 0
        own = self._slot[0]
        others = [number for number, path in enumerate(slots) if number != own and is_held(path)]
        rank = sum(number < own for number in others)
        return self._partitions // (len(others) + 1) + (rank < self._partitions % (len(others) + 1))
