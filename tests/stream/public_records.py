"""What readers see of the public topics, those too who see what was never committed."""

from __future__ import annotations

from collections import Counter

import msgpack

from tests.stream.deployed_study import DeployedStudy

RELEASES = ("recent", "ever")


def check_published_once(deployed: DeployedStudy) -> None:
    """What anybody ever saw of a column is one draw, and readers of what is committed see it once, in order."""
    for release in RELEASES:
        topic = deployed.topics.synthetic(release)
        committed = [msgpack.unpackb(value) for value in deployed.values(topic)]
        periods = [record["period"] for record in committed if record["type"] == "column"]
        assert periods == list(range(1, deployed.parameters.horizon + 1))
        assert set(count_draws(deployed, topic).values()) == {1}
    assert set(count_draws(deployed, deployed.topics.ledger).values()) == {1}


def count_draws(deployed: DeployedStudy, topic: str) -> Counter[tuple[str, int | None, str | None]]:
    """How many versions an uncommitted reader finds of each record: by type, period and release.

    Not of intents: a digest that was announced and taken back tells nothing.
    """
    different = {value: msgpack.unpackb(value) for value in deployed.values(topic, committed=False)}
    draws = [record for record in different.values() if record["type"] != "intent"]
    return Counter((record["type"], record.get("period"), record.get("release")) for record in draws)


def read_public_records(deployed: DeployedStudy) -> dict[str, list[bytes]]:
    """All that is in the ledger and the synthetic topics, committed or not."""
    topics = [deployed.topics.ledger, *(deployed.topics.synthetic(release) for release in RELEASES)]
    return {topic: deployed.values(topic, committed=False) for topic in topics}
