"""Programs that fetch what tests need from elsewhere. A registry may fail once; a test must not fail with it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

TRIES = 3


def fetch(command: Sequence[str | Path], *, cwd: Path | None = None, clean: Callable[[], None] | None = None) -> None:
    """Run it to its good end, trying again if need be; `clean` removes what an attempt that failed left."""
    done = _run(command, cwd)
    for _ in range(TRIES - 1):
        if done.returncode == 0:
            return
        if clean is not None:
            clean()
        done = _run(command, cwd)
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} failed {TRIES} times:\n{done.stdout[-2000:]}{done.stderr[-4000:]}")


def _run(command: Sequence[str | Path], cwd: Path | None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
