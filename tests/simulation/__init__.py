"""Deterministic simulation of the whole system in virtual time, with injected faults; the seed determines the run.

`run_seed(seed)` is one run; `python -m tests.simulation --seeds 10000` is many.
"""

from tests.simulation.run import Outcome, run, run_seed

__all__ = ["Outcome", "run", "run_seed"]
