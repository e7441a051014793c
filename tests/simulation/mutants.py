"""`python -m tests.simulation.mutants [NAME...]`: break the stream, and count the seeds until the simulation notices."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass

from tests.mutation.syntax_patch import Mutation, applied, project_copy
from tests.simulation.mutant_table import MUTANTS

SEEDS = 3000
"""A mutant counts as not noticed after this many seeds without a violation."""


@dataclass(frozen=True)
class SearchResult:
    """How many seeds the simulation needed to notice a mutant."""

    seeds: int | None
    """None if no seed violated an invariant."""
    violation: str
    """The first violation."""


def search(mutant: Mutation | None, seeds: int = SEEDS) -> SearchResult:
    """Simulate one seed after the other until an invariant is violated; without a mutant, on the sound program."""
    with project_copy() as copy, nullcontext() if mutant is None else applied(mutant, copy):
        command = [sys.executable, "-m", "tests.simulation.seed_search", str(seeds)]
        environment = os.environ | {"PYTHONPATH": str(copy)}
        done = subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False, env=environment)
    if done.returncode not in (0, 1) or not done.stdout:
        raise RuntimeError(done.stderr)
    number, _, violation = done.stdout.strip().partition(" ")
    return SearchResult(int(number) if done.returncode else None, violation)


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the exit code: how many mutants were not noticed."""
    parser = argparse.ArgumentParser(prog="mutants", description="Break the stream, and check that the simulation notices.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="only mutants whose name contains one of these")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="how many seeds to try at most (default: %(default)s)")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="how many at a time")
    chosen = parser.parse_args(arguments)
    mutants = [each for each in MUTANTS if not chosen.names or any(name in each.name for name in chosen.names)]
    unnoticed = 0
    with ThreadPoolExecutor(chosen.processes) as pool:
        results = pool.map(lambda mutant: search(mutant, chosen.seeds), mutants)
        for mutant, found in zip(mutants, results, strict=True):
            unnoticed += found.seeds is None
            after = "NOT NOTICED" if found.seeds is None else f"{found.seeds:5} seeds"
            print(f"{after:12} {mutant.name}: {found.violation}", flush=True)
    print(f"{len(mutants)} mutants, {len(mutants) - unnoticed} noticed, {unnoticed} not noticed")
    return unnoticed


if __name__ == "__main__":
    sys.exit(main())
