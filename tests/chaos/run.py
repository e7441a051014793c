"""One run from an empty broker to the verdict."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.broker import KafkaBroker
from tests.broker.cluster import KafkaCluster
from tests.chaos.checker import violations
from tests.chaos.fault_plan import GATHERERS, Amount, FaultPlan, Kind, draw_fault_plan
from tests.chaos.fault_timing import cut_off, fault_scores, missed_faults, release_times
from tests.chaos.history import History
from tests.chaos.nemesis import inject_broker_faults
from tests.chaos.processes import RunLog, Starter
from tests.chaos.reporting import report_and_close
from tests.chaos.roles import Gatherer, ask_status, watch, watched
from tests.chaos.run_context import SESSION, TRANSACTION, RunContext
from tests.chaos.secret_checks import chance_of_noise
from tests.chaos.study import ID_MARK, SYMBOL_MARK, ChaosStudy
from tests.chaos.subscriber import Subscriber
from tests.chaos.synthesizers import Synthesizers
from tests.chaos.topics import read_history, topic_names

BROKER_SETTINGS = {"group.min.session.timeout.ms": "1000"}
"""Brokers do not take sessions as short as those of the run unless told to."""
ENVIRON = {
    "STREAMPROC_KAFKA_SESSION_TIMEOUT": str(SESSION),
    "STREAMPROC_KAFKA_TRANSACTION_TIMEOUT": str(TRANSACTION),
    "STREAMPROC_DEBUG": "1",
}
MISSES = "faults struck when they were to, and cut publications off"


@dataclass(frozen=True)
class Outcome:
    """What a run did and found."""

    report: dict[str, Any]

    @property
    def violations(self) -> list[str]:
        """Of all invariants."""
        return [line for found in self.report["invariants"].values() for line in found["violations"]]

    @property
    def last_line(self) -> str:
        """The run in one line."""
        done, asked = self.report["faults"], self.report["asked"]
        kills = sum(count for name, count in done.items() if name.startswith(Kind.KILL))
        stops = sum(count for name, count in done.items() if name.startswith(Kind.STOP))
        broker = sum(count for name, count in done.items() if name.startswith("broker "))
        return (
            f"chaos seed {asked['seed']}: {asked['reports']} reports, {kills} kills, {stops} stops, "
            f"{broker} broker faults, {len(self.violations)} violations"
        )


async def chaos(study: ChaosStudy, amount: Amount, folder: Path, *, cluster: bool = False) -> Outcome:
    """Run the study under the faults of its seed, in an empty folder, and check what is in the topics afterwards.

    On one broker, or on a cluster of three.
    """
    began = time.monotonic()
    broker = (KafkaCluster if cluster else KafkaBroker)(folder / "broker", BROKER_SETTINGS)
    starter, run_log = Starter(folder / "output", ENVIRON), RunLog(folder / "events.txt")
    try:
        await asyncio.to_thread(broker.start)
        server = broker.url.removeprefix("kafka://")
        subscriber = Subscriber(server, topic_names(study), f"{study.name}.control")
        context = RunContext(
            study, draw_fault_plan(study.seed, study.horizon, amount), folder, broker, starter, run_log, subscriber
        )
        context.file.write_text(study.text(broker.url))
        await _command(context, "init")
        subscriber.start()
        await _run_all(context)
        await _command(context, "verify")
        subscriber.end()
        lived = time.monotonic() - began
        history = _complete_history(context, await asyncio.to_thread(read_history, server, study))
        found = await asyncio.to_thread(violations, history)
    finally:
        await starter.end_all()
        broker.kill()
    found["1: every reader of a column always reads the same bytes"] += subscriber.changed
    plan = draw_fault_plan(study.seed, study.horizon, amount)
    releases, aborted = release_times(history, subscriber.arrivals), cut_off(history)
    timing = fault_scores(plan, run_log.injected, releases)
    found |= judge(run_log, plan) | {MISSES: missed_faults(timing, aborted)}
    report = {
        "asked": {
            "seed": study.seed,
            "reports": study.reports,
            "periods": study.horizon,
            "partitions": study.partitions,
            "brokers": len(context.nodes),
        },
        "faults": {f"{kind} ({role})": count for (kind, role), count in sorted(run_log.faults.items())},
        "in time": {
            f"{aim} ({role})": {"planned": score.planned, "struck": score.injected_count, "in time": score.in_time}
            for (aim, role), score in timing.items()
        },
        "missed": [
            injected_fault.lateness(releases) for injected_fault in run_log.injected if not injected_fault.in_time(releases)
        ],
        "seen but never committed": dict(sorted(aborted.items())),
        "exits": {f"{role} after {cause}: {code}": count for (role, cause, code), count in sorted(run_log.ends.items())},
        "seconds": {
            "faults and study": round(lived, 1),
            "in all": round(time.monotonic() - began, 1),
            "from each cut to its release": subscriber.delays(),
        },
        "topics": _sizes(history),
        "chance that noise was not zero, below": chance_of_noise(history),
        "invariants": {name: {"ok": not lines, "violations": lines} for name, lines in found.items()},
    }
    return Outcome(report)


def judge(run_log: RunLog, plan: FaultPlan) -> dict[str, list[str]]:
    """What is not in the topics: how processes ended, and whether the run was as rough as it was to be."""
    return {
        "9: processes end as they may, and every closed period is released": run_log.violations,
        "every fault of the plan struck": plan.shortages(run_log.faults),
    }


class _GivenUp(Exception):
    """The study will not come to its end."""


async def _run_all(context: RunContext) -> None:
    """Everybody at once, until the last period is released and all processes have seen it."""
    gatherers = [Gatherer(context, name) for name in GATHERERS]
    try:
        async with asyncio.TaskGroup() as group:
            synthesizers = Synthesizers(context, group)
            keepers = [
                group.create_task(synthesizers.keep_running()),
                *(group.create_task(each.keep_running()) for each in gatherers),
            ]
            keepers += [group.create_task(watch(context)), group.create_task(ask_status(context))]
            group.create_task(synthesizers.inject_faults())
            for gatherer in gatherers:
                group.create_task(gatherer.inject_faults())
            broker = group.create_task(inject_broker_faults(context))
            await report_and_close(context)
            await context.until(lambda: context.over, "the last period to be released")
            await context.until(lambda: all(keeper.done() for keeper in keepers), "all processes to end")
            await broker
            if context.given_up:
                raise _GivenUp
    except* _GivenUp:
        pass  # the run log says why


async def _command(context: RunContext, command: str) -> None:
    process = await context.starter.start(command, "streamproc", command, context.file)
    context.run_log.ended(command, process.name, "nothing", await process.end(), {0})


def _complete_history(context: RunContext, topics: History) -> History:
    return replace(
        topics,
        seen_along=context.subscriber.seen,
        watched=watched(context),
        statuses=context.statuses,
        acknowledged=context.acknowledged,
        output=context.starter.output(),
        secrets=(ID_MARK, SYMBOL_MARK),
        contested_periods=frozenset(context.contested_periods),
    )


def _sizes(history: History) -> dict[str, int]:
    return {
        "reports": sum(map(len, history.reports)),
        "tallies": len(history.tallies),
        "rejects": len(history.rejects),
        "ledger": len(history.ledger),
        "ledger, with what was aborted": len(history.ledger_uncommitted),
        "columns": sum(map(len, history.synthetic.values())),
        "columns, with what was aborted": sum(map(len, history.synthetic_uncommitted.values())),
    }
