"""What a process shows of itself is true now, not of a past that it reads again; and of all of it, not of a part."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import pytest

from streamproc.client.reporter import Reporter
from streamproc.errors import LogUnavailable, OutcomeUnknown
from streamproc.log.port import Offset, Record
from streamproc.privacy.adjacency import Adjacency
from streamproc.privacy.types import Period
from streamproc.privacy.zcdp import epsilon_of_rho
from streamproc.protocol.ledger_verifier import VerifiedLedger
from streamproc.protocol.rejects import Reason
from streamproc.releases.replace_one import replace_one_costs
from streamproc.releases.synthesis import Synthesis
from streamproc.service.deployment import Deployment
from streamproc.service.monitor import BROKER_BACK, LEDGER, ProcessMonitor, partition_part
from streamproc.service.workers import gather, synthesize
from streamproc.storage.clock import SystemClock
from streamproc.study import CumulativeRelease, Schedule
from streamproc.study.releases import Measure
from streamproc.synthesizer.checkpoint import read_checkpoint
from streamproc.testing import BEGINNING, Faults, SimulatedLog, in_virtual_time
from streamproc.testing.simulated_log import SimulatedReader
from tests.service.test_gather import deployment_in
from tests.status_page.open_snapshot import open_snapshot, open_tallies
from tests.studies import build_open_study, build_study
from tests.synthesizer.study_runs import HISTORIES, STUDY, begin_study, run_two_periods, run_with_tallies

PEOPLE, SYMBOLS = [f"p{number}" for number in range(12)], ["0", "1", "0"] * 4


@dataclass
class Away(Faults):
    """Nobody can read that topic while it is away."""

    topic: str
    away: bool = False

    async def before(self, connection: str, call: str, topic: str | None) -> None:
        if self.away and call == "read" and topic == self.topic:
            raise LogUnavailable("nobody is there")


class SmallFetch(SimulatedReader):
    async def read(self, *, max_records: int = 10_000, timeout: float = 0.5) -> Sequence[Record]:
        return await super().read(max_records=1, timeout=timeout)


class SmallFetches(SimulatedLog):
    """A log that returns one record per read, as it does if records are large."""

    async def reader(self, topic: str, partition: int, offset: Offset, *, committed: bool = True) -> SimulatedReader:
        opened = self.broker.partition(topic, partition)
        return SmallFetch(self, topic, partition, opened, offset, committed=committed)


class Witness(ProcessMonitor):
    def __init__(self, deployment: Deployment) -> None:
        self.released_so_far: list[tuple[float | None, float | None]] = []
        super().__init__(deployment)

    def show_ledger(self, ledger: VerifiedLedger | None) -> None:
        super().show_ledger(ledger)
        labels = {"study": STUDY.name}
        public = self.public.registry.get_sample_value("streamproc_periods_released", labels)
        operator = self.operator.registry.get_sample_value("streamproc_released_period", labels)
        self.released_so_far.append((public, operator))


def test_what_is_shown_does_not_go_back_while_the_ledger_is_read_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        simulated = (await run_two_periods()).simulated
        deployment, fault = deployment_in(tmp_path, simulated.clock), Away(simulated.topics.ledger)
        health, log = Witness(deployment), SmallFetches(simulated.broker, fault)
        gathering = asyncio.create_task(gather(deployment, log, health))
        for away in (False, True, False):
            fault.away = away
            await asyncio.sleep(60.0)
        gathering.cancel()
        assert set(health.released_so_far) == {(2, 2)}

    in_virtual_time(scenario())


def test_gatherers_that_wait_for_their_study_are_ready_again_after_a_trouble(tmp_path: Path) -> None:
    async def scenario() -> None:
        simulated = await begin_study()
        deployment, fault = deployment_in(tmp_path, simulated.clock), Away(simulated.topics.control)
        health = ProcessMonitor(deployment)
        gathering = asyncio.create_task(gather(deployment, simulated.connection("gatherer", fault), health))
        ready = []
        for away in (True, False):
            fault.away = away
            await asyncio.sleep(60.0)
            ready.append(health.ready)
        assert ready == [False, True]
        await _end(gathering)

    in_virtual_time(scenario())


def test_how_long_a_gatherer_needs_is_not_public(tmp_path: Path) -> None:
    health = ProcessMonitor(deployment_in(tmp_path, SystemClock()))

    def ready() -> tuple[bool, bool]:
        return health.ready, health.publicly_ready

    assert ready() == (False, False)
    health.mark_ledger_read()
    assert ready() == (True, True)
    health.mark_degraded("no answer", partition_part(0))
    assert ready() == (False, True)
    health.mark_degraded("no answer", LEDGER)
    assert ready() == (False, False)


def test_that_reports_are_rejected_is_said_once_for_each_reason_and_only_metrics_say_how_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[dict[str, object]] = []
    monkeypatch.setattr("streamproc.service.monitor.event", lambda *_, **fields: said.append(fields))
    health = ProcessMonitor(deployment_in(tmp_path, SystemClock()))
    for reason in (Reason.LATE, Reason.FOREIGN_PARTITION, Reason.LATE):
        health.rejected(1, {reason: 3})
    health.rejected(1, {Reason.LATE: 1_000, Reason.FOREIGN_PARTITION: 2})
    assert said == [{"partition": 1, "reason": "late"}, {"partition": 1, "reason": "foreign-partition"}]
    for name, count in {"late": 1_006, "foreign-partition": 5}.items():
        labels = {"study": STUDY.name, "partition": "1", "reason": name}
        assert health.operator.registry.get_sample_value("streamproc_rejects_total", labels) == count


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The log lines, with their partitions."""
    lines: list[str] = []

    def event(message: str, level: int = logging.INFO, **fields: object) -> None:
        lines.append(f"{message} {fields['partition']}" if "partition" in fields else message)

    monkeypatch.setattr("streamproc.service.monitor.event", event)
    return lines


def test_that_the_broker_is_back_is_said_once_when_nothing_waits_for_it(tmp_path: Path, said: list[str]) -> None:
    async def scenario() -> None:
        simulated = await begin_study()
        deployment, fault = deployment_in(tmp_path, simulated.clock), Away(simulated.topics.ledger)
        gathering = asyncio.create_task(
            gather(deployment, simulated.connection("gatherer", fault), ProcessMonitor(deployment))
        )
        await asyncio.sleep(60.0)
        assert BROKER_BACK not in said
        for _ in range(2):
            for away in (True, False):
                fault.away = away
                await asyncio.sleep(60.0)
        await _end(gathering)
        assert said.count(BROKER_BACK) == 2

    in_virtual_time(scenario())


def test_an_outage_that_a_part_does_not_outlive_is_not_said_to_be_over(tmp_path: Path, said: list[str]) -> None:
    async def scenario() -> None:
        simulated = await begin_study()
        deployment, fault = deployment_in(tmp_path, simulated.clock), Away(simulated.topics.ledger, away=True)
        gathering = asyncio.create_task(
            gather(deployment, simulated.connection("gatherer", fault), ProcessMonitor(deployment))
        )
        await asyncio.sleep(60.0)
        await _end(gathering)
        assert BROKER_BACK not in said

    in_virtual_time(scenario())


@pytest.mark.parametrize("pinned", [(), range(STUDY.broker.partitions)], ids=["in a group", "pinned"])
def test_it_is_said_which_partitions_are_assigned_and_given_up(
    tmp_path: Path, said: list[str], pinned: Sequence[int]
) -> None:
    async def scenario() -> None:
        simulated = await begin_study()
        deployment = deployment_in(tmp_path, simulated.clock)
        gathering = asyncio.create_task(
            gather(deployment, simulated.connection("gatherer"), ProcessMonitor(deployment), pinned)
        )
        await asyncio.sleep(5.0)
        assigned = [f"partition assigned {partition}" for partition in range(STUDY.broker.partitions)]
        assert said == assigned
        await _end(gathering)
        assert said == assigned + [line.replace("assigned", "given up") for line in assigned]

    in_virtual_time(scenario())


@dataclass
class Unwritable(Faults):
    """A broker that is read from as ever, while nothing that is sent is acknowledged, as with too few replicas."""

    broken: bool = True

    async def before(self, connection: str, call: str, topic: str | None) -> None:
        if self.broken and call in ("append", "append_many", "commit"):
            await asyncio.sleep(30.0)
            raise OutcomeUnknown("no answer from the broker in time")


async def _check_ready_once_it_can_write(health: ProcessMonitor, fault: Unwritable) -> None:
    """Not ready for ten minutes in which nothing can be sent, however well the ledger is read; and soon after it."""
    await asyncio.sleep(31.0)  # until the first answer has not come
    for _ in range(600):
        assert not health.ready
        await asyncio.sleep(1.0)
    fault.broken = False
    await asyncio.sleep(90.0)
    assert health.ready


async def _end(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        assert not task.done()
        task.cancel()
    await asyncio.wait(tasks)


def test_a_gatherer_that_cannot_send_its_tallies_is_not_ready(tmp_path: Path) -> None:
    async def scenario() -> None:
        simulated, fault = await begin_study(), Unwritable()
        await Reporter(simulated.log, STUDY).report_all(PEOPLE, 1, SYMBOLS)
        await simulated.close_period(1)
        deployment = deployment_in(tmp_path, simulated.clock)
        health = ProcessMonitor(deployment)
        synthesizer = asyncio.create_task(simulated.synthesizer().run())
        # Before it comes to the cut again it reads several times, which goes well.
        gathering = asyncio.create_task(gather(deployment, SmallFetches(simulated.broker, fault), health))
        await _check_ready_once_it_can_write(health, fault)
        await _end(gathering, synthesizer)

    in_virtual_time(scenario())


@pytest.mark.parametrize("lost", ["reports", "control", "ledger"])
def test_a_gatherer_that_cannot_read_is_not_ready_until_it_can_though_nobody_reports(tmp_path: Path, lost: str) -> None:
    async def scenario() -> None:
        simulated = await begin_study()
        deployment, fault = deployment_in(tmp_path, simulated.clock), Away(getattr(simulated.topics, lost))
        health = ProcessMonitor(deployment)
        synthesizer = asyncio.create_task(simulated.synthesizer().run())
        gathering = asyncio.create_task(gather(deployment, simulated.connection("gatherer", fault), health))
        for away in (False, True, False):
            fault.away = away
            await asyncio.sleep(60.0)
            assert health.ready is not away
        await _end(gathering, synthesizer)

    in_virtual_time(scenario())


def test_a_trouble_of_a_gatherer_ends_with_it(tmp_path: Path) -> None:
    """Somebody else has tallied the last period."""

    async def scenario() -> None:
        simulated = await begin_study()
        deployment, fault = deployment_in(tmp_path, simulated.clock), Away(simulated.topics.reports, away=True)
        health = ProcessMonitor(deployment)
        gathering = asyncio.create_task(gather(deployment, simulated.connection("gatherer", fault), health))
        await run_with_tallies(simulated, simulated.synthesizer().run())
        await gathering
        assert health.operator.registry.get_sample_value("streamproc_troubles_total", {"study": STUDY.name}) != 0
        assert health.ready

    in_virtual_time(scenario())


def test_a_synthesizer_that_cannot_begin_the_study_is_not_ready(tmp_path: Path) -> None:
    async def scenario() -> None:
        simulated, fault = await begin_study(), Unwritable()
        deployment = deployment_in(tmp_path, simulated.clock)
        health = ProcessMonitor(deployment)
        log = simulated.connection("synthesizer", fault)
        synthesizer = asyncio.create_task(synthesize(deployment, log, health, catch_up=False))
        await _check_ready_once_it_can_write(health, fault)
        await _end(synthesizer)

    in_virtual_time(scenario())


def test_a_synthesizer_that_cannot_close_a_period_in_time_is_not_ready(tmp_path: Path) -> None:
    async def scenario() -> None:
        simulated, fault = await begin_study(), Unwritable(broken=False)
        await Reporter(simulated.log, STUDY).report_all(PEOPLE, 1, SYMBOLS)
        schedule = Schedule(BEGINNING, every=timedelta(hours=1))
        deployment = replace(deployment_in(tmp_path, simulated.clock), study=replace(STUDY, schedule=schedule))
        health = ProcessMonitor(deployment)
        log = simulated.connection("synthesizer", fault)
        synthesizer = asyncio.create_task(synthesize(deployment, log, health, catch_up=False))
        await asyncio.sleep(timedelta(hours=0.9).total_seconds())
        assert health.ready
        fault.broken = True
        await asyncio.sleep(timedelta(hours=0.1).total_seconds())
        await _check_ready_once_it_can_write(health, fault)
        assert len(simulated.cuts()) == 1
        await _end(synthesizer)

    in_virtual_time(scenario())


@dataclass
class Unfenced(Faults):
    """Lets the first `left` fencing calls fail without a reply."""

    left: int

    async def before(self, connection: str, call: str, topic: str | None) -> None:
        if call == "fence" and self.left:
            self.left -= 1
            raise OutcomeUnknown("no answer")


def test_a_synthesizer_that_waits_for_a_release_time_is_ready_and_stops_at_once(tmp_path: Path) -> None:
    """Also after a start with a broker that was away: what it waits for then is the time."""

    async def scenario() -> None:
        simulated = await begin_study()
        schedule = Schedule(BEGINNING, every=timedelta(hours=1), release_after=timedelta(hours=1))
        deployment = replace(deployment_in(tmp_path, simulated.clock), study=replace(STUDY, schedule=schedule))
        feeder = asyncio.create_task(simulated.feed(HISTORIES))
        for start in range(2):
            health = ProcessMonitor(deployment)
            log = simulated.connection("synthesizer", Unfenced(left=start))
            synthesizer = asyncio.create_task(synthesize(deployment, log, health, catch_up=True))
            await asyncio.sleep(600)
            assert health.operator.registry.get_sample_value("streamproc_troubles_total", {"study": STUDY.name}) == start
            assert health.ready and health.publicly_ready
            assert health.operator.registry.get_sample_value("streamproc_held_period", {"study": STUDY.name}) == 1
            assert simulated.ledger().period == 0 and not simulated.ledger().intents
            before = simulated.clock.now()
            await _end(synthesizer)
            assert simulated.clock.now() - before < timedelta(seconds=1)
        await feeder

    in_virtual_time(scenario())


def test_the_wait_for_a_release_time_is_no_time_that_a_release_took(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock = iter([0.0, 1.0, 5.0, 3605.0, 3607.0])  # made, all tallied, drawn, due, released
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    health, partial_run = ProcessMonitor(deployment_in(tmp_path, SystemClock())), in_virtual_time(run_two_periods())
    kept = read_checkpoint(partial_run.state_folder, partial_run.simulated.fingerprint)
    assert kept is not None
    with caplog.at_level(logging.INFO, logger="streamproc"):
        health.watermark(Period(2))
        health.waiting(Period(2), BEGINNING)
        health.due(Period(2), late=False)
        assert health.operator.registry.get_sample_value("streamproc_held_period", {"study": STUDY.name}) == 0
        health.released(Period(2), kept.synthesis, {})
        health.due(Period(2), late=True)
    assert health.operator.registry.get_sample_value("streamproc_release_seconds_sum", {"study": STUDY.name}) == 6.0
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("INFO", "drawn, waiting for the release time"),
        ("INFO", "period released"),
        ("WARNING", "the release time has passed, publishing late"),
    ]


@pytest.mark.parametrize(
    ("adjacency", "measure", "horizon", "period", "stated"),
    [
        (Adjacency.REPLACE_ONE, "flow", 3, 2, False),
        (Adjacency.ZERO_OUT, "flow", 3, 2, True),
        (Adjacency.ZERO_OUT, "flow", 65, 2, True),
        (Adjacency.REPLACE_ONE, "paper", 3, 2, False),
        (Adjacency.ZERO_OUT, "paper", 3, 2, True),
        (Adjacency.ZERO_OUT, "paper", 65, 2, False),  # each period but the last needs a run of its own
        (Adjacency.ZERO_OUT, "paper", 65, 65, True),
    ],
)
def test_the_log_line_of_a_release_states_the_replace_one_cost_of_a_zero_out_study(
    adjacency: Adjacency,
    measure: Measure,
    horizon: int,
    period: int,
    stated: bool,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    kept = in_virtual_time(_kept_after_two_periods())
    synthesis = Synthesis.resumed(Period(2), kept.contracts, kept.states, (Period(1),))
    other = build_study(
        CumulativeRelease("c", event=("1",), measure=measure, weights="rule" if measure == "flow" else None),
        horizon=horizon,
    )
    study = replace(other, privacy=replace(other.privacy, adjacency=adjacency))
    with caplog.at_level(logging.INFO, logger="streamproc"):
        ProcessMonitor(replace(deployment_in(tmp_path, SystemClock()), study=study)).released(Period(period), synthesis, {})
    [line] = caplog.records
    found = {name: value for name, value in line.__dict__["fields"].items() if name.endswith("_replace_one")}
    costs = replace_one_costs(study)
    if stated:
        assert costs is not None
        rho = costs.of_study(period, [Period(1)])
        epsilon = epsilon_of_rho(rho, study.privacy.delta)
        assert found == {"rho_spent_replace_one": rho, "epsilon_spent_replace_one": epsilon}
    else:
        assert found == {}


async def _kept_after_two_periods() -> Synthesis:
    partial_run = await run_two_periods()
    kept = read_checkpoint(partial_run.state_folder, partial_run.simulated.fingerprint)
    assert kept is not None
    return kept.synthesis


def test_an_open_study_ends_for_the_monitor_with_its_last_record(tmp_path: Path) -> None:
    schedule = Schedule(BEGINNING, timedelta(hours=1))
    study = replace(build_open_study(), schedule=schedule)
    deployment = replace(deployment_in(tmp_path, SystemClock()), study=study)
    tallies, labels = list(open_tallies(study, 4)), {"study": study.name}
    health = ProcessMonitor(deployment)

    def shown(name: str) -> float | None:
        return health.operator.registry.get_sample_value(name, labels)

    health.show_ledger(open_snapshot(study, tallies[:3]).ledger)
    assert shown("streamproc_released_period") == 3
    assert shown("streamproc_horizon_periods") is None
    assert shown("streamproc_next_release_timestamp_seconds") == schedule.release_of(4).timestamp()
    ended = open_snapshot(study, tallies, over=True).ledger
    health.show_ledger(ended)
    assert shown("streamproc_horizon_periods") == 4
    assert shown("streamproc_next_release_timestamp_seconds") == math.inf


def test_clamped_counts_are_added_up_over_all_periods_however_they_are_read(tmp_path: Path) -> None:
    study = build_open_study(rho=0.001)
    tallies = list(open_tallies(study, 6, 3))
    snapshots = [open_snapshot(study, tallies[:periods]) for periods in (0, 2, 3, 6)]
    step, once = (ProcessMonitor(replace(deployment_in(tmp_path, SystemClock()), study=study)) for _ in range(2))
    for snapshot in snapshots:
        step.show_ledger(snapshot.ledger)
    once.show_ledger(snapshots[-1].ledger)
    assert snapshots[-1].ledger is not None
    for name in ("w", "s"):
        labels = {"study": study.name, "release": name}
        clamped = sum(record.releases[name].clamped for record in snapshots[-1].ledger.periods)
        assert clamped > 0
        for health in (step, once):
            assert health.public.registry.get_sample_value("streamproc_clamped_bins_total", labels) == clamped
