"""Signal handlers of the command line. Imports almost nothing, because they are installed before anything else is."""

from __future__ import annotations

import signal
import sys
from types import FrameType
from typing import NoReturn

_LONG_RUNNING = ("run", "gather", "synthesize", "watch", "demo", "page")


def is_long_running() -> bool:
    """Whether the command may go on until it is told to stop, which is a good end of it."""
    return any(argument in _LONG_RUNNING for argument in sys.argv[1:2])


def install_signal_handlers() -> None:
    """SIGTERM and Ctrl-C end the process without a word: with 0 where that is a good end, else with 128 and their number."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _told)


def _told(number: int, frame: FrameType | None) -> NoReturn:
    """By an exception, so that files half written are removed and workers ended."""
    sys.exit(0 if is_long_running() else 128 + number)
