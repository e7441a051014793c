"""`python -m tests.chaos --seed 1`: a study on a real broker under many faults. Ends with 1 if a check finds anything."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import tempfile
from argparse import ArgumentParser
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from tests.chaos.fault_plan import Amount
from tests.chaos.run import Outcome, chaos
from tests.chaos.study import ChaosStudy


def main() -> int:
    """Run, print what happened to whom and what was found, and write the report."""
    parser = ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="decides which faults come, to whom and when")
    parser.add_argument("--reports", type=int, default=100_000)
    parser.add_argument("--periods", type=int, default=10)
    parser.add_argument("--kills", type=int, default=50, help="of each role")
    parser.add_argument("--stops", type=int, default=20, help="of all roles, each longer than the time-outs")
    parser.add_argument("--broker-faults", type=int, default=6)
    parser.add_argument("--brokers", type=int, choices=(1, 3), default=1, help="faults strike one of them at a time")
    parser.add_argument("--takeovers", type=int, default=4, help="second synthesizers while the first is stopped")
    parser.add_argument("--report", type=Path, help="where to write the report, as JSON")
    parser.add_argument("--folder", type=Path, help="a new folder in which to leave everything: output, states, broker")
    asked = parser.parse_args()
    study = ChaosStudy(asked.seed, asked.reports, asked.periods)
    amount = Amount(asked.kills, asked.stops, asked.broker_faults, asked.takeovers)
    with tempfile.TemporaryDirectory(prefix="chaos-") as temporary:
        folder = asked.folder or Path(temporary) / "run"
        folder.mkdir(parents=True)
        outcome = asyncio.run(_run_until_sigterm(chaos(study, amount, folder, cluster=asked.brokers > 1)))
    if asked.report is not None:
        asked.report.write_text(json.dumps(outcome.report, indent=1) + "\n")
    for kind, count in (outcome.report["faults"] | outcome.report["exits"]).items():
        print(f"{count:6} {kind}")
    for aim, score in outcome.report["in time"].items():
        print(f"{score['in time']:6} of {score['injected_count']} in time: {aim}")
    for kind, count in outcome.report["seen but never committed"].items():
        print(f"{count:6} seen but never committed: {kind}")
    for line in outcome.violations:
        print(f"VIOLATION {line}")
    print(outcome.last_line)
    return 1 if outcome.violations else 0


async def _run_until_sigterm(run: Coroutine[Any, Any, Outcome]) -> Outcome:
    """Cancel the run on SIGTERM, so that it cleans up."""
    task = asyncio.ensure_future(run)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await task


if __name__ == "__main__":
    sys.exit(main())
