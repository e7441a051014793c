"""The processor time of `streamproc --help`, from the start of the process to its end."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from statistics import median

from bench.result import Result

LIMIT = 0.3
"""CPU seconds."""


def measure(quick: bool = False) -> Iterator[Result]:
    """The median of several runs, after one that compiles the modules."""
    runs = 1 if quick else 9
    seconds = [cpu_seconds([sys.executable, "-m", "streamproc", "--help"]) for _ in range(1 + runs)]
    yield Result(name="streamproc --help", value=median(seconds[1:]), unit="CPU s", limit=LIMIT)


def cpu_seconds(command: list[str]) -> float:
    """The user and system time of a process that must end well; what it prints is dropped."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise subprocess.CalledProcessError(process.returncode, command)
    return used.ru_utime + used.ru_stime
