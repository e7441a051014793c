"""The processes of a run: starting, killing and stopping them, and checking their exit codes."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.fault_plan import Fault
from tests.chaos.fault_timing import InjectedFault

ROOT = Path(__file__).parents[2]
KILLED = -signal.SIGKILL


@dataclass
class RunLog:
    """The log of a run: the faults, how processes ended, and violations."""

    events: Path
    """The file to which all events are appended."""
    ends: Counter[tuple[str, str, int]] = field(default_factory=Counter)
    """Number of exits by role, cause and exit code."""
    injected: list[InjectedFault] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)

    def note(self, line: str) -> None:
        """Append an event to the file, with the seconds since the start of the run."""
        with self.events.open("a") as file:
            file.write(f"{time.monotonic() - self.began:7.2f} {line}\n")

    @property
    def faults(self) -> Counter[tuple[str, str]]:
        """Number of injected faults by kind and role."""
        return Counter((injected_fault.kind, injected_fault.role) for injected_fault in self.injected)

    def fault(self, role: str, fault: Fault, period: int | None = None) -> None:
        """Record an injected fault; `period` is the one before whose release it comes, if it aims at one."""
        self.injected.append(InjectedFault(fault.kind, role, fault.aim, period, time.time()))
        self.note(f"{role}: {fault.kind}, {fault.aim}" + ("" if period is None else f", period {period}"))

    def violation(self, line: str) -> None:
        self.violations.append(line)
        self.note(f"VIOLATION {line}")

    def ended(self, role: str, name: str, cause: str, code: int, allowed: Collection[int]) -> None:
        """Record the exit of a process; a code that is not allowed is a violation."""
        self.ends[role, cause, code] += 1
        self.note(f"{name} ended with {code} ({cause})")
        if code not in allowed:
            self.violation(f"{name}: ended with {code} after {cause}, allowed: {sorted(allowed)}")


@dataclass
class Process:
    """One process; what it writes is in files named after it."""

    name: str
    process: asyncio.subprocess.Process
    began: float = field(default_factory=time.monotonic)
    killed: bool = False
    frozen: bool = False

    @property
    def runs(self) -> bool:
        return self.process.returncode is None

    def kill(self) -> bool:
        """Send SIGKILL; returns whether the process was running."""
        if not self.runs:
            return False
        self.killed = self._signal(signal.SIGKILL)
        return self.killed

    def freeze(self) -> bool:
        """Send SIGSTOP; returns whether the process was running."""
        if not self.runs:
            return False
        self.frozen = self._signal(signal.SIGSTOP)
        return self.frozen

    def thaw(self) -> None:
        self.frozen = False
        if self.runs:
            self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> bool:
        """Send a signal; returns whether the process existed.

        It does not use asyncio, which polls the process first and then reports its exit code as unknown (255).
        """
        try:
            os.kill(self.process.pid, number)
        except ProcessLookupError:
            return False
        return True

    async def end(self) -> int:
        return await self.process.wait()


class Starter:
    """Starts processes, each with its own output files, and ends them all at the end of the run."""

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self._environ = {**os.environ, **environ}
        self._started: list[Process] = []
        self._runs: Counter[str] = Counter()
        self._ending = False

    async def start(self, name: str, module: str, *arguments: object, environ: Mapping[str, str] | None = None) -> Process:
        """`python -m MODULE ARGUMENTS...`"""
        if self._ending:
            raise RuntimeError(f"{name}: too late, everything is being ended")
        self._runs[name] += 1
        output = self.folder / f"{name}-{self._runs[name]:03}"
        with output.with_suffix(".out").open("wb") as out, output.with_suffix(".err").open("wb") as err:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", module, *map(str, arguments), cwd=ROOT, env={**self._environ, **(environ or {})},
                stdin=asyncio.subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True,
            )  # fmt: skip
        self._started.append(Process(output.name, process))
        return self._started[-1]

    async def end_all(self) -> None:
        self._ending = True
        for process in self._started:
            process.kill()
        for process in self._started:
            await process.end()

    def output(self) -> dict[str, str]:
        """All output of the processes, by file name."""
        return {path.name: path.read_text(errors="replace") for path in sorted(self.folder.iterdir())}
