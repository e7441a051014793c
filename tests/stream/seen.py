"""What readers see of the public topics, those too who see what was never committed."""

from __future__ import annotations

from collections import Counter

import msgpack

from tests.stream.places import Place

RELEASES = ("recent", "ever")


def check_seen_once(place: Place) -> None:
    """What anybody ever saw of a column is one draw, and readers of what is committed see it once, in order."""
    for release in RELEASES:
        topic = place.topics.synthetic(release)
        committed = [msgpack.unpackb(value) for value in place.values(topic)]
        periods = [record["period"] for record in committed if record["type"] == "column"]
        assert periods == list(range(1, place.parameters.horizon + 1))
        assert set(draws_seen(place, topic).values()) == {1}
    assert set(draws_seen(place, place.topics.ledger).values()) == {1}


def draws_seen(place: Place, topic: str) -> Counter[tuple[str, int | None, str | None]]:
    """How many versions an uncommitted reader finds of each record: by type, period and release.

    Not of intents: a digest that was announced and taken back tells nothing.
    """
    different = {value: msgpack.unpackb(value) for value in place.values(topic, committed=False)}
    draws = [record for record in different.values() if record["type"] != "intent"]
    return Counter((record["type"], record.get("period"), record.get("release")) for record in draws)


def everything_public(place: Place) -> dict[str, list[bytes]]:
    """All that is in the ledger and the synthetic topics, committed or not."""
    topics = [place.topics.ledger, *(place.topics.synthetic(release) for release in RELEASES)]
    return {topic: place.values(topic, committed=False) for topic in topics}
