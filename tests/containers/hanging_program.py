"""`tests.stream.altered`, but where that one would die this one stands still, for somebody else to kill it."""

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
