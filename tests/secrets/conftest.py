"""The story is told once for each broker."""

from __future__ import annotations

import pytest

from tests.secrets.planted import ALPHABET, PEOPLE
from tests.secrets.story import Seen, Story
from tests.stream.conftest import BROKERS, NewPlace, new_place, programs, shared_place  # noqa: F401
from tests.stream.places import Place


@pytest.fixture(scope="module", params=BROKERS)
def story(request: pytest.FixtureRequest, shared_place: NewPlace) -> Story:  # noqa: F811
    place = shared_place(
        request.param, alphabet=ALPHABET, event=("SECRETSYMBOL",), horizon=3, partitions=2, people=PEOPLE, rho=0.001
    )
    story = Story(place)
    story.tell()
    return story


@pytest.fixture
def seen(story: Story) -> Seen:
    return story.seen


@pytest.fixture
def place(story: Story) -> Place:
    return story.place
