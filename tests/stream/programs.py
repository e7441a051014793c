"""Real processes of the command line: started, watched, stopped, killed."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from streamproc.cli import main as app

ROOT = Path(__file__).parents[2]

PATIENCE = 120.0
"""Seconds after which something that ought to happen will not. No test asserts that anything is quicker."""


@dataclass(frozen=True)
class Ended:
    """How a program ended."""

    code: int
    out: str
    complaint: str


def call(*arguments: object) -> Ended:
    """`streamproc ARGUMENTS...` in this process, which is quicker; not for what runs on."""
    out, err = io.StringIO(), io.StringIO()
    argv, handler = sys.argv, signal.getsignal(signal.SIGTERM)
    sys.argv = ["streamproc", *map(str, arguments)]
    try:
        with redirect_stdout(out), redirect_stderr(err):
            app.main()
    except SystemExit as ended:
        assert ended.code is None or isinstance(ended.code, int)
        return Ended(ended.code or 0, out.getvalue(), err.getvalue())
    finally:
        sys.argv = argv
        signal.signal(signal.SIGTERM, handler)


class Program:
    """One process; what it prints is in files, so that it never waits for a reader."""

    def __init__(self, module: str, arguments: tuple[str, ...], output: Path, environ: Mapping[str, str]) -> None:
        self._out, self._err = output.with_suffix(".out"), output.with_suffix(".err")
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                cwd=ROOT, env=dict(environ), stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True,
            )  # fmt: skip

    @property
    def log(self) -> str:
        """What it has written to standard error so far."""
        return self._err.read_text()

    @property
    def out(self) -> str:
        return self._out.read_text()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def runs(self) -> bool:
        return self._process.poll() is None

    def says(self, text: str, times: int = 1) -> str:
        """Wait for lines with this text on standard error; the last of them."""
        deadline = time.monotonic() + PATIENCE
        while True:
            ended = not self.runs
            lines = [line for line in self.log.splitlines() if text in line]
            if len(lines) >= times:
                return lines[times - 1]
            assert not ended, f"it ended with {self._process.returncode} and did not say {text!r}:\n{self.log}"
            assert time.monotonic() < deadline, f"it does not say {text!r}:\n{self.log}"
            time.sleep(0.05)

    def end(self) -> Ended:
        """Wait for it to end by itself."""
        try:
            code = self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it does not end:\n{self.log}") from None
        return Ended(code, self._out.read_text(), self.log)

    def done(self) -> Ended:
        """Wait for it to end well."""
        ended = self.end()
        assert ended.code == 0, ended.complaint
        return ended

    def stop(self) -> Ended:
        """SIGTERM, and wait."""
        self._process.send_signal(signal.SIGTERM)
        return self.end()

    def kill(self) -> None:
        """SIGKILL, if it still runs."""
        self._process.kill()
        self._process.wait()

    def freeze(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._process.send_signal(signal.SIGCONT)


class Programs:
    """Starts programs. With `with`, none outlives the test, however that ends."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started: list[Program] = []

    def start(self, *arguments: object, module: str = "streamproc", environ: Mapping[str, str] | None = None) -> Program:
        """`streamproc ARGUMENTS...`"""
        output = self._folder / f"program-{len(self._started)}"
        everything = {**os.environ, "STREAMPROC_DEBUG": "1", **(environ or {})}
        self._started.append(Program(module, tuple(map(str, arguments)), output, everything))
        return self._started[-1]

    def __enter__(self) -> Programs:
        return self

    def __exit__(self, *error: object) -> None:
        for program in self._started:
            program.kill()
