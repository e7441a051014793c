"""Feed every decoder many inputs, each target in a process of its own, and say what came of it.

    python -m tests.fuzz --inputs 1000000 [--seconds N] [--target NAME] [--seed N] [--crashes DIR]
    python -m tests.fuzz --target NAME --repeat FILE

Ends with 1 if there was a crash: an error that is not declared, more memory than the bound (measured of one input in ten),
or more than 20 s for one input.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz.target_statistics import TargetStatistics
from tests.fuzz.targets import TARGETS
from tests.fuzz.trial import MIB, run_trial
from tests.fuzz.worker import EVERY, has_atheris

_REACHED = re.compile(rb"\bcov: (\d+)")
_GRACE = 240
"""Seconds a process may take beyond its time: to start, and until libFuzzer gives up on an input."""


@dataclass(frozen=True)
class Run:
    """What is asked of each process."""

    inputs: int
    seconds: float
    seed: int
    crashes: Path

    def of(self, name: str) -> list[TargetStatistics]:
        """Feed one target, or all of them in one process, and see."""
        with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
            statistics = self._run_worker(name, Path(folder))
            for one in statistics:
                one.saved = [self._save_crash(Path(saved)) for saved in one.saved]
        return statistics

    def _run_worker(self, name: str, folder: Path) -> list[TargetStatistics]:
        arguments = [name, str(self.inputs), str(self.seconds), str(self.seed), str(folder)]
        command = [sys.executable, "-m", "tests.fuzz.worker", *arguments]
        # Instrumented code must not be found in, or left in, the cache of compiled files.
        environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
        with (folder / "stderr").open("w+b") as said:
            with suppress(subprocess.TimeoutExpired):
                longest = self.seconds + _GRACE
                subprocess.run(command, env=environment, stdout=said, stderr=said, timeout=longest, check=False)
            said.seek(0)
            output = said.read()
        names = list(TARGETS) if name == EVERY else [name]
        reached = _REACHED.findall(output)
        return [_read(folder, each, int(reached[-1]) if reached else None, output) for each in names]

    def _save_crash(self, path: Path) -> str:
        self.crashes.mkdir(parents=True, exist_ok=True)
        return str(shutil.copy(path, self.crashes / path.name))


def _read(folder: Path, name: str, edges: int | None, output: bytes) -> TargetStatistics:
    """What a process wrote down; one that was killed by an input left that input instead."""
    path = folder / f"{name}.json"
    if path.exists():
        statistics = TargetStatistics.from_json(path.read_text())
    else:
        last = output.decode(errors="replace").strip().splitlines()[-1:] or ["it said nothing"]
        statistics = TargetStatistics(name, crashes={f"the process ended: {last[0][:100]}": 1})
        statistics.saved = [str(left) for kind in ("crash-*", "timeout-*", "oom-*") for left in folder.glob(kind)]
    statistics.edges = edges
    return statistics


HEADER = f"{'target':<18}{'inputs':>9}{'decode':>9}{'edges':>7}{'slowest':>10}{'memory':>10}{'of bound':>10}{'crashes':>9}"


def line(statistics: TargetStatistics) -> str:
    """One target: under `HEADER` its figures, and for each kind of crash how to repeat it."""
    edges = "-" if statistics.edges is None else str(statistics.edges)
    figures = (
        f"{statistics.target:<18}{statistics.inputs:>9}{statistics.decoded:>9}{edges:>7}{statistics.slowest * 1000:>7.0f} ms"
        f"{statistics.largest / MIB:>6.2f} MiB{statistics.fullest:>10.1%}{sum(statistics.crashes.values()):>9}"
    )
    crashes = [f"  {statistics.target}: {count} x {place}" for place, count in statistics.crashes.items()]
    repeat = [f"  repeat: python -m tests.fuzz --target {statistics.target} --repeat {saved}" for saved in statistics.saved]
    return "\n".join([figures, *crashes, *repeat])


def summary(found: Sequence[TargetStatistics]) -> str:
    """All targets in one line."""
    inputs, crashes = (
        sum(statistics.inputs for statistics in found),
        sum(sum(statistics.crashes.values()) for statistics in found),
    )
    largest = max(statistics.largest for statistics in found)
    fullest = max(found, key=lambda statistics: statistics.fullest)
    return (
        f"{inputs} inputs, {len(found)} decoders, {crashes} crashes, "
        f"at most {largest / MIB:.2f} MiB, at most {fullest.fullest:.1%} of a bound ({fullest.target})"
    )


def run(
    names: Sequence[str], inputs: int, seconds: float, seed: int, crashes: Path, jobs: int
) -> Iterator[TargetStatistics]:
    """Each target in a process, `jobs` at a time; `inputs` are shared out equally, `seconds` are for each."""
    one = Run(-(-inputs // len(names)), seconds, seed, crashes)
    with ThreadPoolExecutor(jobs) as pool:
        for found in pool.map(one.of, names):
            yield from found


def main(arguments: Sequence[str]) -> int:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Feed every decoder hostile input.")
    parser.add_argument("--inputs", type=int, default=100_000, help="in all, shared out equally")
    parser.add_argument("--seconds", type=float, default=3600.0, help="at most, for each target")
    parser.add_argument("--target", choices=TARGETS, action="append")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--crashes", type=Path, default=Path("fuzz-crashes"), help="where inputs that crash are kept")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--repeat", type=Path, help="feed the target this one input, and show what it raises")
    asked = parser.parse_args(arguments)
    names = asked.target or list(TARGETS)
    if asked.repeat is not None:
        print(run_trial(TARGETS[names[0]], asked.repeat.read_bytes()))
        return 0
    if not has_atheris():
        print(
            "atheris is not here (it has wheels for Linux on x86-64): inputs are changed by chance, not guided by coverage"
        )
    print(HEADER)
    found = []
    for statistics in run(names, asked.inputs, asked.seconds, asked.seed, asked.crashes, asked.jobs):
        print(line(statistics), flush=True)
        found.append(statistics)
    print(summary(found))
    return int(any(statistics.crashes for statistics in found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
