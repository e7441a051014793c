"""`close --wait` says what it waits for: line by line to a file, with a spinner to a terminal."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time

import pytest

from tests.stream.conftest import DeployStudy
from tests.stream.deployed_study import DeployedStudy, random_symbols
from tests.stream.programs import PATIENCE


def reported(deployed: DeployedStudy) -> None:
    deployed.do("send", deployed.write_panel(random_symbols("01", 200, 4, seed=8)), "--period", 1)


def test_without_roles_each_stage_is_a_line(deploy_study: DeployStudy) -> None:
    deployed = deploy_study("embedded")
    reported(deployed)
    closing = deployed.start("close", "--period", 1, "--wait")
    closing.says("period 1 is closed; waiting for a synthesizer to begin the study")
    deployed.start("synthesize", "--state", deployed.folder / "synthesizer")
    closing.says("period 1 is closed; waiting for gatherers to tally period 1 of partitions 0, 1, 2, 3")
    deployed.start("gather", "--state", deployed.folder / "gatherer")

    ended = closing.done()

    assert ended.out == "period 1 closed\nperiod 1 released\n"
    assert all(line.startswith("period 1 is closed; ") for line in ended.complaint.splitlines())


def test_on_a_terminal_a_spinner_says_it(deploy_study: DeployStudy) -> None:
    deployed = deploy_study("embedded")
    reported(deployed)
    terminal, inside = pty.openpty()
    command = [sys.executable, "-m", "streamproc", "close", str(deployed.file), "--period", "1", "--wait"]
    environ = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=inside, env=environ) as closing:
        os.close(inside)
        shown, deadline = b"", time.monotonic() + PATIENCE
        while b"waiting for a synthesizer to begin the study" not in shown:
            ready, _, _ = select.select([terminal], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                closing.kill()
                pytest.fail(f"the stage was not shown within {PATIENCE:g} s; shown: {shown!r}")
            shown += os.read(terminal, 10_000)
        closing.send_signal(signal.SIGINT)
        assert closing.wait(60) == 130
    os.close(terminal)
    frames = [frame.decode() for frame in shown.split(b"\r")]
    assert any("period 1 is closed; waiting for its release" in frame for frame in frames)
    assert len(frames) > 5, "it does not move"
