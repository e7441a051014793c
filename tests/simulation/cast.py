"""Who takes part: clients that report, gatherers, a steward who closes periods, subscribers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from streamproc.client.reporter import Reporter
from streamproc.client.subscribe import subscribe
from streamproc.errors import LogUnavailable, NoSuchTopic, OutcomeUnknown, Refused
from streamproc.privacy.types import Period
from streamproc.protocol.partitioner import home_partition
from streamproc.protocol.reports import encode_report
from streamproc.service.close import close_period
from streamproc.service.retry import retry_while_unavailable
from streamproc.service.workers import gather
from tests.simulation.deployed import STATE, WatchedHealth
from tests.simulation.process import Machine, Process
from tests.simulation.scene import PERIOD, STRANGE_SYMBOL, Utterance
from tests.simulation.sights import Sights
from tests.simulation.world import World

MENDABLE = ("cannot be read", "cannot be written", "cannot be used", "cannot be locked")
"""What a process says of a disk that fails or is full."""


async def keep_client(world: World, number: int, words: Sequence[Utterance]) -> None:
    """Says its words in time; one that dies goes on with the next."""
    machine, left = world.machine(f"client-{number}"), list(words)
    while left:
        process = world.process(f"client-{number}", machine)
        await process.run(_speak(world, process, left))
        await asyncio.sleep(0.1)


async def _speak(world: World, process: Process, left: list[Utterance]) -> None:
    async with process.log as log:
        reporter = Reporter(log, world.study)
        while left:
            await asyncio.sleep(max(left[0].at - world.now, 0.0))
            await _insist(world, process, reporter, left.pop(0))


async def _insist(world: World, process: Process, reporter: Reporter, words: Utterance) -> None:
    """Try again where the outcome is unknown, as a client does that would rather be counted twice than lost."""
    for attempt in range(4):
        try:
            await _say(world, process, reporter, words)
        except (LogUnavailable, OutcomeUnknown):
            if attempt < 3:
                world.journal.fault("client sends again", process.name)
            await asyncio.sleep(0.2 * 2**attempt)
        else:
            if words.way in ("alone", "packed", "committed") and process.alive:
                world.acknowledged.append((world.now, words.individual, words.period, words.symbol))
            return


async def _say(world: World, process: Process, reporter: Reporter, words: Utterance) -> None:
    study, log, topic = world.study, process.log, world.topics.reports
    right = 1 <= words.period <= study.horizon and words.symbol != STRANGE_SYMBOL
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
            world.journal.fault(f"client transaction {words.way}", process.name)
            transactor = await log.transactional_producer(f"{process.name}-{words.at}", timeout=2.0)
            await transactor.fence()
            await transactor.begin()
            await transactor.send(topic, home, value, key)
            if words.way == "committed":
                await transactor.commit()
            elif words.way == "aborted":
                await transactor.abort()
        case _:
            await log.append(topic, home, value, key)


async def keep_gatherer(world: World, number: int, pinned: Sequence[int], machine: Machine) -> None:
    """A gathering process that is started again whenever it ends, by an operator who mends what it complains of."""
    while True:
        process, before = world.process(f"gatherer-{number}", machine), _checkpoints(machine)
        end = await process.run(_gather(world, process, pinned))
        if end.done:
            return
        if end.failure is not None:
            world.journal.violated(9, f"a gatherer failed: {end.failure!r}")
            return
        if end.refusal is not None:
            if not process.started and (process.changed or _checkpoints(machine) != before):
                world.journal.violated(10, f"a refused gatherer did {process.changed}: {end.refusal}")
            if any(words in end.refusal for words in MENDABLE):
                machine.storage.capacity = None
            elif "delete it" in end.refusal:
                delete_file(world, machine, end.refusal)
            else:
                world.journal.violated(9, f"a gatherer refused: {end.refusal}")
                return
        await asyncio.sleep(world.random.uniform(0.1, 1.0))


async def _gather(world: World, process: Process, pinned: Sequence[int]) -> None:
    deployment = world.deployment(process)
    health = WatchedHealth(deployment)
    await retry_while_unavailable(process.log.__aenter__, health)
    await gather(deployment, process.log, health, pinned)


def _checkpoints(machine: Machine) -> dict[str, bytes]:
    return {name: content for name, content in machine.storage.files(STATE).items() if name.endswith(".state")}


def delete_file(world: World, machine: Machine, refusal: str) -> None:
    """The state file that a refusal says to delete."""
    if not machine.spoilt:
        world.journal.violated(9, f"a disk that kept everything has a file to delete: {refusal}")
    folder = machine.storage.storage.folder(STATE)
    folder.change({refusal.split("state file ")[1].split(":", maxsplit=1)[0]: None})
    folder.sync()


async def keep_steward(world: World, number: int) -> None:
    """Closes periods in time, again and again until it is done; two of them race."""
    machine = world.machine(f"steward-{number}")
    for period in range(1, world.scene.closes + 1):
        await asyncio.sleep(max(PERIOD * period - world.now, 0.0))
        while len(world.records.cuts()) < period:
            process = world.process(f"steward-{number}", machine)
            await process.run(_close(world, process, Period(period)))
            await asyncio.sleep(world.random.uniform(0.05, 0.5))


async def _close(world: World, process: Process, period: Period) -> None:
    world.cut_asked.setdefault(period, world.now)
    with suppress(LogUnavailable, OutcomeUnknown, Refused):
        await close_period(world.deployment(process), process.log, period)


async def keep_subscriber(world: World, number: int, sights: Sights, *, begins: float) -> None:
    """Reads every column as it comes, from the first on again whenever the connection fails."""
    await asyncio.sleep(begins)
    machine = world.machine(f"subscriber-{number}")
    while True:
        process = world.process(f"subscriber-{number}", machine)
        end = await process.run(_subscribe(world, process, sights))
        if end.done:
            return
        if end.failure is not None or end.refusal is not None:
            world.journal.violated(1, f"a subscriber failed: {end.failure or end.refusal!r}")
            return
        await asyncio.sleep(0.3)


async def _subscribe(world: World, process: Process, sights: Sights) -> None:
    given: dict[str, int] = {}
    with suppress(NoSuchTopic):
        async for published in subscribe(process.log, world.study):
            sights.see(process.name, given, published)
