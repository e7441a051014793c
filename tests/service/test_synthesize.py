"""A synthesizing process that has released the last period shows it, however its broker behaves at the end."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

import pytest

from streamproc.errors import OutcomeUnknown, Refused
from streamproc.log.port import Log
from streamproc.service.monitor import ProcessMonitor
from streamproc.service.workers import synthesize
from streamproc.testing import Faults, in_virtual_time
from tests.service.test_gather import deployment_in
from tests.stream_model.fault_points import Slow
from tests.synthesizer.study_runs import STUDY, begin_study, run_with_tallies


def test_the_last_period_is_shown_before_the_role_ends(tmp_path: Path) -> None:
    async def scenario() -> None:
        simulated = await begin_study()
        deployment = deployment_in(tmp_path, simulated.clock)
        health = ProcessMonitor(deployment)
        log = simulated.connection("synthesizer", Slow("read", simulated.topics.ledger, 5.0))
        await run_with_tallies(simulated, synthesize(deployment, log, health, catch_up=False))
        assert simulated.ledger().period == STUDY.last_period
        assert (
            health.public.registry.get_sample_value("streamproc_periods_released", {"study": STUDY.name})
            == STUDY.last_period
        )

    in_virtual_time(scenario())


def test_a_start_that_is_refused_enters_nothing_into_the_registry(tmp_path: Path) -> None:
    entered = []

    async def register(log: Log) -> None:
        entered.append(log)

    async def scenario() -> None:
        simulated = await begin_study()
        deployment = deployment_in(tmp_path, simulated.clock)
        deployment.state_folder().write("synthesizer.state", b"not a state file")
        health = ProcessMonitor(deployment)
        with pytest.raises(Refused, match="not a state file"):
            await synthesize(deployment, simulated.log, health, catch_up=False, register=register)
        assert health.operator.registry.get_sample_value("streamproc_refused", {"study": STUDY.name}) == 1

    in_virtual_time(scenario())
    assert not entered


@dataclass
class LastAnswerLost(Faults):
    """The transaction that publishes the last period lands, but nobody hears of it in time."""

    commits: int = 0

    async def after(self, connection: str, call: str, topic: str | None) -> None:
        self.commits += call == "commit"
        # One begins the study, and two release each period.
        if call == "commit" and self.commits == 1 + 2 * STUDY.last_period:
            await asyncio.sleep(30.0)
            raise OutcomeUnknown("no answer from the broker in time")


def test_a_trouble_that_the_follower_of_the_ledger_does_not_live_to_see_passes_too(tmp_path: Path) -> None:
    async def scenario() -> None:
        simulated, fault = await begin_study(), LastAnswerLost()
        deployment = deployment_in(tmp_path, simulated.clock)
        health = ProcessMonitor(deployment)
        await run_with_tallies(
            simulated, synthesize(deployment, simulated.connection("synthesizer", fault), health, catch_up=False)
        )
        assert fault.commits >= 1 + 2 * STUDY.last_period
        assert health.operator.registry.get_sample_value("streamproc_troubles_total", {"study": STUDY.name}) == 1
        assert health.operator.registry.get_sample_value("streamproc_ready", {"study": STUDY.name}) == 1

    in_virtual_time(scenario())
