"""What committed and uncommitted readers see in the public topics."""

from __future__ import annotations

from collections import Counter

import msgpack

from tests.stream.deployed_study import DeployedStudy

RELEASES = ("recent", "ever")


def check_published_once(deployed: DeployedStudy) -> None:
    """Check that uncommitted readers find one draw of each column, and committed readers find it once and in order."""
    for release in RELEASES:
        topic = deployed.topics.synthetic(release)
        committed = [msgpack.unpackb(value) for value in deployed.values(topic)]
        periods = [record["period"] for record in committed if record["type"] == "column"]
        assert periods == list(range(1, deployed.parameters.horizon + 1))
        assert set(count_draws(deployed, topic).values()) == {1}
    assert set(count_draws(deployed, deployed.topics.ledger).values()) == {1}


def count_draws(deployed: DeployedStudy, topic: str) -> Counter[tuple[str, int | None, str | None]]:
    """How many versions an uncommitted reader finds of each record: by type, period and release.

    Intents are left out, because a digest that was announced and aborted reveals nothing.
    """
    different = {value: msgpack.unpackb(value) for value in deployed.values(topic, committed=False)}
    draws = [record for record in different.values() if record["type"] != "intent"]
    return Counter((record["type"], record.get("period"), record.get("release")) for record in draws)


def read_public_records(deployed: DeployedStudy) -> dict[str, list[bytes]]:
    """Every record of the ledger and the synthetic topics, committed or not."""
    topics = [deployed.topics.ledger, *(deployed.topics.synthetic(release) for release in RELEASES)]
    return {topic: deployed.values(topic, committed=False) for topic in topics}
