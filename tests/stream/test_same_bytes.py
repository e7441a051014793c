"""A stream of a panel and a replay of it, under the same seed, release the same bytes."""

from __future__ import annotations

import pytest

from tests.stream.conftest import BROKERS, NewPlace
from tests.stream.places import random_symbols


@pytest.mark.parametrize("broker", BROKERS)
def test_a_stream_releases_what_a_replay_releases(new_place: NewPlace, broker: str) -> None:
    place = new_place(broker)
    panel = place.write_panel(random_symbols("01", 200, 4, seed=1, missing=0.1))
    roles = place.start("run", "--until-done", "--seed", 7)
    place.do("send", panel, "--close")
    roles.done()
    place.do("pull", "--out", place.folder / "pulled")

    place.do("replay", panel, "--out", place.folder / "replayed", "--seed", 7)
    for release in ("recent", "ever"):
        replayed = (place.folder / "replayed" / f"{release}.csv").read_bytes()
        assert (place.folder / "pulled" / f"{release}.csv").read_bytes() == replayed
