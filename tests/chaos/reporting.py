"""Reporters and the steward: a period is sent under kills and stops until all of it is acknowledged, then it is closed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

from tests.chaos.fault_plan import REPORTERS, Fault
from tests.chaos.nemesis import inject
from tests.chaos.processes import KILLED, Process
from tests.chaos.run_context import RunContext
from tests.chaos.workload import draw_messages, write_messages

SENDING = 3.0
"""Seconds that the reporting program takes for a period if nobody disturbs it."""
AHEAD = 2
"""Periods that may be closed before one is released."""

Start = Callable[[], Awaitable[Process]]


async def report_and_close(context: RunContext) -> None:
    """All periods, one after the other: half of the people by the reporting program, half by `streamproc send`."""
    half = len(context.study.people) // 2
    panel = context.folder / "panel.csv"
    context.study.write_panel(panel, range(half, len(context.study.people)))
    for period in range(1, context.study.horizon + 1):
        if context.given_up:
            return
        context.reporting = period
        context.run_log.note(f"period {period} is reported")
        await asyncio.gather(_by_program(context, range(half), period), _by_command(context, panel, half, period))
        await context.until(
            lambda period=period: context.plan.lets_close(period),  # type: ignore[misc]
            f"the faults before the cut of period {period}",
        )
        await context.until(
            lambda period=period: context.subscriber.released >= period - AHEAD,  # type: ignore[misc]
            f"period {period - AHEAD}",
        )
        await _close(context, period)


async def _by_program(context: RunContext, people: range, period: int) -> None:
    messages, acknowledged = context.folder / f"messages-{period}", context.folder / f"acknowledged-{period}"
    true, ignored = draw_messages(context.study, people, period)
    write_messages(messages, true, ignored)
    server, pace = context.broker.url.removeprefix("kafka://"), max(100.0, (len(true) + len(ignored)) / SENDING)

    async def start() -> Process:
        arguments = (server, f"{context.study.name}.reports", messages, acknowledged, pace)
        return await context.starter.start("program", "tests.chaos.reporter", *arguments)

    await _until_sent(context, REPORTERS[0], start, period)
    for number in acknowledged.read_text().split():
        if int(number) < len(true) and (report := true[int(number)].report) is not None:
            context.acknowledged[report[:2]] = report[2]


async def _by_command(context: RunContext, panel: Path, first: int, period: int) -> None:
    async def start() -> Process:
        return await context.starter.start("send", "streamproc", "send", context.file, panel, "--period", period)

    await _until_sent(context, REPORTERS[1], start, period)
    for person in range(first, len(context.study.people)):
        if (symbol := context.study.symbol(person, period)) is not None:
            context.acknowledged[context.study.people[person], period] = symbol


async def _until_sent(context: RunContext, track: str, start: Start, period: int) -> None:
    """Start the reporter again until its faults of this period have all hit it and it has ended well."""
    faults = context.plan.tracks[track]
    while True:
        process = await start()
        injection = asyncio.ensure_future(
            _inject_once(context, process, [fault for fault in faults if fault.period <= period])
        )
        code = await process.end()
        if await injection:
            del faults[0]
        elif faults and faults[0].period <= period:
            # It was through too soon: what is sent once more is hit somewhat earlier.
            faults[0] = replace(faults[0], delay=0.7 * faults[0].delay)
        cause = "kill -9" if process.killed else "nothing"
        # A signal may come when it has just ended.
        allowed = context.allowed(process) | ({KILLED} if process.killed else set())
        context.run_log.ended("reporter", process.name, cause, code, allowed)
        if code == 0 and not any(fault.period <= period for fault in faults):
            return


async def _inject_once(context: RunContext, process: Process, faults: list[Fault]) -> bool:
    """The next fault, at its moment; whether it came before the end."""
    if not faults:
        return False
    planned = process.began + faults[0].delay
    while time.monotonic() < planned:
        if not process.runs:
            return False
        await asyncio.sleep(0.005)
    return await inject(context, process, "reporter", faults[0])


async def _close(context: RunContext, period: int) -> None:
    """By two stewards at once in every third period: the first cut counts."""
    for _ in range(20):
        closers = [
            await context.starter.start("close", "streamproc", "close", context.file, "--period", period)
            for _ in range(2 if period % 3 == 0 else 1)
        ]
        codes = []
        for closer in closers:
            codes.append(await closer.end())
            context.run_log.ended("close", closer.name, "nothing", codes[-1], context.allowed(closer))
        if 0 in codes:
            return
    context.run_log.violation(f"9: period {period} cannot be closed")
