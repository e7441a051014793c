"""A fault that aims at a publication waits for a record that is made from now on, and knows when it has missed it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, cast

import pytest

from tests.chaos.plan import Aim, Fault, Kind, Plan
from tests.chaos.processes import Journal
from tests.chaos.stage import Stage
from tests.chaos.subscriber import Subscriber

nobody = cast(Any, None)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    """Of which only the subscriber does something, and that reads nothing."""
    subscriber = Subscriber("nowhere", {}, "control")
    return Stage(nobody, Plan({}), tmp_path, nobody, nobody, Journal(tmp_path / "story.txt"), subscriber)


async def moment(stage: Stage, aim: Aim) -> int | None:
    return await stage.moment(Fault(3, Kind.KILL, aim, 0.0), float)


async def test_a_record_that_is_made_from_now_on_shows_whose_publication_is_under_way(stage: Stage) -> None:
    soon = time.time() + 60
    stage.subscriber.announced, stage.subscriber.last_intent = 2, soon
    assert await moment(stage, Aim.AT_INTENT) == 2

    stage.subscriber.last_intent, stage.subscriber.last_column = 0.0, soon
    assert await moment(stage, Aim.AT_COLUMN) == 2

    stage.subscriber.releases[3] = 0.0
    assert await moment(stage, Aim.AT_INTENT) is None


@pytest.mark.parametrize("aim", [Aim.AT_INTENT, Aim.AT_COLUMN])
async def test_what_was_made_before_is_no_moment_to_strike_at(stage: Stage, aim: Aim) -> None:
    stage.subscriber.announced = 3
    stage.subscriber.last_intent = stage.subscriber.last_column = time.time() - 60
    stage.subscriber.releases[3] = 0.0
    assert await moment(stage, aim) is None


async def test_a_cut_whose_period_is_released_is_no_moment_to_strike_at(stage: Stage) -> None:
    stage.subscriber.cuts[3] = 0.0
    assert await moment(stage, Aim.AFTER_CUT) == 3

    stage.subscriber.releases[3] = 0.0
    assert await moment(stage, Aim.AFTER_CUT) is None
