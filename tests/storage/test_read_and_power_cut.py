"""What a new process has read of its predecessor's state survives a power cut, at whatever step the predecessor died."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from streamproc.storage.state_folder import LocalStateFolder
from streamproc.testing import Killed
from tests.simulated_filesystem import SimulatedMachine
from tests.simulated_filesystem.faults import CHANGES, FileFaults, Step
from tests.simulated_filesystem.filesystem import SimulatedFileSystem

FOLDER = Path("study") / "state"
SEEDS = 20
"""Of what a power cut leaves. What is not synced is lost in half of them: all keep it with probability 1e-6."""


class KilledAfter(FileFaults):
    """Ends the process after so many steps that have an effect."""

    def __init__(self, steps: int) -> None:
        self.left = steps

    def after(self, process: SimulatedFileSystem, step: Step, path: Path) -> None:
        if step in CHANGES:
            self.left -= 1
            if self.left == 0:
                process.kill()
                raise Killed


def died(seed: int, steps: int) -> tuple[SimulatedMachine, bool]:
    """A machine on which a process died in the middle of its work; False if that was done before."""
    machine, faults = SimulatedMachine(Random(seed)), KilledAfter(steps)
    with suppress(Killed):
        disk = LocalStateFolder(FOLDER, machine.process("first", faults))
        disk.lock("synthesizer.lock")
        disk.write("synthesizer.state", b"first")
        disk.write("synthesizer.state", b"second")
    return machine, faults.left <= 0


def opened(machine: SimulatedMachine) -> LocalStateFolder:
    disk = LocalStateFolder(FOLDER, machine.process())
    assert disk.lock("synthesizer.lock")
    return disk


def steps_until_done() -> int:
    return next(steps for steps in range(1, 100) if not died(0, steps)[1])


@pytest.mark.parametrize("steps", range(1, steps_until_done()))
def test_what_was_read_survives(steps: int) -> None:
    for seed in range(SEEDS):
        machine, _ = died(seed, steps)
        read = opened(machine).read("synthesizer.state")

        machine.power_cut()

        assert opened(machine).read("synthesizer.state") == read


@pytest.mark.parametrize("steps", range(1, steps_until_done()))
def test_what_the_next_process_writes_survives(steps: int) -> None:
    """In folders that its predecessor made, and may not have lived to sync."""
    for seed in range(SEEDS):
        machine, _ = died(seed, steps)
        opened(machine).write("synthesizer.state", b"third")

        machine.power_cut()

        assert opened(machine).read("synthesizer.state") == b"third"
