"""The simulated machine: what survives which end, and that the same seed decides the same."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from streamproc.errors import Refused
from streamproc.storage.state_folder import LocalStateFolder
from streamproc.testing import Killed
from tests.simulated_filesystem import FileFaults, SimulatedFileSystem, SimulatedMachine
from tests.simulated_filesystem.faults import Step

STATE = Path("state")
OLD, NEW = b"old " * 1000, b"new!" * 1500


class At(FileFaults):
    """Does something at one moment of one step."""

    def __init__(self, when: str, step: Step, do: Callable[[SimulatedFileSystem], None], name: str = "") -> None:
        self._moment, self._do, self._name = (when, step), do, name

    def before(self, process: SimulatedFileSystem, step: Step, path: Path) -> None:
        self._reach("before", process, step, path)

    def inside(self, process: SimulatedFileSystem, step: Step, path: Path) -> None:
        self._reach("inside", process, step, path)

    def after(self, process: SimulatedFileSystem, step: Step, path: Path) -> None:
        self._reach("after", process, step, path)

    def _reach(self, when: str, process: SimulatedFileSystem, step: Step, path: Path) -> None:
        if (when, step) == self._moment and self._name in path.name:
            self._do(process)


def machine_with(content: bytes, seed: int = 0) -> SimulatedMachine:
    machine = SimulatedMachine(Random(seed))
    LocalStateFolder(STATE, machine.process()).write("a", content)
    return machine


def put(process: SimulatedFileSystem, content: bytes, *, sync_file: bool = True, sync_folder: bool = True) -> None:
    """What `FolderDisk.write` does, or not quite."""
    temporary, file = process.create_temporary(STATE / "a", 0o600)
    file.write(content)
    if sync_file:
        process.sync_file(file)
    process.rename(temporary, STATE / "a")
    if sync_folder:
        process.sync_folder(STATE)


def after_power_cuts(seeds: int, write: Callable[[SimulatedFileSystem], None]) -> set[bytes | None]:
    """All that a file is found to hold after writes and power cuts."""
    found = set()
    for seed in range(seeds):
        machine = machine_with(OLD, seed)
        write(machine.process())
        machine.power_cut()
        found.add(machine.files(STATE).get("a"))
    return found


def test_what_was_written_with_every_sync_survives_power_cuts() -> None:
    assert after_power_cuts(50, lambda process: put(process, NEW)) == {NEW}


def test_a_name_that_was_not_synced_is_the_old_file_or_the_new_one() -> None:
    assert after_power_cuts(50, lambda process: put(process, NEW, sync_folder=False)) == {OLD, NEW}


def test_content_that_was_not_synced_is_lost_torn_or_there() -> None:
    found = after_power_cuts(200, lambda process: put(process, NEW, sync_file=False))

    assert {b"", NEW} <= found
    assert any(content and content != NEW and NEW.startswith(content) for content in found)
    assert any(content and len(content) == len(NEW) and bytes(512) in content and b"new!" in content for content in found)


def test_of_two_names_that_were_not_synced_either_may_be_lost_without_the_other() -> None:
    found = set()
    for seed in range(50):
        machine = machine_with(OLD, seed)
        process = machine.process()
        for name in ("b", "c"):
            temporary, file = process.create_temporary(STATE / name, 0o600)
            process.sync_file(file)
            process.rename(temporary, STATE / name)
        machine.power_cut()
        found.add(tuple(name for name in machine.files(STATE) if not name.startswith(".")))

    assert found == {("a",), ("a", "b"), ("a", "c"), ("a", "b", "c")}


def test_a_folder_that_its_parent_does_not_know_for_certain_may_be_gone_with_all_that_is_in_it() -> None:
    found = set()
    for seed in range(20):
        machine = SimulatedMachine(Random(seed))
        process = machine.process()
        process.make_folder(STATE, 0o700)
        put(process, NEW)
        machine.power_cut()
        found.add(machine.files(STATE).get("a"))

    assert found == {NEW, None}


def test_a_disk_that_ignores_syncs_loses_what_it_acknowledged() -> None:
    def write(process: SimulatedFileSystem) -> None:
        process.machine.ignores_sync = True
        put(process, NEW)

    assert {OLD, NEW, b""} <= after_power_cuts(200, write)


def test_a_killed_process_leaves_what_it_wrote_and_its_locks_free() -> None:
    machine = machine_with(OLD)
    crashing = machine.process("crashing", At("inside", "write", SimulatedFileSystem.kill, ".a."))
    disk = LocalStateFolder(STATE, crashing)
    assert disk.lock("a.lock")

    with pytest.raises(Killed):
        disk.write("a", NEW)
    with pytest.raises(Killed):
        crashing.remove(STATE / "a")

    files = machine.files(STATE)
    assert files["a"] == OLD
    (left,) = [name for name in files if name.endswith(".tmp")]
    assert NEW.startswith(files[left])
    after = LocalStateFolder(STATE, machine.process())
    assert after.lock("a.lock")
    assert left in machine.files(STATE), "a start alone changes nothing"
    after.write("b", b"it")
    assert set(machine.files(STATE)) == {"a", "b", "a.lock"}


def test_a_lock_is_held_against_everybody_until_it_is_released() -> None:
    machine = machine_with(OLD)
    one, other = machine.process(), machine.process()
    lock = one.lock(STATE / "a.lock")

    assert lock is not None
    assert one.lock(STATE / "a.lock") is None
    assert other.lock(STATE / "a.lock") is None
    lock.release()
    assert other.lock(STATE / "a.lock") is not None
    lock.release()
    assert one.lock(STATE / "a.lock") is None, "releasing twice takes no lock from anybody"


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", ["create", "write", "sync_file", "rename", "sync_folder"])
def test_a_step_that_fails_is_a_refusal_and_leaves_no_temporary_file(when: str, step: Step) -> None:
    def fail(process: SimulatedFileSystem) -> None:
        raise OSError(errno.EIO, "Input/output error")

    machine = machine_with(OLD)
    with pytest.raises(Refused, match=r"cannot write state file .*: Input/output error. Fix this and restart."):
        LocalStateFolder(STATE, machine.process("", At(when, step, fail))).write("a", NEW)

    assert machine.files(STATE).keys() - {"a"} == ({".a.00000002.tmp"} if (when, step) == ("after", "create") else set())
    assert machine.files(STATE)["a"] == (NEW if step == "sync_folder" or (when, step) == ("after", "rename") else OLD)


def test_a_full_disk_takes_what_fits_and_refuses() -> None:
    machine = machine_with(OLD)
    machine.capacity = len(OLD) + 100
    process = machine.process()
    temporary, file = process.create_temporary(STATE / "a", 0o600)

    with pytest.raises(OSError, match="No space left on device"):
        file.write(NEW)

    assert machine.files(STATE)[temporary.name] == NEW[:100]
    process.remove(temporary)
    with pytest.raises(Refused, match="No space left on device"):
        LocalStateFolder(STATE, process).write("a", NEW)
    assert machine.files(STATE) == {"a": OLD}


def test_a_read_only_disk_changes_nothing() -> None:
    machine = machine_with(OLD)
    machine.read_only = True
    disk = LocalStateFolder(STATE, machine.process())

    assert disk.read("a") == OLD
    for change in (disk.prepare, disk.clear, lambda: disk.write("a", NEW), lambda: disk.lock("a.lock")):
        with pytest.raises(Refused, match="Read-only file system"):
            change()
    assert machine.files(STATE) == {"a": OLD}


def test_a_file_that_cannot_be_read_is_refused_and_a_flipped_bit_is_read() -> None:
    machine = machine_with(OLD)
    machine.flip_bit(STATE / "a")
    content = LocalStateFolder(STATE, machine.process()).read("a")
    assert content is not None
    assert sum((one ^ other).bit_count() for one, other in zip(content, OLD, strict=True)) == 1

    machine.unreadable.add(STATE / "a")
    with pytest.raises(Refused, match="cannot read state file state/a: Input/output error"):
        LocalStateFolder(STATE, machine.process()).read("a")


def test_an_image_is_a_copy_with_all_that_is_uncertain_in_it() -> None:
    machine = machine_with(OLD, seed=1)
    put(machine.process(), NEW, sync_folder=False)
    image = machine.image()
    LocalStateFolder(STATE, machine.process()).write("a", b"later")

    assert machine.files(STATE) == {"a": b"later"}
    found = set()
    for seed in range(20):
        clone = SimulatedMachine(Random(seed))
        clone.put_back(image)
        assert clone.files(STATE)["a"] == NEW
        clone.power_cut()
        found.add(clone.files(STATE)["a"])
    assert found == {OLD, NEW}
    machine.put_back(image)
    assert machine.files(STATE)["a"] == NEW


def test_one_seed_decides_everything() -> None:
    def scenario(seed: int) -> list[tuple[str, bytes]]:
        machine = machine_with(OLD, seed)
        for number in range(20):
            put(machine.process(), NEW * number, sync_file=number < 10, sync_folder=number < 5)
        machine.power_cut()
        return sorted(machine.files(STATE).items())

    assert scenario(3) == scenario(3)
    assert len({str(scenario(seed)) for seed in range(20)}) > 10
