"""What one broker says of a topic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from streamproc.ports.kafka.questions import TryAgain, check
from streamproc.ports.log import NoSuchTopic

NO_TOPIC, INVALID_TOPIC = 3, 17


@dataclass(frozen=True)
class Look:
    """A topic as a broker knows it."""

    id: bytes
    """Of this incarnation: created anew it has another."""
    leaders: dict[int, int]
    """Partition to the node that leads it."""
    epochs: dict[int, int]
    """Partition to how often its leader has changed."""
    replicas: dict[int, tuple[int, ...]]
    """Partition to the nodes that have a copy of it."""


def read_look(topic: str, answer: dict[str, Any]) -> Look:
    """What a broker says of one topic. Raises NoSuchTopic, NotAllowed, TryAgain."""
    what, (found,) = f"topic {topic}", answer["topics"]
    if found["error_code"] in (NO_TOPIC, INVALID_TOPIC):
        raise NoSuchTopic(topic)
    check(found["error_code"], what)
    parts = {part["partition"]: part for part in found["partitions"]}
    leaders = {number: part["leader"] for number, part in parts.items()}
    if not leaders or min(leaders.values()) < 0:
        raise TryAgain(f"{what}: a partition has no leader")
    return Look(
        found["topic_id"],
        leaders,
        {number: part["leader_epoch"] for number, part in parts.items()},
        {number: tuple(part["replicas"]) for number, part in parts.items()},
    )
