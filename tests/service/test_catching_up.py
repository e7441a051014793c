"""The operator's /readyz waits until gatherers have caught up; the public one does not tell how long that takes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import streamproc.gatherer.partition_logic as gathering_module
from streamproc.client.reporter import Reporter
from streamproc.service.deployment import Deployment
from streamproc.service.monitor import ProcessMonitor
from streamproc.service.workers import gather
from streamproc.study import Study
from streamproc.testing import in_virtual_time
from tests.service.test_gather import deployment_in
from tests.service.test_monitor import SmallFetches
from tests.stream_model.fault_points import Slow
from tests.stream_model.simulated_study import SimulatedStudy
from tests.synthesizer.study_runs import STUDY

PEOPLE = [f"p{number}" for number in range(40)]
LAST_WINS = replace(STUDY, population=replace(STUDY.population, duplicates="last"))


async def reported(study: Study = STUDY) -> tuple[SimulatedStudy, asyncio.Task[None]]:
    """A study that has begun, with reports for period 1; and its synthesizer."""
    simulated = await SimulatedStudy(study).begin()
    await Reporter(simulated.log, study).report_all(PEOPLE, 1, ["0"] * len(PEOPLE))
    return simulated, asyncio.create_task(simulated.synthesizer().run())


async def seconds_until(condition: Callable[[], bool]) -> int:
    for second in range(1000):
        if condition():
            return second
        await asyncio.sleep(1.0)
    raise AssertionError("it does not happen")


async def end(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        assert not task.done()
        task.cancel()
    await asyncio.wait(tasks)


def deployment_of(study: Study, folder: Path, simulated: SimulatedStudy) -> Deployment:
    return replace(deployment_in(folder, simulated.clock), study=study)


def test_a_gatherer_is_not_ready_before_it_has_read_what_was_there_when_it_started(tmp_path: Path) -> None:
    async def scenario() -> None:
        simulated, synthesizer = await reported()
        health = ProcessMonitor(deployment_in(tmp_path, simulated.clock))
        log = SmallFetches(simulated.broker, Slow("read", simulated.topics.reports, 5.0))
        gathering = asyncio.create_task(gather(deployment_in(tmp_path, simulated.clock), log, health))
        assert await seconds_until(lambda: health.publicly_ready) < 5
        longest = max(simulated.broker.partition(simulated.topics.reports, p).end for p in range(STUDY.broker.partitions))
        assert await seconds_until(lambda: health.ready) >= 5 * longest - 10
        for partition in range(STUDY.broker.partitions):
            labels = {"study": STUDY.name, "partition": str(partition)}
            assert health.operator.registry.get_sample_value("streamproc_lag_records", labels) == 0
        await end(gathering, synthesizer)

    in_virtual_time(scenario())


def test_what_comes_after_the_start_does_not_keep_a_gatherer_from_being_ready(tmp_path: Path) -> None:
    async def scenario() -> None:
        simulated, synthesizer = await reported()
        health = ProcessMonitor(deployment_in(tmp_path, simulated.clock))
        log = SmallFetches(simulated.broker, Slow("read", simulated.topics.reports, 5.0))
        gathering = asyncio.create_task(gather(deployment_in(tmp_path, simulated.clock), log, health))
        await asyncio.sleep(20.0)
        for period in (1, 2, 3):
            await Reporter(simulated.log, STUDY).report_all(PEOPLE, period, ["0"] * len(PEOPLE))
        await seconds_until(lambda: health.ready)
        assert health.operator.registry.get_sample_value("streamproc_broker_away", {"study": STUDY.name}) == 0
        lags = [{"study": STUDY.name, "partition": str(partition)} for partition in range(STUDY.broker.partitions)]
        assert max(health.operator.registry.get_sample_value("streamproc_lag_records", lag) or 0 for lag in lags) > 0
        await end(gathering, synthesizer)

    in_virtual_time(scenario())


def test_a_process_is_not_ready_before_its_group_has_given_it_partitions(tmp_path: Path) -> None:
    async def scenario() -> None:
        simulated, synthesizer = await reported()
        deployment = deployment_in(tmp_path, simulated.clock)
        health, log = (
            ProcessMonitor(deployment),
            simulated.connection("gatherer", Slow("assigned", simulated.topics.reports, 30.0)),
        )
        gathering = asyncio.create_task(gather(deployment, log, health))
        assert await seconds_until(lambda: health.publicly_ready) < 5
        assert await seconds_until(lambda: health.ready) > 20
        await end(gathering, synthesizer)

    in_virtual_time(scenario())


def test_a_process_is_not_ready_while_a_partition_that_it_took_over_is_replayed(tmp_path: Path) -> None:
    async def scenario() -> None:
        simulated, synthesizer = await reported()
        deployments = [deployment_in(tmp_path / name, simulated.clock) for name in ("stays", "leaves")]
        health, slow = ProcessMonitor(deployments[0]), Slow("read", simulated.topics.reports, 0.0)
        leaving = asyncio.create_task(gather(deployments[1], simulated.connection("leaves"), ProcessMonitor(deployments[1])))
        staying = asyncio.create_task(gather(deployments[0], SmallFetches(simulated.broker, slow), health))
        await seconds_until(lambda: health.ready and health.operator.registry.get_sample_value(
            "streamproc_gathering", {"study": STUDY.name, "partition": "1"}) == 1)  # fmt: skip
        slow.seconds = 5.0
        await end(leaving)
        assert await seconds_until(lambda: not health.ready) < 30
        assert health.publicly_ready
        assert await seconds_until(lambda: health.ready) > 30
        await end(staying, synthesizer)

    in_virtual_time(scenario())


def test_a_process_without_partitions_stands_by_and_is_ready(tmp_path: Path) -> None:
    async def scenario() -> None:
        simulated, synthesizer = await reported()
        deployment = deployment_in(tmp_path, simulated.clock)
        healths = [ProcessMonitor(deployment) for _ in range(STUDY.broker.partitions + 1)]
        members = [asyncio.create_task(gather(deployment, simulated.connection(f"{number}"), health))
                   for number, health in enumerate(healths)]  # fmt: skip
        await asyncio.sleep(60.0)
        assert [health.ready for health in healths] == [True] * len(healths)
        await end(*members, synthesizer)

    in_virtual_time(scenario())


def test_a_partition_that_pauses_until_the_next_cut_has_caught_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering_module, "MAX_UNDECIDED", 3)

    async def scenario() -> None:
        simulated, synthesizer = await reported(LAST_WINS)
        deployment = deployment_of(LAST_WINS, tmp_path, simulated)
        health = ProcessMonitor(deployment)
        gathering = asyncio.create_task(gather(deployment, SmallFetches(simulated.broker), health))
        await seconds_until(lambda: health.ready)
        labels = {"study": LAST_WINS.name, "partition": "0"}
        assert (health.operator.registry.get_sample_value("streamproc_lag_records", labels) or 0) > 0
        await end(gathering, synthesizer)

    in_virtual_time(scenario())


def test_an_open_transaction_of_a_reporter_does_not_keep_a_gatherer_from_being_ready(tmp_path: Path) -> None:
    async def scenario() -> None:
        simulated, synthesizer = await reported()
        producer = await simulated.log.transactional_producer("a reporter", timeout=3600.0)
        await producer.fence()
        await producer.begin()
        await producer.send(simulated.topics.reports, 0, b"not committed")
        deployment = deployment_in(tmp_path, simulated.clock)
        health = ProcessMonitor(deployment)
        gathering = asyncio.create_task(gather(deployment, simulated.connection("gatherer"), health))
        assert await seconds_until(lambda: health.ready) < 60
        await end(gathering, synthesizer)

    in_virtual_time(scenario())


def test_it_is_said_where_a_replay_starts_and_that_it_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr("streamproc.service.monitor.event", lambda message, *_, **fields: said.append(message))

    async def scenario() -> None:
        simulated, synthesizer = await reported()
        deployment = deployment_in(tmp_path, simulated.clock)
        for closed in (1, 2):
            gathering = asyncio.create_task(
                gather(deployment, simulated.connection("gatherer"), ProcessMonitor(deployment), [0])
            )
            await asyncio.sleep(30.0)
            await simulated.close_period(closed)
            await asyncio.sleep(30.0)
            await end(gathering)
        await end(synthesizer)
        assert said == [
            "partition assigned",
            "replaying the log from its start",
            "caught up with the log",
            "tallied",
            "partition given up",
            "partition assigned",
            "replaying the log from a checkpoint",
            "caught up with the log",
            "tallied",
            "partition given up",
        ]

    in_virtual_time(scenario())
