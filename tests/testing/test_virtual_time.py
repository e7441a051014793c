"""Virtual time passes as real time does: a timer never comes too soon, and a loop that is stuck says so."""

from __future__ import annotations

import asyncio
import math

import pytest

from streamproc.testing import in_virtual_time, virtual_time


def test_those_who_wait_for_the_last_moment_of_a_time_get_there() -> None:
    async def wait_until(deadline: float, turns: int) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(turns):
            await asyncio.sleep(0)
        while (left := deadline - loop.time()) > 0:
            await asyncio.sleep(left)

    async def wait() -> None:
        await asyncio.sleep(8.5)
        deadline = math.nextafter(asyncio.get_running_loop().time(), math.inf)
        # While some of them are busy, the others' timers are looked at without any time passing.
        await asyncio.gather(*(wait_until(deadline, turns) for turns in range(6)))

    in_virtual_time(wait())


def test_a_loop_in_which_no_time_passes_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(virtual_time, "TURNS", 1000)

    async def spin() -> None:
        while True:
            await asyncio.sleep(0)

    with pytest.raises(RuntimeError, match="no time passes"):
        in_virtual_time(spin())
