"""Reporters and the steward: a period is sent under kills and stops until all of it is acknowledged, then it is closed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

from tests.chaos.crew import harm
from tests.chaos.mail import letters, write_letters
from tests.chaos.plan import REPORTERS, Fault
from tests.chaos.processes import KILLED, Process
from tests.chaos.stage import Stage

SENDING = 3.0
"""Seconds that the reporting program takes for a period if nobody disturbs it."""
AHEAD = 2
"""Periods that may be closed before one is released."""

Start = Callable[[], Awaitable[Process]]


async def report_and_close(stage: Stage) -> None:
    """All periods, one after the other: half of the people by the reporting program, half by `streamproc send`."""
    half = len(stage.study.people) // 2
    panel = stage.folder / "panel.csv"
    stage.study.write_panel(panel, range(half, len(stage.study.people)))
    for period in range(1, stage.study.horizon + 1):
        if stage.hopeless:
            return
        stage.reporting = period
        stage.journal.note(f"period {period} is reported")
        await asyncio.gather(_by_program(stage, range(half), period), _by_command(stage, panel, half, period))
        await stage.until(
            lambda period=period: stage.plan.lets_close(period),  # type: ignore[misc]
            f"the faults before the cut of period {period}",
        )
        await stage.until(
            lambda period=period: stage.subscriber.released >= period - AHEAD,  # type: ignore[misc]
            f"period {period - AHEAD}",
        )
        await _close(stage, period)


async def _by_program(stage: Stage, people: range, period: int) -> None:
    mail, journal = stage.folder / f"letters-{period}", stage.folder / f"acknowledged-{period}"
    true, ignored = letters(stage.study, people, period)
    write_letters(mail, true, ignored)
    server, pace = stage.broker.url.removeprefix("kafka://"), max(100.0, (len(true) + len(ignored)) / SENDING)

    async def start() -> Process:
        arguments = (server, f"{stage.study.name}.reports", mail, journal, pace)
        return await stage.starter.start("program", "tests.chaos.reporter", *arguments)

    await _until_sent(stage, REPORTERS[0], start, period)
    for number in journal.read_text().split():
        if int(number) < len(true) and (report := true[int(number)].report) is not None:
            stage.acknowledged[report[:2]] = report[2]


async def _by_command(stage: Stage, panel: Path, first: int, period: int) -> None:
    async def start() -> Process:
        return await stage.starter.start("send", "streamproc", "send", stage.file, panel, "--period", period)

    await _until_sent(stage, REPORTERS[1], start, period)
    for person in range(first, len(stage.study.people)):
        if (symbol := stage.study.symbol(person, period)) is not None:
            stage.acknowledged[stage.study.people[person], period] = symbol


async def _until_sent(stage: Stage, track: str, start: Start, period: int) -> None:
    """Start the reporter again until its faults of this period have all hit it and it has ended well."""
    faults = stage.plan.tracks[track]
    while True:
        process = await start()
        harmed = asyncio.ensure_future(_harm_once(stage, process, [fault for fault in faults if fault.period <= period]))
        code = await process.end()
        if await harmed:
            del faults[0]
        elif faults and faults[0].period <= period:
            # It was through too soon: what is sent once more is hit somewhat earlier.
            faults[0] = replace(faults[0], delay=0.7 * faults[0].delay)
        cause = "kill -9" if process.killed else "nothing"
        # A signal may come when it has just ended.
        allowed = stage.allowed(process) | ({KILLED} if process.killed else set())
        stage.journal.ended("reporter", process.name, cause, code, allowed)
        if code == 0 and not any(fault.period <= period for fault in faults):
            return


async def _harm_once(stage: Stage, process: Process, faults: list[Fault]) -> bool:
    """The next fault, at its moment; whether it came before the end."""
    if not faults:
        return False
    moment = process.began + faults[0].delay
    while time.monotonic() < moment:
        if not process.runs:
            return False
        await asyncio.sleep(0.005)
    return await harm(stage, process, "reporter", faults[0])


async def _close(stage: Stage, period: int) -> None:
    """By two stewards at once in every third period: the first cut counts."""
    for _ in range(20):
        closers = [
            await stage.starter.start("close", "streamproc", "close", stage.file, "--period", period)
            for _ in range(2 if period % 3 == 0 else 1)
        ]
        codes = []
        for closer in closers:
            codes.append(await closer.end())
            stage.journal.ended("close", closer.name, "nothing", codes[-1], stage.allowed(closer))
        if 0 in codes:
            return
    stage.journal.violation(f"9: period {period} cannot be closed")
