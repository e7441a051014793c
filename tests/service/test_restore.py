"""A restore that fails half-way can be tried again, and what it restores goes on where the ledger ends."""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO

import pytest

from streamproc.errors import Refused
from streamproc.log.port import Log
from streamproc.service.deployment import Deployment
from streamproc.service.purge import purge_study
from streamproc.service.restore import restore_state
from streamproc.storage.filesystem import LocalFileSystem
from streamproc.storage.state_folder import LocalStateFolder
from streamproc.synthesizer.checkpoint import PUBLISHED_MARK_FILE, STATE_FILE
from streamproc.testing import Faults, in_virtual_time
from tests.stream_model.simulated_study import SimulatedStudy
from tests.synthesizer.study_runs import STUDY, begin_study, run_two_periods, run_with_tallies


class FullFor(LocalFileSystem):
    """A disk on which there is no room for one file."""

    def __init__(self, file: str | None) -> None:
        self._file = file

    def create_temporary(self, path: Path, mode: int) -> tuple[Path, BinaryIO]:
        if path.name == self._file:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().create_temporary(path, mode)


@dataclass
class Meanwhile(Faults):
    """Something happens when the tallies are about to be read."""

    simulated: SimulatedStudy
    happens: Callable[[], Awaitable[object]] | None

    async def before(self, connection: str, call: str, topic: str | None) -> None:
        happens = self.happens if (call, topic) == ("last_stable_offset", self.simulated.topics.tallies) else None
        if happens is not None:
            self.happens = None
            await happens()


@dataclass(frozen=True)
class Restoring(Deployment):
    """A deployment of a simulated study, as `restore` uses it."""

    simulated: SimulatedStudy = field(kw_only=True)
    full_for: str | None = None
    meanwhile: Callable[[], Awaitable[object]] | None = None
    """Happens while the topics are read."""
    before_lock: Callable[[], object] | None = None

    def connect(self) -> Log:
        return self.simulated.connection("restore", Meanwhile(self.simulated, self.meanwhile))

    def state_folder(self) -> LocalStateFolder:
        return LocalStateFolder(self.state, FullFor(self.full_for))

    @contextmanager
    def locked_state_folder(self) -> Iterator[LocalStateFolder]:
        if self.before_lock is not None:
            self.before_lock()
        with super().locked_state_folder() as state_folder:
            yield state_folder


def restoring(simulated: SimulatedStudy, state: Path) -> Restoring:
    return Restoring(STUDY, STUDY.broker, state.parent, state, None, simulated=simulated)


@pytest.mark.parametrize("file", [STATE_FILE, PUBLISHED_MARK_FILE])
def test_a_restore_that_runs_out_of_room_can_be_tried_again(tmp_path: Path, file: str) -> None:
    async def scenario() -> None:
        simulated = (await run_two_periods()).simulated

        roomy = restoring(simulated, tmp_path / "state")
        with pytest.raises(Refused, match=f"cannot write state file .*{file}: No space left"):
            await restore_state(replace(roomy, full_for=file), accept_cost=False)
        with pytest.raises(Refused, match="the state folder holds nothing"):
            await simulated.synthesizer(state_folder=LocalStateFolder(tmp_path / "state")).run()

        assert await restore_state(roomy, accept_cost=False) == 2
        with pytest.raises(Refused, match="holds a state already"):
            await restore_state(roomy, accept_cost=False)
        await simulated.synthesizer(state_folder=LocalStateFolder(tmp_path / "state")).run()
        assert simulated.ledger().period == 3
        assert all(len(versions) == 1 for versions in simulated.visible_draws().values())

    in_virtual_time(scenario())


def test_a_restore_that_is_refused_makes_no_folder(tmp_path: Path) -> None:
    async def scenario() -> None:
        simulated = (await run_two_periods()).simulated
        await simulated.log.delete_topic(simulated.topics.tallies)
        state = tmp_path / "state"
        with pytest.raises(Refused, match="is gone, so the state cannot be rebuilt"):
            await restore_state(restoring(simulated, state), accept_cost=False)
        assert not state.exists()

    in_virtual_time(scenario())


def test_nobody_purges_a_study_while_its_tallies_are_read_back_into_a_state(tmp_path: Path) -> None:
    """It would end well, and then a state would be written with what it deleted."""
    refused: list[str] = []

    async def scenario() -> None:
        simulated = await begin_study()
        await run_with_tallies(simulated, simulated.synthesizer().run())
        deployment = restoring(simulated, tmp_path / "state")

        async def purge() -> None:
            with pytest.raises(Refused) as why:
                await purge_study(deployment)
            refused.append(str(why.value))

        assert await restore_state(replace(deployment, meanwhile=purge), accept_cost=False) == STUDY.horizon
        assert deployment.state_folder().read(STATE_FILE) is not None
        await purge_study(deployment)
        assert not deployment.state.exists()

    in_virtual_time(scenario())
    assert refused == [f"state folder {tmp_path / 'state'}: another synthesizer is using it"]


def test_what_was_purged_before_the_folder_was_locked_is_not_restored(tmp_path: Path) -> None:
    async def scenario() -> None:
        simulated = await begin_study()
        await run_with_tallies(simulated, simulated.synthesizer().run())
        deployment = restoring(simulated, tmp_path / "state")

        def delete() -> None:
            del simulated.broker.topics[simulated.topics.tallies]

        with pytest.raises(Refused, match="is gone, so the state cannot be rebuilt"):
            await restore_state(replace(deployment, before_lock=delete), accept_cost=False)
        assert deployment.state_folder().read(STATE_FILE) is None

    in_virtual_time(scenario())


def test_a_state_that_came_before_the_folder_was_locked_is_not_overwritten(tmp_path: Path) -> None:
    async def scenario() -> None:
        deployment = restoring((await run_two_periods()).simulated, tmp_path / "state")

        def write() -> None:
            deployment.state_folder().write(STATE_FILE, b"another's, and further on")

        with pytest.raises(Refused, match="holds a state already"):
            await restore_state(replace(deployment, before_lock=write), accept_cost=False)
        assert deployment.state_folder().read(STATE_FILE) == b"another's, and further on"

    in_virtual_time(scenario())


def test_a_state_holds_nothing_of_a_period_released_after_the_ledger_was_read(tmp_path: Path) -> None:
    async def scenario() -> None:
        simulated = (await run_two_periods()).simulated
        quiet, late = restoring(simulated, tmp_path / "quiet"), restoring(simulated, tmp_path / "late")
        await restore_state(quiet, accept_cost=False)
        released = simulated.synthesizer().run

        assert await restore_state(replace(late, meanwhile=released), accept_cost=False) == 2

        assert simulated.ledger().period == 3
        assert late.state_folder().read(STATE_FILE) == quiet.state_folder().read(STATE_FILE)

    in_virtual_time(scenario())
