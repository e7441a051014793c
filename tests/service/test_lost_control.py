"""A study that has begun and has lost its control topic is not gone on with, nor is another set up in its place."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from streamproc.errors import NotAllowed, Refused
from streamproc.log.port import Log
from streamproc.protocol.ledger import StudyRecord
from streamproc.service.deployment import Deployment
from streamproc.service.monitor import ProcessMonitor
from streamproc.service.purge import purge_study
from streamproc.service.workers import gather, synthesize
from streamproc.study.fingerprint import public_values
from streamproc.testing import Faults, in_virtual_time
from tests.service.test_restore import restoring
from tests.stream_model.simulated_study import StudyWorld
from tests.studies import build_study
from tests.synthesizer.runs import STUDY, begun, fed, two_periods

ROSTER = ("ann", "bob")


async def _synthesize(deployment: Deployment, log: Log) -> None:
    await synthesize(deployment, log, ProcessMonitor(deployment), catch_up=False)


async def _gather(deployment: Deployment, log: Log) -> None:
    await gather(deployment, log, ProcessMonitor(deployment))


async def _send(deployment: Deployment, log: Log) -> None:
    await deployment.check_begun(log, only_reports=True)


COMMANDS = (_synthesize, _gather, _send, Deployment.check_begun)


def deployment_of(world: StudyWorld, folder: Path) -> Deployment:
    roster = None
    if world.roster is not None:
        roster = folder / "roster.txt"
        roster.write_text("\n".join(world.roster))
    return Deployment(world.study, world.study.broker, folder, folder / "state", roster, seed=7, clock=world.clock)


async def lost(roster: Sequence[str] | None) -> StudyWorld:
    """After two of three periods, or, with a roster, after the study's record."""
    if roster is None:
        world = (await two_periods()).world
    else:
        world = await StudyWorld(build_study(), roster).begin()
        record = StudyRecord(public_values(world.study), world.fingerprint, insecure=True)
        await world.log.append(world.topics.ledger, 0, record.encode())
    await world.log.delete_topic(world.topics.control)
    return world


@pytest.mark.parametrize("roster", [None, ROSTER], ids=["without a roster", "with a roster"])
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.__name__)
def test_it_is_refused_before_anything_is_made(
    tmp_path: Path, command: Callable[[Deployment, Log], Awaitable[None]], roster: Sequence[str] | None
) -> None:
    async def story() -> None:
        world = await lost(roster)
        deployment, before = deployment_of(world, tmp_path), world.snapshot()
        why = f"topic {world.topics.control}: is gone though the study has begun; without its key and its cuts"
        with pytest.raises(Refused, match=why):
            await command(deployment, world.connection("role"))
        assert world.snapshot() == before
        assert not deployment.state.exists()

    in_virtual_time(story())


def test_a_study_that_is_over_and_purged_has_none_and_its_roles_end_well(tmp_path: Path) -> None:
    async def story() -> None:
        world = await begun()
        await fed(world, world.synthesizer().run())
        await purge_study(restoring(world, tmp_path / "state"))
        deployment, before = deployment_of(world, tmp_path), world.snapshot()
        for role in (_synthesize, _gather):
            await role(deployment, world.connection("role"))
        assert world.snapshot() == before
        assert not deployment.state.exists()

    in_virtual_time(story())


class Denied(Faults):
    async def before(self, connection: str, call: str, topic: str | None) -> None:
        if topic == f"{STUDY.name}.control":
            raise NotAllowed("not for reporters")


def test_a_reporter_who_may_not_see_it_is_not_refused(tmp_path: Path) -> None:
    async def story() -> None:
        world = (await two_periods()).world
        await deployment_of(world, tmp_path).check_begun(world.connection("reporter", Denied()), only_reports=True)

    in_virtual_time(story())
