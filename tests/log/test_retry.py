"""Back-off between attempts, the limit on one outage, and the retry of a role's work."""

from __future__ import annotations

import asyncio

import pytest

from streamproc.errors import LogUnavailable
from streamproc.log.retry import OUTAGE_PAUSE_S, Backoff, OutageTimeout


def test_pauses_double_up_to_the_longest() -> None:
    backoff = Backoff(0.5, 3.0)

    assert [backoff.next_pause() for _ in range(5)] == [0.5, 1.0, 2.0, 3.0, 3.0]


def test_a_success_starts_again_with_the_first_pause() -> None:
    backoff = Backoff(0.5, 3.0)
    backoff.next_pause()
    backoff.next_pause()

    backoff.reset()

    assert backoff.next_pause() == 0.5


@pytest.mark.parametrize(("first", "longest"), [(0.0, 1.0), (-1.0, 1.0), (2.0, 1.0), (float("nan"), 1.0)])
def test_a_backoff_without_a_positive_growing_pause_is_refused(first: float, longest: float) -> None:
    with pytest.raises(ValueError, match="back-off"):
        Backoff(first, longest)


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses so far, of a loop whose time passes only while something sleeps."""
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    monkeypatch.setattr(asyncio.BaseEventLoop, "time", lambda self: sum(pauses))
    return pauses


def test_an_outage_ends_with_its_error_after_the_time_allowed(slept: list[float]) -> None:
    async def outlast() -> None:
        timeout = OutageTimeout(4 * OUTAGE_PAUSE_S)
        while True:
            await timeout.wait(LogUnavailable("away"))

    with pytest.raises(LogUnavailable, match="away"):
        asyncio.run(outlast())
    assert slept == [OUTAGE_PAUSE_S] * 4


def test_an_answer_begins_a_new_outage(slept: list[float]) -> None:
    async def outlast() -> None:
        timeout = OutageTimeout(OUTAGE_PAUSE_S)
        for _ in range(10):
            await timeout.wait(LogUnavailable("away"))
            timeout.reset()

    asyncio.run(outlast())
    assert len(slept) == 10
