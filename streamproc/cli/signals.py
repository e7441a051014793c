"""Signal handlers of the command line. They are installed before other imports, so this module imports almost nothing."""

from __future__ import annotations

import signal
import sys
from types import FrameType
from typing import NoReturn

_LONG_RUNNING = ("run", "gather", "synthesize", "watch", "demo", "page")


def is_long_running() -> bool:
    """Return whether the command runs until it is stopped, so that a signal is a successful end."""
    return any(argument in _LONG_RUNNING for argument in sys.argv[1:2])


def install_signal_handlers() -> None:
    """Make SIGTERM and Ctrl-C end the process without a message.

    The exit code is 0 for a long-running command, else 128 plus the number of the signal.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _exit_on_signal)


def _exit_on_signal(number: int, frame: FrameType | None) -> NoReturn:
    """Raise SystemExit, so that partly written files are removed and worker processes end."""
    sys.exit(0 if is_long_running() else 128 + number)
