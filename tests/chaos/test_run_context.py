"""A fault that aims at a publication waits for a record that is made from now on, and knows when it has missed it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, cast

import pytest

from tests.chaos.fault_plan import Aim, Fault, FaultPlan, Kind
from tests.chaos.processes import RunLog
from tests.chaos.run_context import RunContext
from tests.chaos.subscriber import Subscriber

nobody = cast(Any, None)


@pytest.fixture
def context(tmp_path: Path) -> RunContext:
    """Of which only the subscriber does something, and that reads nothing."""
    subscriber = Subscriber("nowhere", {}, "control")
    return RunContext(nobody, FaultPlan({}), tmp_path, nobody, nobody, RunLog(tmp_path / "events.txt"), subscriber)


async def wait_for_aim(context: RunContext, aim: Aim) -> int | None:
    return await context.wait_for_aim(Fault(3, Kind.KILL, aim, 0.0), float)


async def test_a_record_that_is_made_from_now_on_shows_whose_publication_is_under_way(context: RunContext) -> None:
    soon = time.time() + 60
    context.subscriber.announced, context.subscriber.last_intent = 2, soon
    assert await wait_for_aim(context, Aim.AT_INTENT) == 2

    context.subscriber.last_intent, context.subscriber.last_column = 0.0, soon
    assert await wait_for_aim(context, Aim.AT_COLUMN) == 2

    context.subscriber.releases[3] = 0.0
    assert await wait_for_aim(context, Aim.AT_INTENT) is None


@pytest.mark.parametrize("aim", [Aim.AT_INTENT, Aim.AT_COLUMN])
async def test_what_was_made_before_is_no_moment_to_strike_at(context: RunContext, aim: Aim) -> None:
    context.subscriber.announced = 3
    context.subscriber.last_intent = context.subscriber.last_column = time.time() - 60
    context.subscriber.releases[3] = 0.0
    assert await wait_for_aim(context, aim) is None


async def test_a_cut_whose_period_is_released_is_no_moment_to_strike_at(context: RunContext) -> None:
    context.subscriber.cuts[3] = 0.0
    assert await wait_for_aim(context, Aim.AFTER_CUT) == 3

    context.subscriber.releases[3] = 0.0
    assert await wait_for_aim(context, Aim.AFTER_CUT) is None
