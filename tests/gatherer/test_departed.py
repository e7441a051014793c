"""People who have left are remembered in 17 bytes each, and their hashes are written once."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from random import Random
from typing import ClassVar

import numpy as np
import pytest

import streamproc.gatherer.departed as departed_module
from streamproc.errors import StateFileUnusable
from streamproc.gatherer.departed import SEGMENT_HASHES, Departed, stored_digests
from streamproc.gatherer.hash_index import Hashes, HashIndex
from streamproc.gatherer.segment_files import read_segments, segment_name, write_segments
from streamproc.protocol.state_file import pack_arrays, unpack_arrays
from streamproc.releases.open_presence import ABSENT, TENURE_OVER
from streamproc.storage.state_folder import LocalStateFolder
from streamproc.testing import Killed
from tests.gatherer.test_hash_index import random_hashes
from tests.simulated_filesystem import FileFaults, SimulatedFileSystem, SimulatedMachine
from tests.simulated_filesystem.faults import CHANGES, Step
from tests.stream_model.memory_folder import MemoryStateFolder

MARK = bytes(32)
CHECKPOINT = "gather-0.state"


def leave(departed: Departed, period: int, count: int = 3) -> Hashes:
    """Let as many people leave for each reason."""
    hashes = random_hashes(2 * count, seed=period)
    departed.add(hashes.where(np.arange(count)), TENURE_OVER)
    departed.add(hashes.where(np.arange(count, 2 * count)), ABSENT)
    return hashes


def restored(folder: MemoryStateFolder | LocalStateFolder) -> Departed:
    content = folder.read(CHECKPOINT)
    if content is None:
        return Departed()
    state = unpack_arrays(content)
    return Departed.restored(state, read_segments(folder, 0, MARK, stored_digests(state)))


def checkpoint(folder: MemoryStateFolder | LocalStateFolder, departed: Departed) -> None:
    write_segments(folder, 0, MARK, departed)
    folder.write(CHECKPOINT, pack_arrays(departed.arrays()))


def test_a_person_who_has_left_takes_17_bytes() -> None:
    departed = Departed()
    for period in range(20):
        leave(departed, period, count=50_000)
        departed.note_stored([bytes(32)] * sum(1 for _ in departed.new_segments()))
    people = 2_000_000
    assert len(departed) == people
    assert departed.nbytes <= 17 * people + 17 * SEGMENT_HASHES


def test_a_merge_takes_at_most_18_bytes_more_for_each_hash() -> None:
    tracemalloc.start()
    try:
        index, part = HashIndex(np.uint8), np.zeros(1_000_000, dtype=np.uint8)
        index.add(random_hashes(1_000_000), part)
        more = random_hashes(999_999, seed=1)
        index.add(more, part[:-1])
        size, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(index._runs) == 1
    # Besides the index there are the hashes that are added, and a copy of them in order.
    assert peak - size <= 18 * 2_000_000 + 17 * 1_000_000


def test_reasons_are_remembered_and_nobody_else_is_found() -> None:
    departed = Departed()
    hashes = leave(departed, 0)
    assert departed.find(hashes).tolist() == [TENURE_OVER] * 3 + [ABSENT] * 3
    assert departed.find(random_hashes(5, seed=99)).tolist() == [-1] * 5


def test_a_segment_is_written_once_and_the_checkpoint_stays_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(departed_module, "SEGMENT_HASHES", 10)

    class Noted(MemoryStateFolder):
        written: ClassVar[list[str]] = []

        def write(self, name: str, content: bytes) -> None:
            self.written.append(name)
            super().write(name, content)

    folder, departed = Noted(), Departed()
    everybody = []
    for period in range(25):
        everybody.append(leave(departed, period))
        checkpoint(folder, departed)
        departed = restored(folder)
        assert len(folder.files[CHECKPOINT]) < 1_000
    segments = [name for name in folder.written if name != CHECKPOINT]
    assert segments == [segment_name(0, number) for number in range(1, 16)]
    assert all((departed.find(hashes) > 0).all() for hashes in everybody)
    assert len(departed) == 150


def test_segments_do_not_depend_on_the_checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(departed_module, "SEGMENT_HASHES", 4)
    often, once = MemoryStateFolder(), MemoryStateFolder()
    departed, at_the_end = Departed(), Departed()
    for period in range(9):
        leave(departed, period)
        leave(at_the_end, period)
        checkpoint(often, departed)
        departed = restored(often)
    checkpoint(once, at_the_end)
    assert often.files == once.files


def test_a_missing_or_changed_segment_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(departed_module, "SEGMENT_HASHES", 4)
    folder, departed = MemoryStateFolder(), Departed()
    leave(departed, 0)
    leave(departed, 1)
    checkpoint(folder, departed)
    name = segment_name(0, 2)
    content = folder.files.pop(name)
    with pytest.raises(StateFileUnusable, match=f"{name}: missing; delete gather-0.state, and the gatherer replays the log"):
        restored(folder)
    folder.files[name] = folder.files[segment_name(0, 1)]
    with pytest.raises(StateFileUnusable, match="not the file that the checkpoint names"):
        restored(folder)
    folder.files[name] = content
    assert len(restored(folder)) == 12


FOLDER = Path("/state")


class KillAt(FileFaults):
    """Ends the machine's power at one change of the disk."""

    def __init__(self, fatal: int, *, after: bool) -> None:
        self.fatal, self.after_effect, self.passed = fatal, after, 0

    def before(self, process: SimulatedFileSystem, step: Step, path: Path) -> None:
        if step in CHANGES and not self.after_effect:
            self._strike(process)

    def after(self, process: SimulatedFileSystem, step: Step, path: Path) -> None:
        if step in CHANGES and self.after_effect:
            self._strike(process)

    def _strike(self, process: SimulatedFileSystem) -> None:
        self.passed += 1
        if self.passed - 1 == self.fatal:
            process.machine.power_cut()


def run_periods(folder: LocalStateFolder, periods: int) -> None:
    """Resume from the folder, and let people leave until `periods`; the number left is that of the period."""
    departed = restored(folder)
    for period in range(len(departed) // 6, periods):
        leave(departed, period)
        checkpoint(folder, departed)


@pytest.mark.parametrize("after", [False, True])
def test_after_a_power_cut_at_any_change_the_same_files_are_written(after: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(departed_module, "SEGMENT_HASHES", 5)
    whole = SimulatedMachine(Random(0))
    run_periods(LocalStateFolder(FOLDER, whole.process()), 4)
    expected = whole.files(FOLDER)
    assert len(expected) == 5
    fatal = 0
    while True:
        machine = SimulatedMachine(Random(fatal))
        faults = KillAt(fatal, after=after)
        try:
            run_periods(LocalStateFolder(FOLDER, machine.process(faults=faults)), 4)
        except Killed:
            fatal += 1
        else:
            break
        run_periods(LocalStateFolder(FOLDER, machine.process()), 4)
        assert {name: content for name, content in machine.files(FOLDER).items() if name.endswith("state")} == expected
    assert fatal > 40


def test_a_purge_removes_segments_and_leaves_other_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(departed_module, "SEGMENT_HASHES", 2)
    folder, departed = LocalStateFolder(tmp_path / "state"), Departed()
    leave(departed, 0)
    checkpoint(folder, departed)
    assert sorted(path.name for path in (tmp_path / "state").iterdir()) == [
        *(f"departed-0-00000{number}.state" for number in (1, 2, 3)),
        CHECKPOINT,
    ]
    assert folder.check_only_own_files()
    folder.clear()
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize(
    "name", ["departed-0-1.state", "departed-000001.state.bak", "departed-a-000001.state", "x-0-000001.state"]
)
def test_files_of_other_names_are_not_ours(name: str, tmp_path: Path) -> None:
    (tmp_path / name).touch()
    assert not LocalStateFolder(tmp_path).holds_state()
