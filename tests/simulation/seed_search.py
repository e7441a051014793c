"""`python -m tests.simulation.seed_search SEEDS`: simulate seeds 1, 2, ... until one violates an invariant.

It prints the number of seeds and the first violation.
"""

from __future__ import annotations

import sys

from tests.simulation.run import run_seed


def main(seeds: int) -> int:
    """Return the exit code: 1 if an invariant was violated."""
    for seed in range(1, seeds + 1):
        try:
            violations = run_seed(seed).violations
        except Exception as failure:
            # A mutant may break the program so badly that the simulation cannot finish; that counts as noticed.
            print(seed, f"the run failed: {type(failure).__name__}")
            return 1
        if violations:
            print(seed, violations[0])
            return 1
    print(seeds, "no violation")
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
