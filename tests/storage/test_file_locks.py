"""A lock on a file keeps others out only as long as they find the same file."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from streamproc.storage.filesystem import FileLock, is_held


def test_a_lock_on_a_removed_file_is_taken_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a purge does, which ends between opening the file and locking it."""
    path, flock = tmp_path / "synthesizer.lock", fcntl.flock
    removed: list[Path] = []

    def late(handle: int, kind: int) -> None:
        if not removed:
            removed.append(path)
            path.unlink()
        flock(handle, kind)

    monkeypatch.setattr("fcntl.flock", late)
    lock = FileLock.take(path)
    assert lock is not None
    assert removed and is_held(path)
    assert FileLock.take(path) is None
    lock.release()
    assert not is_held(path)


def test_a_lock_on_a_replaced_file_is_left_to_the_holder_of_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, flock = tmp_path / "synthesizer.lock", fcntl.flock
    others: list[FileLock | None] = []

    def late(handle: int, kind: int) -> None:
        if not others:
            path.unlink()
            others.append(None)
            others[0] = FileLock.take(path)
        flock(handle, kind)

    monkeypatch.setattr("fcntl.flock", late)
    assert FileLock.take(path) is None
    assert others[0] is not None
    others[0].release()
