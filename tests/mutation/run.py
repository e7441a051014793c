"""`make mutation`: apply each fault to a copy of the project and see that its tests fail; without faults they must pass."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from tests.mutation.faults import FAULTS, Fault

PROJECT = Path(__file__).resolve().parents[2]
NOT_THE_CODE = (".*", "out", "__pycache__", "*.egg-info", "node_modules", "*.jar", "*.whl")
"""Among it what another test process may be fetching at this moment."""


def main(names: Iterable[str]) -> int:
    """Run the faults whose name contains one of `names` (default: all); the exit code is how many nobody noticed."""
    chosen = [fault for fault in FAULTS if not names or any(name in fault.name for name in names)]
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "project"
        shutil.copytree(PROJECT, copy, ignore=shutil.ignore_patterns(*NOT_THE_CODE))
        every_test = sorted({test for fault in chosen for test in fault.tests})
        if not _passes(copy, every_test):
            print("the tests fail without any fault; mend that first")
            return len(chosen)
        unnoticed = [fault for fault in chosen if not _noticed(copy, fault)]
    print(f"{len(chosen)} faults, {len(chosen) - len(unnoticed)} noticed, {len(unnoticed)} not noticed")
    return len(unnoticed)


def _noticed(copy: Path, fault: Fault) -> bool:
    file = copy / "streamproc" / fault.file
    sound = file.read_text()
    if sound.count(fault.right) != 1:
        print(f"{fault.name}: its text does not stand exactly once in {fault.file}; mend the table of faults")
        return False
    file.write_text(sound.replace(fault.right, fault.wrong))
    try:
        noticed = not _passes(copy, fault.tests)
    finally:
        file.write_text(sound)
    print(f"{'noticed' if noticed else 'NOT NOTICED':12} {fault.name}", flush=True)
    return noticed


def _passes(copy: Path, tests: Iterable[str]) -> bool:
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--no-cov", "-m", "not slow"]
    command += [f"tests/{test}" for test in tests]
    return subprocess.run(command, cwd=copy, capture_output=True, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
