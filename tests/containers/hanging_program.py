"""`tests.stream.altered` with a process that hangs at its crash point, so that a test can kill its container."""

from __future__ import annotations

import os
import signal
from typing import NoReturn

from tests.stream import altered

HANGING = "hanging"


def hang(status: int) -> NoReturn:
    print(HANGING, flush=True)
    while True:
        signal.pause()


if __name__ == "__main__":
    os._exit = hang
    altered.main()
