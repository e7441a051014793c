"""Whole studies over reports of every kind, by gatherers in processes of their own: tallies, rejects and columns."""

from __future__ import annotations

from typing import Any

import pytest

from tests.stream.conftest import BROKERS, NewPlace
from tests.stream.exact import check_columns, check_rejects, check_tallies, models
from tests.stream.mail import Correspondence, post
from tests.stream.places import Place, individual

BINARY: dict[str, Any] = {}
FOUR_LEVELS: dict[str, Any] = {
    "alphabet": ("A", "B", "C", "D"),
    "event": ("C", "D"),
    "horizon": 5,
    "roster": "people.txt",
    "duplicates": "last",
}
PEOPLE = [individual(row) for row in range(200)]


def begun(place: Place) -> None:
    """Topics are there, and the roster if the study wants one: a few of its people never report."""
    if place.parameters.roster is not None:
        (place.folder / place.parameters.roster).write_text(
            "".join(f"{each}\n" for each in [*PEOPLE, "silent-1", "silent-2"])
        )
    place.do("init")


def correspondence(place: Place, seed: int) -> Correspondence:
    parameters = place.parameters
    return Correspondence(PEOPLE, parameters.alphabet, parameters.horizon, parameters.partitions, seed)


@pytest.mark.parametrize("broker", BROKERS)
@pytest.mark.parametrize("kind", [BINARY, FOUR_LEVELS], ids=["binary", "four-levels"])
def test_pinned_gatherers_tally_what_the_model_says(new_place: NewPlace, broker: str, kind: dict[str, Any]) -> None:
    place = new_place(broker, **kind)
    begun(place)
    synthesizer = place.start_altered("silent", "synthesize", "--state", place.folder / "synthesizer")
    gatherers = [
        place.start("gather", "--partition", 0, "--partition", 1, "--state", place.folder / "one"),
        place.start("gather", "--partition", 2, "--partition", 3, "--state", place.folder / "two"),
    ]
    letters = correspondence(place, seed=3)

    for period in range(1, place.parameters.horizon + 1):
        post(place, letters.of(period))
        place.do("close", "--period", period)
    for program in (synthesizer, *gatherers):
        program.done()

    expected = models(place)
    check_tallies(place, expected)
    check_rejects(place, expected)
    check_columns(place, expected)


@pytest.mark.parametrize("broker", BROKERS)
def test_gatherers_come_and_go_and_nothing_is_counted_twice(new_place: NewPlace, broker: str) -> None:
    """A second joins after period 1; the first is killed after period 2. Their state folders are on different machines."""
    place = new_place(broker, **FOUR_LEVELS)
    begun(place)
    synthesizer = place.start_altered("silent", "synthesize", "--state", place.folder / "synthesizer")
    first = place.start("gather", "--state", place.folder / "one")
    letters = correspondence(place, seed=4)

    post(place, letters.of(1))
    place.do("close", "--period", 1)
    synthesizer.says("period released period=1")
    second = place.start("gather", "--state", place.folder / "two")
    post(place, letters.of(2))
    place.do("close", "--period", 2)
    second.says("tallied")
    first.kill()
    for period in range(3, place.parameters.horizon + 1):
        post(place, letters.of(period))
        place.do("close", "--period", period)
    for program in (synthesizer, second):
        program.done()

    expected = models(place)
    check_tallies(place, expected)
    check_rejects(place, expected)
    check_columns(place, expected)
