"""A synthesizer that dies, at whatever point: what it drew comes out once, the same bytes, and nothing else is ever seen."""

from __future__ import annotations

import pytest

from tests.stream.altered import DEAD, POINTS
from tests.stream.conftest import BROKERS, ONE_NORMALLY, NewPlace
from tests.stream.places import Place, random_symbols
from tests.stream.seen import check_seen_once


def prepared(place: Place) -> None:
    """Everybody's reports are there, all periods are closed, and a gatherer is at work."""
    panel = place.write_panel(random_symbols("01", 200, place.parameters.horizon, seed=2))
    place.do("init")
    place.start("gather")
    place.do("send", panel, "--close", "--packed")


def dies(place: Place, point: str) -> None:
    assert place.start_altered(point, "synthesize").end().code == DEAD


@pytest.mark.parametrize("broker", BROKERS)
def test_a_synthesizer_that_dies_once_in_every_period_goes_on_with_what_it_drew(new_place: NewPlace, broker: str) -> None:
    place = new_place(broker, horizon=len(POINTS))
    prepared(place)

    for point in POINTS:
        dies(place, point)
    place.start("synthesize").done()

    check_seen_once(place)
    place.do("verify")


@pytest.mark.parametrize("broker", ONE_NORMALLY)
def test_a_draw_that_is_interrupted_at_every_point_comes_out_once(new_place: NewPlace, broker: str) -> None:
    place = new_place(broker, horizon=2)
    prepared(place)

    for point in ("before-persist", "after-persist", "!after-announce", "!inside-transaction", "!after-commit"):
        dies(place, point)
    place.start("synthesize").done()

    check_seen_once(place)
    place.do("verify")
