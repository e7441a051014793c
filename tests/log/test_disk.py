"""The state folder as the one who holds its lock may use it."""

from __future__ import annotations

from pathlib import Path
from threading import Event, Thread

import pytest

from streamproc.errors import Refused
from streamproc.ports.disk import FolderDisk
from streamproc.ports.file_system import LocalFileSystem


def test_who_gave_up_the_lock_writes_nothing_any_more(tmp_path: Path) -> None:
    before, after = FolderDisk(tmp_path / "state"), FolderDisk(tmp_path / "state")
    assert before.lock("a.lock") and not after.lock("a.lock")
    before.write("a", b"first")
    before.unlock("a.lock")
    assert after.lock("a.lock")
    after.write("a", b"second")

    with pytest.raises(Refused, match="another process's by now"):
        before.write("a", b"third")

    assert after.read("a") == b"second"


def test_the_lock_is_held_until_a_write_under_way_is_done(tmp_path: Path) -> None:
    begun, go_on = Event(), Event()

    class Slow(LocalFileSystem):
        def rename(self, old: Path, new: Path) -> None:
            begun.set()
            go_on.wait(10)
            super().rename(old, new)

    disk = FolderDisk(tmp_path / "state", Slow())
    assert disk.lock("a.lock")
    writing, unlocking = Thread(target=disk.write, args=("a", b"it")), Thread(target=disk.unlock, args=("a.lock",))
    writing.start()
    assert begun.wait(10)
    unlocking.start()
    unlocking.join(0.1)

    assert unlocking.is_alive() and not FolderDisk(tmp_path / "state").lock("a.lock")

    go_on.set()
    writing.join(10)
    unlocking.join(10)
    assert FolderDisk(tmp_path / "state").lock("a.lock")
    assert disk.read("a") == b"it"
