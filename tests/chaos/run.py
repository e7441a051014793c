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
from tests.chaos.crew import Gatherer, ask_status, trouble_broker, watch, watched
from tests.chaos.evidence import Evidence
from tests.chaos.plan import GATHERERS, Amount, Kind, Plan, draw_plan
from tests.chaos.processes import Journal, Starter
from tests.chaos.reporting import report_and_close
from tests.chaos.secret_checks import chance_of_noise
from tests.chaos.stage import SESSION, TRANSACTION, Stage
from tests.chaos.strikes import cut_off, misses, release_times, scores
from tests.chaos.study import ID_MARK, SYMBOL_MARK, ChaosStudy
from tests.chaos.subscriber import Subscriber
from tests.chaos.synthesizers import Synthesizers
from tests.chaos.topics import read_evidence, topic_names

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
    starter, journal = Starter(folder / "output", ENVIRON), Journal(folder / "story.txt")
    try:
        await asyncio.to_thread(broker.start)
        server = broker.url.removeprefix("kafka://")
        subscriber = Subscriber(server, topic_names(study), f"{study.name}.control")
        stage = Stage(study, draw_plan(study.seed, study.horizon, amount), folder, broker, starter, journal, subscriber)
        stage.file.write_text(study.text(broker.url))
        await _command(stage, "init")
        subscriber.start()
        await _live(stage)
        await _command(stage, "verify")
        subscriber.end()
        lived = time.monotonic() - began
        evidence = _evidence(stage, await asyncio.to_thread(read_evidence, server, study))
        found = await asyncio.to_thread(violations, evidence)
    finally:
        await starter.end_all()
        broker.kill()
    found["1: whoever reads a column, whenever, reads the same bytes"] += subscriber.changed
    plan = draw_plan(study.seed, study.horizon, amount)
    releases, aborted = release_times(evidence, subscriber.arrivals), cut_off(evidence)
    came_off = scores(plan, journal.strikes, releases)
    found |= judge(journal, plan) | {MISSES: misses(came_off, aborted)}
    report = {
        "asked": {
            "seed": study.seed,
            "reports": study.reports,
            "periods": study.horizon,
            "partitions": study.partitions,
            "brokers": len(stage.nodes),
        },
        "faults": {f"{kind} ({role})": count for (kind, role), count in sorted(journal.faults.items())},
        "in time": {
            f"{aim} ({role})": {"planned": score.planned, "struck": score.struck, "in time": score.in_time}
            for (aim, role), score in came_off.items()
        },
        "missed": [strike.lateness(releases) for strike in journal.strikes if not strike.in_time(releases)],
        "seen but never committed": dict(sorted(aborted.items())),
        "exits": {f"{role} after {cause}: {code}": count for (role, cause, code), count in sorted(journal.ends.items())},
        "seconds": {
            "faults and study": round(lived, 1),
            "in all": round(time.monotonic() - began, 1),
            "from each cut to its release": subscriber.delays(),
        },
        "topics": _sizes(evidence),
        "chance that noise was not zero, below": chance_of_noise(evidence),
        "invariants": {name: {"ok": not lines, "violations": lines} for name, lines in found.items()},
    }
    return Outcome(report)


def judge(journal: Journal, plan: Plan) -> dict[str, list[str]]:
    """What is not in the topics: how processes ended, and whether the run was as rough as it was to be."""
    return {
        "9: processes end as they may, and every closed period is released": journal.violations,
        "every fault of the plan struck": plan.shortages(journal.faults),
    }


class _Hopeless(Exception):
    """The study will not come to its end."""


async def _live(stage: Stage) -> None:
    """Everybody at once, until the last period is released and all processes have seen it."""
    gatherers = [Gatherer(stage, name) for name in GATHERERS]
    try:
        async with asyncio.TaskGroup() as group:
            synthesizers = Synthesizers(stage, group)
            keepers = [group.create_task(synthesizers.keep()), *(group.create_task(each.keep()) for each in gatherers)]
            keepers += [group.create_task(watch(stage)), group.create_task(ask_status(stage))]
            group.create_task(synthesizers.suffer())
            for gatherer in gatherers:
                group.create_task(gatherer.suffer())
            broker = group.create_task(trouble_broker(stage))
            await report_and_close(stage)
            await stage.until(lambda: stage.over, "the last period to be released")
            await stage.until(lambda: all(keeper.done() for keeper in keepers), "all processes to end")
            await broker
            if stage.hopeless:
                raise _Hopeless
    except* _Hopeless:
        pass  # the journal says why


async def _command(stage: Stage, command: str) -> None:
    process = await stage.starter.start(command, "streamproc", command, stage.file)
    stage.journal.ended(command, process.name, "nothing", await process.end(), {0})


def _evidence(stage: Stage, topics: Evidence) -> Evidence:
    return replace(
        topics,
        seen_along=stage.subscriber.seen,
        watched=watched(stage),
        statuses=stage.statuses,
        acknowledged=stage.acknowledged,
        output=stage.starter.output(),
        marks=(ID_MARK, SYMBOL_MARK),
        duels=frozenset(stage.duels),
    )


def _sizes(evidence: Evidence) -> dict[str, int]:
    return {
        "reports": sum(map(len, evidence.reports)),
        "tallies": len(evidence.tallies),
        "rejects": len(evidence.rejects),
        "ledger": len(evidence.ledger),
        "ledger, with what was aborted": len(evidence.ledger_uncommitted),
        "columns": sum(map(len, evidence.synthetic.values())),
        "columns, with what was aborted": sum(map(len, evidence.synthetic_uncommitted.values())),
    }
