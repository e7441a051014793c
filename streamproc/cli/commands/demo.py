"""`demo`: stream a whole study of simulated people over the embedded log. It needs no preparation.

With `--open` people sign up and leave for three years, and the study ends with the last month that is closed.

The roles are the real ones. A loop sends the reports of a month, closes it, and reads the answers as an analyst would.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import sys
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import numpy as np

from streamproc.cli.declarations import DEMO_PEOPLE
from streamproc.cli.demo.progress import AnyMonth, ProgressScreen
from streamproc.cli.demo.scenario import OpenScenario, Scenario, YearScenario
from streamproc.cli.demo.simulated_study import panel_csv
from streamproc.cli.event_loop import run_until_stopped
from streamproc.client.public_reader import PublicReader
from streamproc.client.reporter import Reporter
from streamproc.errors import InvalidInput
from streamproc.files.release_files import results_folder
from streamproc.files.table import open_for_writing
from streamproc.log.port import Log
from streamproc.log.topic_setup import set_up_topics
from streamproc.offline.people import MISSING, People
from streamproc.privacy.types import Period
from streamproc.service.close import close_period
from streamproc.service.deployment import Deployment
from streamproc.service.http_server import Address, Listener
from streamproc.service.logging_setup import set_up_logs
from streamproc.service.monitor import ProcessMonitor
from streamproc.service.workers import gather, synthesize
from streamproc.status_page import StatusPage
from streamproc.storage.filesystem import display_path

STUDY, PANEL = "study.toml", "panel.csv"
ENOUGH_PEOPLE = 2_000
"""Number of people below which intervals are too wide to be useful."""

_SLICES = 8
"""On a terminal, the number of parts in which a month's reports are sent, so that progress is visible."""

_PAUSE_S = 0.05
"""Seconds between two such parts."""

_OVERRIDES = ("STREAMPROC_BROKER", "STREAMPROC_STATE")


def demo(people: int, folder: Path | None, *, is_open: bool, serve: bool, public: str | None, seed: int | None) -> None:
    """Stream the demo study, show its answers beside the truth, and serve the status page if asked to."""
    address = Address.parse(public or "127.0.0.1:0") if serve or public else None
    folder = _prepare_folder(folder)
    if is_open:
        _run(OpenScenario(people), people, folder, address, seed)
    else:
        _run(YearScenario(people), people, folder, address, seed)


def _run(scenario: Scenario[AnyMonth], people: int, folder: Path, address: Address | None, seed: int | None) -> None:
    for name, content in ((STUDY, scenario.text.encode()), (PANEL, panel_csv(scenario.reports))):
        with open_for_writing(folder / name) as file:
            file.write(content)
    deployment = Deployment.of(folder / STUDY, seed=seed, environ={})
    set_up_logs(deployment.study.name, as_json=False, level="WARNING")
    screen = scenario.screen(deployment.study)
    screen.introduce(people, seeded=seed is not None)
    monitor = _ScreenMonitor(deployment, screen)

    async def work() -> None:
        async with AsyncExitStack() as stack:
            url = None if address is None else await _serve_page(stack, address, deployment, monitor)
            if url is not None:
                screen.print_line(f"Status page, live: {url}\n")
            with screen:
                await _stream_study(deployment, scenario, screen, monitor)
            screen.conclude()
            if people < ENOUGH_PEOPLE:
                screen.print_line(f"With so few people the intervals are wide: try --people {DEMO_PEOPLE}.")
            screen.suggest(_suggestions(folder))
            if url is not None:
                screen.print_line(f"\nServing {url} and {url}/metrics until Ctrl-C.")
                await asyncio.Event().wait()

    run_until_stopped(work())
    released, months = len(screen.months), scenario.reports.periods
    if released < months:
        screen.print_line(f"\nStopped with {released} of {months} months released. Everything is in {folder}")


def _prepare_folder(folder: Path | None) -> Path:
    """Return the folder to write to. Raises InvalidInput, and changes nothing, if it holds an earlier demo."""
    if folder is None:
        return Path(tempfile.mkdtemp(prefix="streamproc-"))
    for name in (STUDY, PANEL, "log", "poverty.state", "accounts.state"):
        if (folder / name).exists():
            raise InvalidInput(
                f"--out {display_path(folder)}: {name} already exists, perhaps from an earlier demo. Name another folder."
            )
    results_folder(folder, (), inputs=())
    return folder


class _ScreenMonitor(ProcessMonitor):
    """A process monitor that also updates the screen."""

    def __init__(self, deployment: Deployment, screen: ProgressScreen[Any]) -> None:
        super().__init__(deployment)
        self._screen = screen

    def read(self, partition: int, records: int, lag: int) -> None:
        """Count records that a gatherer has read. The demo sends single reports, so a record is a report."""
        super().read(partition, records, lag)
        self._screen.add_gathered(records)

    def tallied(self, partition: int, period: Period, people: int) -> None:
        """Count the tally of one partition that was sent."""
        super().tallied(partition, period, people)
        self._screen.add_tally()


async def _stream_study(
    deployment: Deployment, scenario: Scenario[AnyMonth], screen: ProgressScreen[AnyMonth], monitor: ProcessMonitor
) -> None:
    """Run the roles, and stream the study from the first report to the last column."""
    async with deployment.connect() as role_log, deployment.connect() as public_log:
        await set_up_topics(public_log, deployment.study)
        async with asyncio.TaskGroup() as group:
            group.create_task(gather(deployment, role_log, monitor))
            group.create_task(synthesize(deployment, role_log, monitor, catch_up=False))
            await _stream_months(deployment, public_log, scenario, screen)


async def _stream_months(
    deployment: Deployment, log: Log, scenario: Scenario[AnyMonth], screen: ProgressScreen[AnyMonth]
) -> None:
    """For each month: send its reports, close it, wait for its release, and show it. Months do not overlap."""
    study, reports = deployment.study, scenario.reports
    reporter, public = Reporter(log, study), PublicReader(log, study)
    try:
        for month in range(1, reports.periods + 1):
            period = Period(month)
            count = await _send_month(reporter, reports, period, study.alphabet, screen)
            await close_period(deployment, log, period, last=scenario.ends and month == reports.periods)
            screen.mark_closed()
            while public.period < period:
                await public.poll(timeout=0.5)
            screen.add_month(scenario.released_month(public, period, count))
    finally:
        await public.close()


async def _send_month(
    reporter: Reporter, reports: People, period: Period, alphabet: tuple[str, ...], screen: ProgressScreen[Any]
) -> int:
    """Send a month's reports, and return their number."""
    assert reports.ids is not None
    column = reports.symbols[:, period - 1]
    reporting = np.flatnonzero(column != MISSING)
    screen.begin_month(len(reporting))
    for part in np.array_split(reporting, _SLICES if screen.is_terminal else 1):
        rows = part.tolist()
        await reporter.report_all([reports.ids[row] for row in rows], period, [alphabet[column[row]] for row in rows])
        screen.add_sent(len(rows))
        if screen.is_terminal:
            await asyncio.sleep(_PAUSE_S)
    return len(reporting)


async def _serve_page(stack: AsyncExitStack, address: Address, deployment: Deployment, monitor: ProcessMonitor) -> str:
    """Serve the status page until the stack is left. Returns its address."""
    metrics = monitor.public
    listener = Listener(address, metrics.registry, lambda: monitor.publicly_ready, version=lambda: metrics.version)
    page = StatusPage(deployment.study)
    page.attach(listener.app)
    url = _url(await listener.start())
    stack.push_async_callback(listener.stop)
    # A separate connection, because the page has only an analyst's rights.
    log = await stack.enter_async_context(deployment.connect())
    await stack.enter_async_context(page.following(log))
    return url


def _url(address: Address) -> str:
    host = f"[{address.host}]" if ":" in address.host else address.host
    return f"http://{host}:{address.port}"


def _suggestions(folder: Path) -> list[tuple[str, str]]:
    """Return what to try next: pairs of a purpose and a command that runs this installation from the working folder."""
    study = str(folder / STUDY)
    replay = ["replay", study, str(folder / PANEL), "--out", str(folder / "again"), "--repeat", "100"]
    commands = [
        ("how far the study is, and what it has spent", ["status", study]),
        ("the ledger's chain and every column's digest, recomputed", ["verify", study]),
        ("the columns in the order of their release", ["watch", study]),
        ("the synthetic people as files", ["pull", study, "--out", str(folder / "public")]),
        ("what it costs and how accurate it is, computed before there is any data", ["plan", study]),
        ("the same people 100 times, with the error of every answer", replay),
    ]
    program = _program()
    return [(purpose, shlex.join([*program, *command])) for purpose, command in commands]


def _program() -> list[str]:
    """Return the words that run this installation from the working folder, with the study file's own broker and state."""
    installed_script = Path(sys.executable).with_name("streamproc")
    found = shutil.which("streamproc")
    if found is not None and Path(found) == installed_script:
        program = ["streamproc"]
    elif not installed_script.exists():
        program = [sys.executable, "-m", "streamproc"]
    else:
        program = [
            os.path.relpath(installed_script) if installed_script.is_relative_to(Path.cwd()) else str(installed_script)
        ]
    unset = [flag for name in _OVERRIDES if os.environ.get(name) for flag in ("-u", name)]
    return ["env", *unset, *program] if unset else program
