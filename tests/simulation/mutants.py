"""`python -m tests.simulation.mutants [NAME...]`: break the stream, and see after how many seeds it is noticed."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.simulation.mutant_table import MUTANTS, Mutant

PROJECT = Path(__file__).resolve().parents[2]

SEEDS = 3000
"""After so many without a violation a mutant counts as not noticed."""


@dataclass(frozen=True)
class Hunted:
    """What became of a mutant; `seeds` is None if nobody noticed it."""

    seeds: int | None
    noticed: str
    """The first promise that it broke."""


@contextmanager
def mutated(mutant: Mutant | None) -> Iterator[Path]:
    """A copy of the project that is broken in this way; None: a sound one."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "project"
        for part in ("streamproc", "tests"):
            shutil.copytree(PROJECT / part, copy / part, ignore=shutil.ignore_patterns("__pycache__", "node_modules"))
        shutil.copy(PROJECT / "pyproject.toml", copy)
        if mutant is not None:
            file = copy / "streamproc" / mutant.file
            sound = file.read_text()
            assert sound.count(mutant.right) == 1, f"{mutant.name}: its text does not stand exactly once in {mutant.file}"
            file.write_text(sound.replace(mutant.right, mutant.wrong))
        yield copy


def hunt(mutant: Mutant | None, seeds: int = SEEDS) -> Hunted:
    """Simulate one seed after the other until a promise is broken."""
    with mutated(mutant) as copy:
        command = [sys.executable, "-m", "tests.simulation.hunt", str(seeds)]
        done = subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise RuntimeError(done.stderr)
    number, _, noticed = done.stdout.strip().partition(" ")
    return Hunted(int(number) if done.returncode else None, noticed)


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: how many were not noticed."""
    parser = argparse.ArgumentParser(prog="mutants", description="Break the stream, and see that the simulation notices.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="only mutants whose name contains one of these")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="how many seeds to try at most (default: %(default)s)")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="how many at a time")
    chosen = parser.parse_args(arguments)
    mutants = [each for each in MUTANTS if not chosen.names or any(name in each.name for name in chosen.names)]
    unnoticed = 0
    with ThreadPoolExecutor(chosen.processes) as pool:
        hunted = pool.map(lambda mutant: hunt(mutant, chosen.seeds), mutants)
        for mutant, found in zip(mutants, hunted, strict=True):
            unnoticed += found.seeds is None
            after = "NOT NOTICED" if found.seeds is None else f"{found.seeds:5} seeds"
            print(f"{after:12} {mutant.name}: {found.noticed}", flush=True)
    print(f"{len(mutants)} mutants, {len(mutants) - unnoticed} noticed, {unnoticed} not noticed")
    return unnoticed


if __name__ == "__main__":
    sys.exit(main())
