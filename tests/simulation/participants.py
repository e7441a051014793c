"""The participants of a run besides the synthesizer: reporting clients, gatherers, stewards and subscribers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from streamproc.client.reporter import Reporter
from streamproc.client.subscribe import subscribe
from streamproc.errors import LogUnavailable, NoSuchTopic, OutcomeUnknown, Refused
from streamproc.log.retry import retry_while_unavailable
from streamproc.privacy.types import Period
from streamproc.protocol.reports import encode_report, home_partition
from streamproc.service.close import close_period
from streamproc.service.monitor import CONNECTION
from streamproc.service.workers import gather
from tests.simulation.cluster import Cluster
from tests.simulation.deployment import STATE, WatchedMonitor
from tests.simulation.history import ObservedColumns
from tests.simulation.process import Machine, Process
from tests.simulation.workload import PERIOD, STRANGE_SYMBOL, SentReport

FIXABLE = "Fix this and restart."
"""Part of the error messages about a disk that fails or is full."""


async def run_client(cluster: Cluster, number: int, words: Sequence[SentReport]) -> None:
    """Send the reports of a client in time; after a crash a new process continues with the next report."""
    machine, left = cluster.machine(f"client-{number}"), list(words)
    while left:
        process = cluster.process(f"client-{number}", machine)
        await process.run(_send_reports(cluster, process, left))
        await asyncio.sleep(0.1)


async def _send_reports(cluster: Cluster, process: Process, left: list[SentReport]) -> None:
    async with process.log as log:
        reporter = Reporter(log, cluster.study)
        while left:
            await asyncio.sleep(max(left[0].at - cluster.now, 0.0))
            await _send_with_retries(cluster, process, reporter, left.pop(0))


async def _send_with_retries(cluster: Cluster, process: Process, reporter: Reporter, words: SentReport) -> None:
    """Send one report, with retries after failed calls and unknown outcomes (at-least-once delivery)."""
    for attempt in range(4):
        try:
            await _send(cluster, process, reporter, words)
        except (LogUnavailable, OutcomeUnknown):
            if attempt < 3:
                cluster.history.fault("client sends again", process.name)
            await asyncio.sleep(0.2 * 2**attempt)
        else:
            if words.way in ("alone", "packed", "committed") and process.alive:
                cluster.acknowledged.append((cluster.now, words.individual, words.period, words.symbol))
            return


async def _send(cluster: Cluster, process: Process, reporter: Reporter, words: SentReport) -> None:
    study, log, topic = cluster.study, process.log, cluster.topics.reports
    right = 1 <= words.period <= study.last_period and words.symbol != STRANGE_SYMBOL
    value, key = encode_report(words.individual, words.period, words.symbol), words.individual.encode()
    home = home_partition(words.individual, study.broker.partitions)
    match words.way:
        case "alone" if right:
            await reporter.report(words.individual, words.period, words.symbol)
        case "packed" if right:
            await reporter.report_packed([words.individual], words.period, [words.symbol])
        case "foreign":
            await log.append(topic, (home + 1) % study.broker.partitions, value, key)
        case "broken":
            await log.append(topic, home, value[: len(value) // 2], key)
        case "committed" | "aborted" | "left open":
            cluster.history.fault(f"client transaction {words.way}", process.name)
            producer = await log.transactional_producer(f"{process.name}-{words.at}", timeout=2.0)
            await producer.fence()
            await producer.begin()
            await producer.send(topic, home, value, key)
            if words.way == "committed":
                await producer.commit()
            elif words.way == "aborted":
                await producer.abort()
        case _:
            await log.append(topic, home, value, key)


async def run_gatherer(cluster: Cluster, number: int, pinned: Sequence[int], machine: Machine) -> None:
    """Run a gatherer, and restart it whenever it ends, after fixing what its error message names."""
    while True:
        process, before = cluster.process(f"gatherer-{number}", machine), _checkpoints(machine)
        end = await process.run(_gather(cluster, process, pinned))
        if end.done:
            return
        if end.failure is not None:
            cluster.history.violated(9, f"a gatherer failed: {end.failure!r}")
            return
        if end.refusal is not None:
            if not process.started and (process.changed or _checkpoints(machine) != before):
                cluster.history.violated(10, f"a refused gatherer did {process.changed}: {end.refusal}")
            if FIXABLE in end.refusal:
                machine.storage.capacity = None
            elif "delete it" in end.refusal:
                delete_file(cluster, machine, end.refusal)
            else:
                cluster.history.violated(9, f"a gatherer refused: {end.refusal}")
                return
        await asyncio.sleep(cluster.random.uniform(0.1, 1.0))


async def _gather(cluster: Cluster, process: Process, pinned: Sequence[int]) -> None:
    deployment = cluster.deployment(process)
    monitor = WatchedMonitor(deployment)
    await retry_while_unavailable(process.log.__aenter__, monitor, CONNECTION)
    await gather(deployment, process.log, monitor, pinned)


def _checkpoints(machine: Machine) -> dict[str, bytes]:
    return {name: content for name, content in machine.storage.files(STATE).items() if name.endswith(".state")}


def delete_file(cluster: Cluster, machine: Machine, refusal: str) -> None:
    """Delete the state file that an error message says to delete."""
    if not machine.spoilt:
        cluster.history.violated(9, f"a disk that kept everything has a file to delete: {refusal}")
    folder = machine.storage.storage.folder(STATE)
    folder.change({refusal.split("state file ")[1].split(":", maxsplit=1)[0]: None})
    folder.sync()


async def run_steward(cluster: Cluster, number: int) -> None:
    """Close each period in time, with retries until its cut is in the log. Two stewards may race."""
    machine = cluster.machine(f"steward-{number}")
    for period in range(1, cluster.workload.closes + 1):
        await asyncio.sleep(max(PERIOD * period - cluster.now, 0.0))
        while len(cluster.records.cuts()) < period:
            process = cluster.process(f"steward-{number}", machine)
            await process.run(_close(cluster, process, Period(period)))
            await asyncio.sleep(cluster.random.uniform(0.05, 0.5))


async def _close(cluster: Cluster, process: Process, period: Period) -> None:
    cluster.cut_asked.setdefault(period, cluster.now)
    with suppress(LogUnavailable, OutcomeUnknown, Refused):
        await close_period(cluster.deployment(process), process.log, period)


async def run_subscriber(cluster: Cluster, number: int, observed: ObservedColumns, *, begins: float) -> None:
    """Subscribe to all columns, and start again from the first one whenever the connection fails."""
    await asyncio.sleep(begins)
    machine = cluster.machine(f"subscriber-{number}")
    while True:
        process = cluster.process(f"subscriber-{number}", machine)
        end = await process.run(_subscribe(cluster, process, observed))
        if end.done:
            return
        if end.failure is not None or end.refusal is not None:
            cluster.history.violated(1, f"a subscriber failed: {end.failure or end.refusal!r}")
            return
        await asyncio.sleep(0.3)


async def _subscribe(cluster: Cluster, process: Process, observed: ObservedColumns) -> None:
    given: dict[str, int] = {}
    with suppress(NoSuchTopic):
        async for published in subscribe(process.log, cluster.study):
            observed.see(process.name, given, published)
