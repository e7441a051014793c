"""A synthesizer that comes up on an empty volume: it refuses, until the steward has restored what was on the lost one."""

from __future__ import annotations

import pytest

from tests.containers.conftest import NewStudy
from tests.stream.places import random_symbols
from tests.stream.seen import check_seen_once, everything_public

pytestmark = [pytest.mark.docker, pytest.mark.timeout(900)]


def test_a_lost_volume_is_restored_from_the_topics_and_the_study_goes_on(new_study: NewStudy) -> None:
    study = new_study(horizon=3)
    place = study.place
    panel = place.write_panel(random_symbols("01", 200, 3, seed=4))
    place.do("init")
    study.role("gather")
    first = study.role("synthesize")
    place.do("send", panel, "--through", 2, "--close")
    place.do("close", "--period", 2, "--wait")
    assert first.stop().code == 0
    before = everything_public(place)

    volume = study.boxes.volume()
    refused = study.role("synthesize", state=volume).end()
    assert refused.code == 3, refused.complaint
    assert "streamproc restore" in refused.complaint
    assert everything_public(place) == before

    study.do("restore", state=volume)
    second = study.role("synthesize", state=volume)
    place.do("send", panel, "--period", 3)
    place.do("close", "--period", 3)
    second.done()

    check_seen_once(place)
    place.do("verify")
