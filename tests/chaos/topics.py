"""Reading topics with a client of another make than the program's."""

from __future__ import annotations

import time
from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.chaos.history import History, Record
from tests.chaos.study import RELEASES, ChaosStudy

WAIT_TIMEOUT_S = 60.0
"""Seconds for a broker to hand out a topic to its end."""


def consumer(server: str, *, committed: bool) -> Consumer:
    """Return a consumer without a group, without topic creation, that raises every error."""
    return Consumer(
        {
            "bootstrap.servers": server,
            "group.id": "nobody",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            "fetch.wait.max.ms": 50,
            "fetch.error.backoff.ms": 100,
            "reconnect.backoff.max.ms": 300,
            "log_level": 0,
        }
    )


def read_topic(server: str, topic: str, partition: int = 0, *, committed: bool = True) -> list[Record]:
    """Everything in one partition from its start to its end."""
    reader = consumer(server, committed=committed)
    try:
        where = TopicPartition(topic, partition, 0)
        _, end = reader.get_watermark_offsets(where, timeout=WAIT_TIMEOUT_S)
        reader.assign([where])
        found: list[Record] = []
        deadline = time.monotonic() + WAIT_TIMEOUT_S
        while _position(reader, where) < end:
            if time.monotonic() > deadline:
                raise RuntimeError(f"{topic}: read up to {_position(reader, where)} of {end}: is a transaction open?")
            for message in reader.consume(1000, 0.2):
                if (error := message.error()) is not None:
                    raise KafkaException(error)
                offset, value = message.offset(), message.value()
                assert offset is not None
                found.append(Record(offset, value if isinstance(value, bytes) else b""))
        return found
    finally:
        reader.close()


def _position(reader: Consumer, where: TopicPartition) -> int:
    """Also past the markers at which transactions end."""
    return max(0, reader.position([where])[0].offset)


def topic_names(study: ChaosStudy) -> Mapping[str, str]:
    """The public topics by their names in the history."""
    return {"ledger": f"{study.name}.ledger", **{release: f"{study.name}.synthetic.{release}" for release in RELEASES}}


def read_history(server: str, study: ChaosStudy) -> History:
    """Read all topics into a history."""
    public = topic_names(study)
    committed = {name: read_topic(server, topic) for name, topic in public.items()}
    uncommitted = {name: read_topic(server, topic, committed=False) for name, topic in public.items()}
    return History(
        reports=[read_topic(server, f"{study.name}.reports", partition) for partition in range(study.partitions)],
        control=read_topic(server, f"{study.name}.control"),
        tallies=read_topic(server, f"{study.name}.tallies"),
        rejects=read_topic(server, f"{study.name}.rejects"),
        ledger=committed.pop("ledger"),
        synthetic=committed,
        ledger_uncommitted=uncommitted.pop("ledger"),
        synthetic_uncommitted=uncommitted,
        asked=study.public,
    )
