"""`demo`: a whole study, streamed over the embedded log, with nothing to prepare."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import sys
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path

from streamproc.cli.declarations import PEOPLE
from streamproc.cli.demo.live_study import WatchedHealth, stream_study
from streamproc.cli.demo.screen import Screen
from streamproc.cli.demo.simulated_people import panel_csv, simulated_reports, study_text
from streamproc.cli.deployment_options import run_until_stopped
from streamproc.errors import InvalidInput
from streamproc.files.replay_output import results_folder
from streamproc.files.table import open_for_writing
from streamproc.replay.people import People
from streamproc.service.deployment import Deployment
from streamproc.service.http_server import Address, Listener
from streamproc.service.logging_setup import set_up_logs
from streamproc.service.monitor import ProcessMonitor
from streamproc.status_page import StatusPage
from streamproc.storage.filesystem import display_path

STUDY, PANEL = "study.toml", "panel.csv"
ENOUGH_PEOPLE = 2_000
"""With fewer, the noise that hides one of them hides most of the rest too."""

_OVERRIDES = ("STREAMPROC_BROKER", "STREAMPROC_STATE")


def demo(people: int, folder: Path | None, *, serve: bool, public: str | None, seed: int | None) -> None:
    """Stream the demo study, and show what comes out."""
    address = Address.parse(public or "127.0.0.1:0") if serve or public else None
    folder = _prepared(folder)
    with open_for_writing(folder / STUDY) as file:
        file.write(study_text(people).encode())
    deployment = Deployment.of(folder / STUDY, seed=seed, environ={})
    set_up_logs(deployment.study.name, as_json=False, level="WARNING")
    screen = Screen(deployment.study)
    screen.introduce(people, seeded=seed is not None)
    reports = _simulated(folder, people)
    health = WatchedHealth(deployment, screen)

    async def work() -> None:
        async with AsyncExitStack() as stack:
            where = None if address is None else await _serve_page(stack, address, deployment, health)
            if where is not None:
                screen.say(f"Status page, live: {where}\n")
            with screen:
                await stream_study(deployment, reports, screen, health)
            screen.conclude()
            if people < ENOUGH_PEOPLE:
                screen.say(f"So few people can only hide behind wide intervals: try --people {PEOPLE}.")
            screen.suggest(_suggestions(folder))
            if where is not None:
                screen.say(f"\nServing {where} and {where}/metrics until Ctrl-C.")
                await asyncio.Event().wait()

    run_until_stopped(work())
    released, horizon = len(screen.months), deployment.study.horizon
    if released < horizon:
        screen.say(f"\nStopped with {released} of {horizon} months released. Everything is in {folder}")


def _prepared(folder: Path | None) -> Path:
    """The folder to write to; one that holds an earlier demo is left as it is."""
    if folder is None:
        return Path(tempfile.mkdtemp(prefix="streamproc-"))
    for name in (STUDY, PANEL, "log", "poverty.state"):
        if (folder / name).exists():
            raise InvalidInput(
                f"--out {display_path(folder)}: {name} is there already, as after an earlier demo; name another folder"
            )
    results_folder(folder, (), inputs=())
    return folder


def _simulated(folder: Path, people: int) -> People:
    """What simulated people will report; it is in the folder now, too."""
    reports = simulated_reports(people)
    with open_for_writing(folder / PANEL) as file:
        file.write(panel_csv(reports))
    return reports


async def _serve_page(stack: AsyncExitStack, address: Address, deployment: Deployment, health: ProcessMonitor) -> str:
    """Where the status page is, until the stack is left."""
    metrics = health.public
    listener = Listener(address, metrics.registry, lambda: health.publicly_ready, version=lambda: metrics.version)
    page = StatusPage(deployment.study)
    page.attach(listener.app)
    where = _url(await listener.start())
    stack.push_async_callback(listener.stop)
    # A connection of its own, as an analyst would have.
    log = await stack.enter_async_context(deployment.connect())
    await stack.enter_async_context(page.following(log))
    return where


def _url(address: Address) -> str:
    host = f"[{address.host}]" if ":" in address.host else address.host
    return f"http://{host}:{address.port}"


def _suggestions(folder: Path) -> list[tuple[str, str]]:
    """What to try next: a purpose, and a command as it can be typed here with this installation."""
    study = str(folder / STUDY)
    replay = ["replay", study, str(folder / PANEL), "--out", str(folder / "again"), "--repeat", "100"]
    commands = [
        ("how far the study is, and what it has spent", ["status", study]),
        ("the ledger's chain and every column's digest, recomputed", ["verify", study]),
        ("the columns as they came", ["watch", study]),
        ("the synthetic people as files", ["pull", study, "--out", str(folder / "public")]),
        ("what it costs and how accurate it is, known before any data", ["plan", study]),
        ("the same people 100 times over, every answer beside the truth", replay),
    ]
    program = _program()
    return [(purpose, shlex.join([*program, *command])) for purpose, command in commands]


def _program() -> list[str]:
    """How to call this installation from here, on the study's own log and state whatever the environment says."""
    beside_python = Path(sys.executable).with_name("streamproc")
    found = shutil.which("streamproc")
    if found is not None and Path(found) == beside_python:
        program = ["streamproc"]
    elif not beside_python.exists():
        program = [sys.executable, "-m", "streamproc"]
    else:
        program = [os.path.relpath(beside_python) if beside_python.is_relative_to(Path.cwd()) else str(beside_python)]
    unset = [flag for name in _OVERRIDES if os.environ.get(name) for flag in ("-u", name)]
    return ["env", *unset, *program] if unset else program
