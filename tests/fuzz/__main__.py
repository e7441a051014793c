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

from tests.fuzz.tally import Seen
from tests.fuzz.targets import TARGETS
from tests.fuzz.trial import MIB, tried
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

    def of(self, name: str) -> list[Seen]:
        """Feed one target, or all of them in one process, and see."""
        with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
            seen = self._fed(name, Path(folder))
            for one in seen:
                one.saved = [self._kept(Path(saved)) for saved in one.saved]
        return seen

    def _fed(self, name: str, folder: Path) -> list[Seen]:
        arguments = [name, str(self.inputs), str(self.seconds), str(self.seed), str(folder)]
        command = [sys.executable, "-m", "tests.fuzz.worker", *arguments]
        # Instrumented code must not be found in, or left in, the cache of compiled files.
        environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
        with (folder / "stderr").open("w+b") as said:
            with suppress(subprocess.TimeoutExpired):
                longest = self.seconds + _GRACE
                subprocess.run(command, env=environment, stdout=said, stderr=said, timeout=longest, check=False)
            said.seek(0)
            told = said.read()
        names = list(TARGETS) if name == EVERY else [name]
        reached = _REACHED.findall(told)
        return [_read(folder, each, int(reached[-1]) if reached else None, told) for each in names]

    def _kept(self, path: Path) -> str:
        self.crashes.mkdir(parents=True, exist_ok=True)
        return str(shutil.copy(path, self.crashes / path.name))


def _read(folder: Path, name: str, edges: int | None, told: bytes) -> Seen:
    """What a process wrote down; one that was killed by an input left that input instead."""
    path = folder / f"{name}.json"
    if path.exists():
        seen = Seen.from_json(path.read_text())
    else:
        last = told.decode(errors="replace").strip().splitlines()[-1:] or ["it said nothing"]
        seen = Seen(name, crashes={f"the process ended: {last[0][:100]}": 1})
        seen.saved = [str(left) for kind in ("crash-*", "timeout-*", "oom-*") for left in folder.glob(kind)]
    seen.edges = edges
    return seen


HEADER = f"{'target':<18}{'inputs':>9}{'decode':>9}{'edges':>7}{'slowest':>10}{'memory':>10}{'of bound':>10}{'crashes':>9}"


def line(seen: Seen) -> str:
    """One target: under `HEADER` its figures, and for each kind of crash how to repeat it."""
    edges = "-" if seen.edges is None else str(seen.edges)
    figures = (
        f"{seen.target:<18}{seen.inputs:>9}{seen.decoded:>9}{edges:>7}{seen.slowest * 1000:>7.0f} ms"
        f"{seen.largest / MIB:>6.2f} MiB{seen.fullest:>10.1%}{sum(seen.crashes.values()):>9}"
    )
    crashes = [f"  {seen.target}: {count} x {place}" for place, count in seen.crashes.items()]
    repeat = [f"  repeat: python -m tests.fuzz --target {seen.target} --repeat {saved}" for saved in seen.saved]
    return "\n".join([figures, *crashes, *repeat])


def summary(found: Sequence[Seen]) -> str:
    """All targets in one line."""
    inputs, crashes = sum(seen.inputs for seen in found), sum(sum(seen.crashes.values()) for seen in found)
    largest = max(seen.largest for seen in found)
    fullest = max(found, key=lambda seen: seen.fullest)
    return (
        f"{inputs} inputs, {len(found)} decoders, {crashes} crashes, "
        f"at most {largest / MIB:.2f} MiB, at most {fullest.fullest:.1%} of a bound ({fullest.target})"
    )


def run(names: Sequence[str], inputs: int, seconds: float, seed: int, crashes: Path, jobs: int) -> Iterator[Seen]:
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
        print(tried(TARGETS[names[0]], asked.repeat.read_bytes()))
        return 0
    if not has_atheris():
        print(
            "atheris is not here (it has wheels for Linux on x86-64): inputs are changed by chance, not guided by coverage"
        )
    print(HEADER)
    found = []
    for seen in run(names, asked.inputs, asked.seconds, asked.seed, asked.crashes, asked.jobs):
        print(line(seen), flush=True)
        found.append(seen)
    print(summary(found))
    return int(any(seen.crashes for seen in found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
