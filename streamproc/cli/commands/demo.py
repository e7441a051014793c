"""`demo`: stream a whole study of simulated people over the embedded log. It needs no preparation."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import sys
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path

from streamproc.cli.declarations import DEMO_PEOPLE
from streamproc.cli.demo.screen import Screen
from streamproc.cli.demo.simulated_study import panel_csv, simulate_reports, study_text
from streamproc.cli.demo.stream import ScreenMonitor, stream_study
from streamproc.cli.event_loop import run_until_stopped
from streamproc.errors import InvalidInput
from streamproc.files.release_files import results_folder
from streamproc.files.table import open_for_writing
from streamproc.offline.people import People
from streamproc.service.deployment import Deployment
from streamproc.service.http_server import Address, Listener
from streamproc.service.logging_setup import set_up_logs
from streamproc.service.monitor import ProcessMonitor
from streamproc.status_page import StatusPage
from streamproc.storage.filesystem import display_path

STUDY, PANEL = "study.toml", "panel.csv"
ENOUGH_PEOPLE = 2_000
"""Number of people below which intervals are too wide to be useful."""

_OVERRIDES = ("STREAMPROC_BROKER", "STREAMPROC_STATE")


def demo(people: int, folder: Path | None, *, serve: bool, public: str | None, seed: int | None) -> None:
    """Stream the demo study, show its answers beside the truth, and serve the status page if asked to."""
    address = Address.parse(public or "127.0.0.1:0") if serve or public else None
    folder = _prepare_folder(folder)
    with open_for_writing(folder / STUDY) as file:
        file.write(study_text(people).encode())
    deployment = Deployment.of(folder / STUDY, seed=seed, environ={})
    set_up_logs(deployment.study.name, as_json=False, level="WARNING")
    screen = Screen(deployment.study)
    screen.introduce(people, seeded=seed is not None)
    reports = _simulate(folder, people)
    monitor = ScreenMonitor(deployment, screen)

    async def work() -> None:
        async with AsyncExitStack() as stack:
            url = None if address is None else await _serve_page(stack, address, deployment, monitor)
            if url is not None:
                screen.print_line(f"Status page, live: {url}\n")
            with screen:
                await stream_study(deployment, reports, screen, monitor)
            screen.conclude()
            if people < ENOUGH_PEOPLE:
                screen.print_line(f"With so few people the intervals are wide: try --people {DEMO_PEOPLE}.")
            screen.suggest(_suggestions(folder))
            if url is not None:
                screen.print_line(f"\nServing {url} and {url}/metrics until Ctrl-C.")
                await asyncio.Event().wait()

    run_until_stopped(work())
    released, horizon = len(screen.months), deployment.study.horizon
    if released < horizon:
        screen.print_line(f"\nStopped with {released} of {horizon} months released. Everything is in {folder}")


def _prepare_folder(folder: Path | None) -> Path:
    """Return the folder to write to. Raises InvalidInput, and changes nothing, if it holds an earlier demo."""
    if folder is None:
        return Path(tempfile.mkdtemp(prefix="streamproc-"))
    for name in (STUDY, PANEL, "log", "poverty.state"):
        if (folder / name).exists():
            raise InvalidInput(
                f"--out {display_path(folder)}: {name} already exists, perhaps from an earlier demo. Name another folder."
            )
    results_folder(folder, (), inputs=())
    return folder


def _simulate(folder: Path, people: int) -> People:
    """Simulate the reports of people, and write them to the folder as a panel file."""
    reports = simulate_reports(people)
    with open_for_writing(folder / PANEL) as file:
        file.write(panel_csv(reports))
    return reports


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
