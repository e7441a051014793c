"""`make mutation`: apply each fault to a copy of the project and check that its tests fail, as they must not without it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.mutation.fault import Fault
from tests.mutation.faults import FAULTS
from tests.mutation.syntax_patch import MutationDoesNotApply, applied, project_copy


def main(names: Sequence[str]) -> int:
    """Run the faults whose name contains one of `names` (default: all). Returns how many were not noticed."""
    chosen = [fault for fault in FAULTS if not names or any(name in fault.name for name in names)]
    with project_copy() as copy:
        every_test = sorted({test for fault in chosen for test in fault.tests})
        if not _passes(copy, every_test):
            print("the tests fail without any fault; fix them first")
            return len(chosen)
        unnoticed = [fault for fault in chosen if not _is_noticed(copy, fault)]
    print(f"{len(chosen)} faults, {len(chosen) - len(unnoticed)} noticed, {len(unnoticed)} not noticed")
    return len(unnoticed)


def _is_noticed(copy: Path, fault: Fault) -> bool:
    try:
        with applied(fault, copy):
            noticed = not _passes(copy, fault.tests)
    except MutationDoesNotApply as problem:
        print(problem)
        return False
    print(f"{'noticed' if noticed else 'NOT NOTICED':12} {fault.name}", flush=True)
    return noticed


def _passes(copy: Path, tests: Iterable[str]) -> bool:
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--no-cov", "-m", "not slow"]
    command += [f"tests/{test}" for test in tests]
    environment = os.environ | {"PYTHONPATH": str(copy)}
    return subprocess.run(command, cwd=copy, capture_output=True, check=False, env=environment).returncode == 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
