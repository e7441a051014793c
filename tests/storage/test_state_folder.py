"""The state folder: what is in it is whole, durable, private and ours."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import BinaryIO

import pytest

from streamproc.errors import Refused
from streamproc.storage.filesystem import LocalFileSystem
from streamproc.storage.state_folder import LocalStateFolder
from tests.simulated_filesystem import SimulatedMachine


def test_who_gave_up_the_lock_writes_nothing_any_more(tmp_path: Path) -> None:
    before, after = LocalStateFolder(tmp_path / "state"), LocalStateFolder(tmp_path / "state")
    assert before.lock("a.lock") and not after.lock("a.lock")
    before.write("a", b"first")
    before.unlock("a.lock")
    assert after.lock("a.lock")
    after.write("a", b"second")

    with pytest.raises(Refused, match="its lock was released"):
        before.write("a", b"third")

    assert after.read("a") == b"second"


def test_the_lock_is_held_until_a_write_under_way_is_done(tmp_path: Path) -> None:
    begun, go_on = Event(), Event()

    class Slow(LocalFileSystem):
        def rename(self, old: Path, new: Path) -> None:
            begun.set()
            go_on.wait(60)
            super().rename(old, new)

    disk = LocalStateFolder(tmp_path / "state", Slow())
    assert disk.lock("a.lock")
    writing, unlocking = Thread(target=disk.write, args=("a", b"it")), Thread(target=disk.unlock, args=("a.lock",))
    writing.start()
    assert begun.wait(60)
    unlocking.start()
    unlocking.join(0.1)

    assert unlocking.is_alive() and not LocalStateFolder(tmp_path / "state").lock("a.lock")

    go_on.set()
    writing.join(60)
    unlocking.join(60)
    assert LocalStateFolder(tmp_path / "state").lock("a.lock")
    assert disk.read("a") == b"it"


class Steps(LocalFileSystem):
    """Notes the steps that make something durable, in order."""

    def __init__(self) -> None:
        self.taken: list[tuple[str, str]] = []

    def make_folder(self, folder: Path, mode: int) -> None:
        self.taken.append(("make", folder.name))
        super().make_folder(folder, mode)

    def sync_file(self, file: BinaryIO) -> None:
        self.taken.append(("sync", ".tmp"))
        super().sync_file(file)

    def rename(self, old: Path, new: Path) -> None:
        self.taken.append(("rename", new.name))
        super().rename(old, new)

    def sync_folder(self, folder: Path) -> None:
        self.taken.append(("sync", folder.name))
        super().sync_folder(folder)


def test_a_file_is_synced_before_it_gets_its_name_and_every_new_name_is_synced(tmp_path: Path) -> None:
    steps = Steps()

    LocalStateFolder(tmp_path / "new" / "state", steps).write("a", b"it")

    assert steps.taken == [
        ("sync", tmp_path.parent.name),
        ("sync", tmp_path.name),
        ("make", "new"),
        ("sync", tmp_path.name),
        ("make", "state"),
        ("sync", "new"),
        ("sync", ".tmp"),
        ("rename", "a"),
        ("sync", "state"),
    ]


class Unsynced(LocalFileSystem):
    """One of the folders cannot be synced."""

    def __init__(self, folder: Path, code: int, *, changeable: bool) -> None:
        self._folder, self._code, self._changeable = folder, code, changeable

    def sync_folder(self, folder: Path) -> None:
        if folder == self._folder:
            raise OSError(self._code, os.strerror(self._code))
        super().sync_folder(folder)

    def may_change(self, folder: Path) -> bool:
        return self._changeable or folder != self._folder


@pytest.mark.parametrize(
    ("code", "changeable"), [(errno.EINVAL, True), (errno.EINVAL, False), (errno.EACCES, False), (errno.EROFS, False)]
)
def test_a_folder_is_used_whose_parent_nobody_could_change_or_sync(tmp_path: Path, code: int, changeable: bool) -> None:
    (tmp_path / "state").mkdir()
    disk = LocalStateFolder(tmp_path / "state", Unsynced(tmp_path, code, changeable=changeable))

    assert disk.lock("a.lock")
    disk.write("a", b"it")

    assert disk.read("a") == b"it"


@pytest.mark.parametrize("code", [errno.EACCES, errno.EIO])
@pytest.mark.parametrize("there", [False, True])
def test_a_folder_that_may_not_outlive_a_power_cut_is_refused_and_not_made(tmp_path: Path, code: int, there: bool) -> None:
    if there:
        (tmp_path / "state").mkdir()

    with pytest.raises(Refused, match=f"cannot use state folder .*: {os.strerror(code)}"):
        LocalStateFolder(tmp_path / "state", Unsynced(tmp_path, code, changeable=True)).prepare()

    assert (tmp_path / "state").exists() is there


def test_what_a_killed_process_was_writing_is_removed_when_the_next_one_writes(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    LocalStateFolder(folder).write("synthesizer.state", b"first")
    left = folder / ".synthesizer.state.0badcafe.tmp"
    left.write_bytes(b"hal")
    others = [folder / name for name in (".notes.tmp", "a.0badcafe.tmp", ".Other.0badcafe.tmp.gz")]
    for other in others:
        other.touch()
    next_one = LocalStateFolder(folder)

    assert next_one.lock("synthesizer.lock")
    assert next_one.read("synthesizer.state") == b"first"
    assert left.exists(), "a start that may still be refused changes nothing"
    next_one.write("synthesizer.state", b"second")

    assert not left.exists()
    assert all(other.exists() for other in others)


def test_folder_and_files_are_for_their_owner_only_even_if_they_were_not(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    disk = LocalStateFolder(folder)
    disk.write("synthesizer.state", b"it")
    assert disk.lock("synthesizer.lock")
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
    assert folder.stat().st_mode & 0o777 == 0o700

    (folder / "synthesizer.state").chmod(0o644)
    folder.chmod(0o755)
    LocalStateFolder(folder).prepare()

    assert (folder / "synthesizer.state").stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("whose", ["folder", "synthesizer.state"])
def test_what_belongs_to_somebody_else_is_refused(whose: str) -> None:
    machine, folder = SimulatedMachine(Random(0)), Path("state")
    LocalStateFolder(folder, machine.process(user=1000)).write("synthesizer.state", b"it")
    machine.storage.node(folder if whose == "folder" else folder / whose).owner = 0

    for start in (LocalStateFolder.prepare, lambda disk: disk.lock("synthesizer.lock")):
        with pytest.raises(Refused, match=r"state state.*: belongs to user 0, but this process runs as user 1000"):
            start(LocalStateFolder(folder, machine.process(user=1000)))
    assert machine.files(folder) == {"synthesizer.state": b"it"}


def test_a_folder_in_which_nothing_can_be_written_is_refused_before_anything_is() -> None:
    machine, folder = SimulatedMachine(Random(0)), Path("state")
    LocalStateFolder(folder, machine.process()).write("synthesizer.state", b"it")
    machine.capacity = 100

    with pytest.raises(Refused, match="cannot use state folder state: No space left on device. Fix this and restart."):
        LocalStateFolder(folder, machine.process()).prepare()

    assert machine.files(folder) == {"synthesizer.state": b"it"}


@pytest.mark.parametrize("code", [errno.EBUSY, errno.EACCES, errno.EROFS], ids=errno.errorcode.__getitem__)
def test_a_folder_that_cannot_be_removed_as_of_a_volume_is_left_empty(tmp_path: Path, code: int) -> None:
    class Volume(Steps):
        def remove_folder(self, folder: Path) -> None:
            raise OSError(code, "as for a mount point")

    volume = Volume()
    disk = LocalStateFolder(tmp_path / "state", volume)
    assert disk.lock("synthesizer.lock")
    disk.write("synthesizer.state", b"it")

    disk.clear()

    assert list((tmp_path / "state").iterdir()) == []
    assert volume.taken[-1] == ("sync", "state")

    (tmp_path / "state" / "thesis.tex").touch()
    with pytest.raises(Refused, match="cannot remove state folder"):
        disk.clear()


def test_what_a_file_system_keeps_for_itself_at_the_top_of_a_volume_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / "lost+found").mkdir()
    disk = LocalStateFolder(tmp_path)
    disk.write("synthesizer.state", b"it")

    assert disk.check_only_own_files()
    disk.clear()

    assert [file.name for file in tmp_path.iterdir()] == ["lost+found"]
