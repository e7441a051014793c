"""What every file system must do: the operating system's, and the simulated one that stands for it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from streamproc.storage.filesystem import FileStatus, FileSystem, LocalFileSystem
from tests.simulated_filesystem import SimulatedMachine

Begin = Callable[[], FileSystem]
"""A new process on the same machine."""


@pytest.fixture(params=["local", "simulated"])
def begin(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Begin:
    monkeypatch.chdir(tmp_path)
    if request.param == "local":
        return LocalFileSystem
    machine = SimulatedMachine(Random(0))
    return machine.process


@pytest.fixture
def files(begin: Begin) -> FileSystem:
    return begin()


FOLDER = Path("folder")


def put(files: FileSystem, path: Path, content: bytes) -> None:
    temporary, file = files.create_temporary(path, 0o600)
    with file:
        file.write(content)
        files.sync_file(file)
        files.rename(temporary, path)
    files.sync_folder(path.parent)


def test_a_file_takes_anothers_place(files: FileSystem) -> None:
    files.make_folder(FOLDER, 0o700)
    for content in (b"one", b"", b"three"):
        put(files, FOLDER / "a", content)
        assert files.read(FOLDER / "a") == content
    assert files.names(FOLDER) == ["a"]


def test_our_own_folders_may_be_changed(files: FileSystem) -> None:
    files.make_folder(FOLDER, 0o700)

    assert files.may_change(FOLDER)


def test_a_folder_that_the_system_lets_nobody_write_to_may_not_be_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def access(path: Path, mode: int, **how: bool) -> bool:
        asked.append(mode)
        return False

    monkeypatch.setattr(os, "access", access)

    assert not LocalFileSystem().may_change(FOLDER)
    assert asked == [os.W_OK | os.X_OK]


def test_what_is_written_in_parts_is_there_in_their_order(files: FileSystem) -> None:
    temporary, file = files.create_temporary(Path("a"), 0o600)
    with file:
        file.write(b"one ")
        file.write(b"two")
        files.sync_file(file)
        assert files.read(temporary) == b"one two"


def test_temporary_files_are_hidden_beside_the_file_and_never_the_same(files: FileSystem) -> None:
    made = [files.create_temporary(Path("a.state"), 0o600) for _ in range(3)]
    for path, file in made:
        file.close()
        assert path.parent == Path()
        assert len(path.name) == len(".a.state.01234567.tmp")
        assert path.name.startswith(".a.state.") and path.name.endswith(".tmp")
    assert len({path for path, _ in made}) == 3


def test_a_file_says_whose_it_is_and_who_may_use_it(files: FileSystem) -> None:
    files.make_folder(FOLDER, 0o700)
    put(files, FOLDER / "a", b"")
    assert files.status(FOLDER) == FileStatus(files.user, 0o700, is_folder=True)
    assert files.status(FOLDER / "a") == FileStatus(files.user, 0o600, is_folder=False)
    files.set_mode(FOLDER / "a", 0o640)
    assert files.status(FOLDER / "a").mode == 0o640


def test_a_folder_that_is_there_is_left_as_it_is(files: FileSystem) -> None:
    files.make_folder(FOLDER, 0o700)
    put(files, FOLDER / "a", b"it")
    files.make_folder(FOLDER, 0o755)
    assert files.status(FOLDER).mode == 0o700
    assert files.read(FOLDER / "a") == b"it"


def test_what_is_missing_is_not_found_and_is_removed_already(files: FileSystem) -> None:
    for ask in (files.read, files.status, files.names, files.sync_folder, files.remove_folder):
        with pytest.raises(FileNotFoundError):
            ask(Path("missing"))
    with pytest.raises(FileNotFoundError):
        files.create_temporary(Path("missing/a"), 0o600)
    with pytest.raises(FileNotFoundError):
        files.rename(Path("missing"), Path("a"))
    files.remove(Path("missing"))
    files.sweep(Path(".missing.00000000.tmp"))


def test_a_folder_is_removed_only_when_it_is_empty(files: FileSystem) -> None:
    files.make_folder(FOLDER, 0o700)
    put(files, FOLDER / "a", b"")
    with pytest.raises(OSError, match="Directory not empty"):
        files.remove_folder(FOLDER)
    files.remove(FOLDER / "a")
    files.remove_folder(FOLDER)
    assert files.names(Path()) == []


def test_a_file_is_no_folder(files: FileSystem) -> None:
    put(files, Path("a"), b"")
    with pytest.raises(NotADirectoryError):
        files.names(Path("a"))
    with pytest.raises(NotADirectoryError):
        files.read(Path("a/b"))


def test_what_is_being_written_is_not_swept_and_what_was_given_up_is(begin: Begin) -> None:
    writer, sweeper = begin(), begin()
    temporary, file = writer.create_temporary(Path("a"), 0o600)
    sweeper.sweep(temporary)
    assert sweeper.names(Path()) == [temporary.name]

    file.close()
    sweeper.sweep(temporary)
    assert sweeper.names(Path()) == []


def test_a_lock_excludes_everybody_until_it_is_released(begin: Begin) -> None:
    one, other = begin(), begin()
    lock = one.lock(Path("a.lock"))
    assert lock is not None
    assert one.lock(Path("a.lock")) is None
    assert other.lock(Path("a.lock")) is None
    lock.release()
    lock.release()
    assert other.lock(Path("a.lock")) is not None
    assert other.names(Path()) == ["a.lock"]


def test_a_shared_lock_excludes_only_those_who_do_not_share_it(begin: Begin) -> None:
    one, other = begin(), begin()
    locks = [files.lock(Path("a.lock"), shared=True) for files in (one, one, other)]
    for lock in locks:
        assert lock is not None
        assert one.lock(Path("a.lock")) is None
        lock.release()
        lock.release()
    alone = other.lock(Path("a.lock"))
    assert alone is not None
    assert one.lock(Path("a.lock"), shared=True) is None
