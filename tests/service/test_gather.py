"""A gathering process ends well though it cannot leave its group, and leaves nothing behind that writes on."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from streamproc.client.reporter import Reporter
from streamproc.errors import LogUnavailable, Refused
from streamproc.log.control_topic import append_cut
from streamproc.privacy.types import Period
from streamproc.service.deployment import Deployment
from streamproc.service.monitor import ProcessMonitor
from streamproc.service.workers import gather
from streamproc.storage.clock import Clock
from streamproc.storage.state_folder import LocalStateFolder
from streamproc.testing import Faults, in_virtual_time
from tests.stream_model.fault_points import Slow
from tests.synthesizer.study_runs import STUDY, begin_study, run_two_periods, run_with_tallies


@dataclass
class AwayAtTheEnd(Faults):
    left: list[str] = field(default_factory=list)

    async def before(self, connection: str, call: str, topic: str | None) -> None:
        if call == "leave":
            self.left.append(connection)
            raise LogUnavailable("nobody is there")


def deployment_in(folder: Path, clock: Clock) -> Deployment:
    return Deployment(STUDY, STUDY.broker, folder, folder / "state", None, clock=clock)


def test_a_refusal_is_not_hidden_by_a_group_that_cannot_be_left(tmp_path: Path) -> None:
    async def scenario() -> None:
        simulated, away = (await run_two_periods()).simulated, AwayAtTheEnd()
        deployment = deployment_in(tmp_path, simulated.clock)
        deployment.state_folder().write("gather-0.state", b"no checkpoint")
        with pytest.RaisesGroup(Refused, flatten_subgroups=True):
            await gather(deployment, simulated.connection("gatherer", away), ProcessMonitor(deployment))
        assert away.left == ["gatherer"]

    in_virtual_time(scenario())


def test_a_study_that_is_over_ends_well_though_the_group_cannot_be_left(tmp_path: Path) -> None:
    async def scenario() -> None:
        simulated, away = await begin_study(), AwayAtTheEnd()
        deployment = deployment_in(tmp_path, simulated.clock)
        gathering = gather(deployment, simulated.connection("gatherer", away), ProcessMonitor(deployment))
        await asyncio.gather(gathering, run_with_tallies(simulated, simulated.synthesizer().run()))
        assert away.left == ["gatherer"]

    in_virtual_time(scenario())


@dataclass(frozen=True)
class KeptDisks(Deployment):
    """Remembers what its roles write through."""

    state_folders: list[LocalStateFolder] = field(default_factory=list)

    def state_folder(self) -> LocalStateFolder:
        self.state_folders.append(super().state_folder())
        return self.state_folders[-1]


def test_a_thread_that_outlives_its_gatherer_brings_nothing_back(tmp_path: Path) -> None:
    async def scenario() -> None:
        simulated = await begin_study()
        deployment = KeptDisks(STUDY, STUDY.broker, tmp_path, tmp_path / "state", None, clock=simulated.clock)
        gathering = gather(deployment, simulated.connection("gatherer"), ProcessMonitor(deployment))
        await asyncio.gather(gathering, run_with_tallies(simulated, simulated.synthesizer().run()))
        (state_folder,) = deployment.state_folders
        with deployment.idle_state_folder() as purged:
            purged.clear()
        with pytest.raises(Refused):
            state_folder.write("gather-0.state", b"the last checkpoint")
        assert not deployment.state.exists()

    in_virtual_time(scenario())


def test_nobody_purges_a_folder_in_which_any_gatherer_works(tmp_path: Path) -> None:
    async def scenario() -> None:
        simulated = await begin_study()
        deployment = deployment_in(tmp_path, simulated.clock)
        gathering = [
            asyncio.create_task(gather(deployment, simulated.connection(name), ProcessMonitor(deployment)))
            for name in ("one", "other")
        ]
        for task in gathering:
            await asyncio.sleep(5.0)
            with pytest.raises(Refused, match="a gatherer is still using it"), deployment.idle_state_folder():
                pass
            task.cancel()
        await asyncio.wait(gathering)
        with deployment.idle_state_folder():
            pass

    in_virtual_time(scenario())


def test_a_gatherer_of_a_study_that_is_over_makes_no_state_folder(tmp_path: Path) -> None:
    async def scenario() -> None:
        simulated = await begin_study()
        await run_with_tallies(simulated, simulated.synthesizer().run())
        deployment = deployment_in(tmp_path, simulated.clock)
        await gather(deployment, simulated.connection("gatherer"), ProcessMonitor(deployment))
        assert not deployment.state.exists()

    in_virtual_time(scenario())


GAUGES = {"streamproc_lag_records", "streamproc_people", "streamproc_period_settled", "streamproc_state_bytes"}
"""What is shown of a partition."""


def _shown(health: ProcessMonitor) -> set[str]:
    families = health.operator.registry.collect()
    return {sample.name for family in families for sample in family.samples if family.name in GAUGES}


async def _cancelled(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


def _gauges(health: ProcessMonitor) -> dict[tuple[str, str], float]:
    found = [sample for family in health.operator.registry.collect() if family.name in GAUGES for sample in family.samples]
    return {(sample.name, sample.labels.get("partition") or sample.labels["state"]): sample.value for sample in found}


def test_a_gatherer_that_resumes_shows_its_lag_and_its_checkpoint_before_it_reads(tmp_path: Path) -> None:
    """A topic that cannot be read is just where the lag alert is needed."""

    async def scenario() -> None:
        simulated = await begin_study()
        deployment, people = deployment_in(tmp_path, simulated.clock), [f"p{number}" for number in range(20)]
        synthesizer = asyncio.create_task(simulated.synthesizer().run())
        gathering = asyncio.create_task(gather(deployment, simulated.connection("first"), ProcessMonitor(deployment)))
        for period in (1, 2, 3):
            await Reporter(simulated.log, STUDY).report_all(people, period, ["0"] * 20)
            if period < 3:
                await append_cut(simulated.log, STUDY, Period(period))
                await asyncio.sleep(60.0)
            if period == 2:
                await _cancelled(gathering)
        health, log = (
            ProcessMonitor(deployment),
            simulated.connection("second", Slow("read", simulated.topics.reports, 3600.0)),
        )
        gathering = asyncio.create_task(gather(deployment, log, health))
        await asyncio.sleep(5.0)
        shown = _gauges(health)
        await _cancelled(gathering, synthesizer)

        partitions = range(STUDY.broker.partitions)
        assert sum(shown["streamproc_lag_records", str(partition)] for partition in partitions) == 20
        assert sum(shown["streamproc_people", str(partition)] for partition in partitions) == 20
        for partition in partitions:
            file = deployment.state / f"gather-{partition}.state"
            assert shown["streamproc_period_settled", str(partition)] == 2
            assert shown["streamproc_state_bytes", f"gather-{partition}"] == file.stat().st_size

    in_virtual_time(scenario())


@pytest.mark.parametrize("pinned", [(), range(STUDY.broker.partitions)], ids=["in a group", "pinned"])
def test_once_the_study_is_over_nothing_is_shown_of_partitions(tmp_path: Path, pinned: Sequence[int]) -> None:
    """Records after the last cut are never read, so a metric that includes them would alert forever."""

    async def scenario() -> None:
        simulated = await begin_study()
        deployment = deployment_in(tmp_path, simulated.clock)
        health, people = ProcessMonitor(deployment), [f"p{number}" for number in range(20)]
        gathering = gather(deployment, simulated.connection("gatherer"), health, pinned)
        roles = [asyncio.create_task(role) for role in (gathering, simulated.synthesizer().run())]
        for period in range(1, STUDY.last_period + 1):
            await Reporter(simulated.log, STUDY).report_all(people, period, ["0"] * 20)
            await append_cut(simulated.log, STUDY, Period(period))
            if period < STUDY.last_period:
                await asyncio.sleep(60.0)
                assert _shown(health) == GAUGES
        await asyncio.gather(*roles)
        assert _shown(health) == set()

    in_virtual_time(scenario())
