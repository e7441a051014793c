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
from tests.stream_model.simulated_study import SimulatedStudy
from tests.studies import build_study
from tests.synthesizer.study_runs import STUDY, begin_study, run_two_periods, run_with_tallies

ROSTER = ("ann", "bob")


async def _synthesize(deployment: Deployment, log: Log) -> None:
    await synthesize(deployment, log, ProcessMonitor(deployment), catch_up=False)


async def _gather(deployment: Deployment, log: Log) -> None:
    await gather(deployment, log, ProcessMonitor(deployment))


async def _send(deployment: Deployment, log: Log) -> None:
    await deployment.require_same_ledger(log, only_reports=True)


COMMANDS = (_synthesize, _gather, _send, Deployment.require_same_ledger)


def deployment_of(simulated: SimulatedStudy, folder: Path) -> Deployment:
    roster = None
    if simulated.roster is not None:
        roster = folder / "roster.txt"
        roster.write_text("\n".join(simulated.roster))
    return Deployment(
        simulated.study, simulated.study.broker, folder, folder / "state", roster, seed=7, clock=simulated.clock
    )


async def lost(roster: Sequence[str] | None) -> SimulatedStudy:
    """After two of three periods, or, with a roster, after the study's record."""
    if roster is None:
        simulated = (await run_two_periods()).simulated
    else:
        simulated = await SimulatedStudy(build_study(), roster).begin()
        record = StudyRecord(public_values(simulated.study), simulated.fingerprint, insecure=True)
        await simulated.log.append(simulated.topics.ledger, 0, record.encode())
    await simulated.log.delete_topic(simulated.topics.control)
    return simulated


@pytest.mark.parametrize("roster", [None, ROSTER], ids=["without a roster", "with a roster"])
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.__name__)
def test_it_is_refused_before_anything_is_made(
    tmp_path: Path, command: Callable[[Deployment, Log], Awaitable[None]], roster: Sequence[str] | None
) -> None:
    async def scenario() -> None:
        simulated = await lost(roster)
        deployment, before = deployment_of(simulated, tmp_path), simulated.snapshot()
        why = f"topic {simulated.topics.control}: is gone though the study has begun; without its key and its cuts"
        with pytest.raises(Refused, match=why):
            await command(deployment, simulated.connection("role"))
        assert simulated.snapshot() == before
        assert not deployment.state.exists()

    in_virtual_time(scenario())


def test_a_study_that_is_over_and_purged_has_none_and_its_roles_end_well(tmp_path: Path) -> None:
    async def scenario() -> None:
        simulated = await begin_study()
        await run_with_tallies(simulated, simulated.synthesizer().run())
        await purge_study(restoring(simulated, tmp_path / "state"))
        deployment, before = deployment_of(simulated, tmp_path), simulated.snapshot()
        for role in (_synthesize, _gather):
            await role(deployment, simulated.connection("role"))
        assert simulated.snapshot() == before
        assert not deployment.state.exists()

    in_virtual_time(scenario())


class Denied(Faults):
    async def before(self, connection: str, call: str, topic: str | None) -> None:
        if topic == f"{STUDY.name}.control":
            raise NotAllowed("not for reporters")


def test_a_reporter_who_may_not_see_it_is_not_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        simulated = (await run_two_periods()).simulated
        await deployment_of(simulated, tmp_path).require_same_ledger(
            simulated.connection("reporter", Denied()), only_reports=True
        )

    in_virtual_time(scenario())
