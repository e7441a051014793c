"""`gather` and `synthesize` create no topic: before `init` they end with 2, and with 3 if a study has lost a topic."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from streamproc.errors import InvalidInput, NotAllowed, Refused
from streamproc.log.control_topic import append_key
from streamproc.log.port import Log
from streamproc.log.topic_setup import wanted_settings
from streamproc.service.deployment import Deployment
from streamproc.service.monitor import ProcessMonitor
from streamproc.service.workers import gather, synthesize
from streamproc.testing import Faults, in_virtual_time
from tests.service.test_gather import deployment_in
from tests.stream_model.simulated_study import SimulatedStudy
from tests.synthesizer.study_runs import STUDY, run_two_periods, run_with_tallies

Command = Callable[[Deployment, Log], Awaitable[None]]


async def _synthesize(deployment: Deployment, log: Log) -> None:
    await synthesize(deployment, log, ProcessMonitor(deployment), catch_up=False)


async def _gather(deployment: Deployment, log: Log) -> None:
    await gather(deployment, log, ProcessMonitor(deployment))


async def _run(deployment: Deployment, log: Log) -> None:
    await synthesize(deployment, log, ProcessMonitor(deployment), catch_up=False, create=True)


both_roles = pytest.mark.parametrize("role", [_synthesize, _gather], ids=["synthesize", "gather"])


@both_roles
def test_before_init_a_role_names_the_missing_topics_and_makes_nothing(tmp_path: Path, role: Command) -> None:
    async def scenario() -> None:
        simulated = SimulatedStudy(STUDY)
        deployment, before = deployment_in(tmp_path, simulated.clock), simulated.snapshot()
        with pytest.raises(InvalidInput) as refused:
            await role(deployment, simulated.connection("role"))
        assert refused.value.exit_code == 2
        said = str(refused.value)
        assert said.startswith(f"study {STUDY.name}: there is no topic ")
        assert simulated.topics.control in said and simulated.topics.tallies in said
        assert said.endswith("; check the study's name and the broker, or create the topics with `streamproc init`")
        assert simulated.snapshot() == before
        assert not deployment.state.exists()

    in_virtual_time(scenario())


@both_roles
def test_a_role_names_only_topics_that_it_uses(tmp_path: Path, role: Command) -> None:
    async def scenario() -> None:
        simulated = SimulatedStudy(STUDY)
        with pytest.raises(InvalidInput) as refused:
            await role(deployment_in(tmp_path, simulated.clock), simulated.connection("role"))
        assert (simulated.topics.reports in str(refused.value)) == (role is _gather)
        assert (simulated.topics.synthetic(STUDY.releases[0].name) in str(refused.value)) == (role is _synthesize)

    in_virtual_time(scenario())


@both_roles
def test_an_init_that_did_not_finish_is_to_be_run_again(tmp_path: Path, role: Command) -> None:
    async def scenario() -> None:
        simulated = SimulatedStudy(STUDY)
        for topic, settings in wanted_settings(STUDY, brokers=1).items():
            await simulated.log.create_topic(topic, settings)
        deployment = deployment_in(tmp_path, simulated.clock)
        with pytest.raises(InvalidInput, match=f"topic {simulated.topics.control}: holds no key, .*; run it again"):
            await role(deployment, simulated.connection("role"))
        await append_key(simulated.log, STUDY)
        await run_with_tallies(
            simulated,
            synthesize(deployment, simulated.connection("synthesizer"), ProcessMonitor(deployment), catch_up=False),
        )

    in_virtual_time(scenario())


@pytest.mark.parametrize("lost", ["reports", "tallies", "rejects"])
def test_a_gatherer_refuses_a_study_that_has_begun_and_lost_a_topic(tmp_path: Path, lost: str) -> None:
    async def scenario() -> None:
        simulated = (await run_two_periods()).simulated
        topic = getattr(simulated.topics, lost)
        await simulated.log.delete_topic(topic)
        deployment, before = deployment_in(tmp_path, simulated.clock), simulated.snapshot()
        with pytest.raises(Refused, match=f"topic {topic}: is gone though the study has begun; restore it"):
            await _gather(deployment, simulated.connection("role"))
        assert simulated.snapshot() == before
        assert not deployment.state.exists()

    in_virtual_time(scenario())


@pytest.mark.parametrize("role", [_synthesize, _gather, _run], ids=["synthesize", "gather", "run"])
def test_a_state_folder_tells_that_the_study_has_begun_somewhere_else(tmp_path: Path, role: Command) -> None:
    async def scenario() -> None:
        simulated = SimulatedStudy(STUDY)
        deployment = deployment_in(tmp_path, simulated.clock)
        deployment.state_folder().write("synthesizer.state", b"of the lost study")
        with pytest.raises(Refused, match="or use the broker on which the study began"):
            await role(deployment, simulated.connection("role"))
        assert not await simulated.log.topics()

    in_virtual_time(scenario())


@dataclass
class Denied(Faults):
    """What Kafka says to a user without rights, whether the topic exists or not."""

    topic: str
    asked: list[str] = field(default_factory=list)

    async def before(self, connection: str, call: str, topic: str | None) -> None:
        if topic == self.topic:
            self.asked.append(call)
            raise NotAllowed(f"topic {topic}: the broker does not allow it")


def test_a_topic_that_may_not_be_seen_is_denied_and_not_called_missing(tmp_path: Path) -> None:
    async def scenario() -> None:
        simulated = SimulatedStudy(STUDY)
        denied = Denied(simulated.topics.tallies)
        with pytest.raises(
            NotAllowed,
            match=f"^topic {simulated.topics.tallies}: does not exist, or this user may not see it; `streamproc init`",
        ) as refused:
            await _gather(deployment_in(tmp_path, simulated.clock), simulated.connection("role", denied))
        assert refused.value.exit_code == 5
        assert denied.asked == ["start_offset"]

    in_virtual_time(scenario())


def test_the_synthesizer_of_run_creates_the_topics(tmp_path: Path) -> None:
    async def scenario() -> None:
        simulated = SimulatedStudy(STUDY)
        deployment = deployment_in(tmp_path, simulated.clock)
        work = synthesize(deployment, simulated.connection("run"), ProcessMonitor(deployment), catch_up=False, create=True)
        await run_with_tallies(simulated, work)
        assert set(await simulated.log.topics()) == set(wanted_settings(STUDY, brokers=1))

    in_virtual_time(scenario())


def test_a_synthesizer_that_may_not_create_a_topic_says_so(tmp_path: Path) -> None:
    async def scenario() -> None:
        simulated = SimulatedStudy(STUDY)
        deployment, log = (
            deployment_in(tmp_path, simulated.clock),
            simulated.connection("run", Denied(simulated.topics.tallies)),
        )
        with pytest.raises(
            NotAllowed, match=f"^topic {simulated.topics.tallies}: this user may not create it, and .* `streamproc init`"
        ):
            await synthesize(deployment, log, ProcessMonitor(deployment), catch_up=False, create=True)

    in_virtual_time(scenario())
