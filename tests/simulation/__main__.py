"""Run many seeds: `python -m tests.simulation --seeds 10000 --first-seed 1`. Exits with 1 if an invariant was violated."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
from collections import Counter
from collections.abc import Iterable, Sequence

from tests.simulation.run import Outcome, run_seed


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the exit code."""
    parser = argparse.ArgumentParser(prog="simulate", description="Simulate studies, with faults, in virtual time.")
    parser.add_argument("--seeds", type=int, default=1000, help="how many runs")
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="how many of them at a time")
    parser.add_argument("--trace", action="store_true", help="show every call and fault, also of runs that went well")
    chosen = parser.parse_args(arguments)
    if chosen.seeds < 1:
        parser.error(f"--seeds {chosen.seeds}: expected 1 or more")
    seeds = range(chosen.first_seed, chosen.first_seed + chosen.seeds)
    if chosen.trace:
        return _report((seed, run_seed(seed, trace=True)) for seed in seeds)
    if chosen.processes == 1 or len(seeds) == 1:
        return _report((seed, run_seed(seed)) for seed in seeds)
    with multiprocessing.get_context("spawn").Pool(chosen.processes) as pool:
        return _report(zip(seeds, pool.imap(run_seed, seeds, chunksize=8), strict=True))


def _report(outcomes: Iterable[tuple[int, Outcome]]) -> int:
    seeds, violations, faults = 0, 0, Counter[str]()
    for seed, outcome in outcomes:
        seeds += 1
        violations += len(outcome.violations)
        faults += outcome.faults
        if outcome.trace:
            print("\n".join(outcome.trace))
        if outcome.violations:
            _show(seed, outcome)
        if seeds % 1000 == 0:
            print(f"{seeds} seeds so far", file=sys.stderr, flush=True)
    for kind, times in sorted(faults.items()):
        print(f"{times:9,}  {kind}")
    print(f"{seeds} seeds, {faults.total()} faults, {violations} violations", flush=True)
    return 1 if violations else 0


def _show(seed: int, outcome: Outcome) -> None:
    for violation in outcome.violations:
        print(f"seed {seed}: {violation}")
    if not outcome.trace:
        print("\n".join(run_seed(seed, trace=True).trace))
    print(f"again: make simulate SEEDS=1 FIRST_SEED={seed} ARGS=--trace", flush=True)


if __name__ == "__main__":
    sys.exit(main())
