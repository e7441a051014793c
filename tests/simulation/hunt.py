"""`python -m tests.simulation.hunt SEEDS`: simulate until a promise is broken; prints after how many seeds, and which."""

from __future__ import annotations

import sys

from tests.simulation.run import run_seed


def main(seeds: int) -> int:
    """The exit code: 1 if a promise was broken."""
    for seed in range(1, seeds + 1):
        try:
            violations = run_seed(seed).violations
        except Exception as failure:
            # A system that breaks down altogether does not keep its promises.
            print(seed, f"the run failed: {type(failure).__name__}")
            return 1
        if violations:
            print(seed, violations[0])
            return 1
    print(seeds, "no violation")
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
