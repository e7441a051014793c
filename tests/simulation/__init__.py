"""The whole system in virtual time on simulated ports, with faults; one integer decides everything.

`run_seed(seed)` is one run; `python -m tests.simulation --seeds 10000` is many.
"""

from tests.simulation.run import Outcome, run, run_seed

__all__ = ["Outcome", "run", "run_seed"]
