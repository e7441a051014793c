"""A restore that fails half-way can be tried again, and what it restores goes on where the ledger ends."""

from __future__ import annotations

import errno
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import pytest

from streamproc.actor.stored import SETTLED_FILE, STATE_FILE
from streamproc.errors import Refused
from streamproc.ports.disk import FolderDisk
from streamproc.ports.file_system import LocalFileSystem
from streamproc.ports.log import Log
from streamproc.service.deployment import Deployment
from streamproc.service.restoring import restore_state
from tests.actor.runs import STUDY, two_periods
from tests.world.study_world import StudyWorld
from tests.world.virtual_time import in_virtual_time


class FullFor(LocalFileSystem):
    """A disk on which there is no room for one file."""

    def __init__(self, file: str | None) -> None:
        self._file = file

    def create_temporary(self, path: Path, mode: int) -> tuple[Path, BinaryIO]:
        if path.name == self._file:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().create_temporary(path, mode)


@dataclass(frozen=True)
class Restoring(Deployment):
    """The study as whoever restores it has it, in a world."""

    world: StudyWorld = field(kw_only=True)
    full_for: str | None = None

    def connect(self) -> Log:
        return self.world.connection("restore")

    def disk(self) -> FolderDisk:
        return FolderDisk(self.state, FullFor(self.full_for))


@pytest.mark.parametrize("file", [STATE_FILE, SETTLED_FILE])
def test_a_restore_that_runs_out_of_room_can_be_tried_again(tmp_path: Path, file: str) -> None:
    async def story() -> None:
        world = (await two_periods()).world

        def restoring(full_for: str | None) -> Restoring:
            return Restoring(STUDY, STUDY.broker, tmp_path, tmp_path / "state", None, world=world, full_for=full_for)

        with pytest.raises(Refused, match=f"{file}: cannot be written: No space left"):
            await restore_state(restoring(file), accept_cost=False)
        with pytest.raises(Refused, match="the state folder holds nothing"):
            await world.synthesizer(disk=FolderDisk(tmp_path / "state")).run()

        assert await restore_state(restoring(None), accept_cost=False) == 2
        with pytest.raises(Refused, match="holds a state already"):
            await restore_state(restoring(None), accept_cost=False)
        await world.synthesizer(disk=FolderDisk(tmp_path / "state")).run()
        assert world.ledger().period == 3
        assert all(len(versions) == 1 for versions in world.visible_draws().values())

    in_virtual_time(story())


def test_a_restore_that_is_refused_makes_no_folder(tmp_path: Path) -> None:
    async def story() -> None:
        world = (await two_periods()).world
        await world.log.delete_topic(world.topics.tallies)
        state = tmp_path / "state"
        with pytest.raises(Refused, match="is gone, so the state cannot be rebuilt"):
            await restore_state(Restoring(STUDY, STUDY.broker, tmp_path, state, None, world=world), accept_cost=False)
        assert not state.exists()

    in_virtual_time(story())
