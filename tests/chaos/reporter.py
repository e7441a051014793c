"""A program that reports, on another client than ours: `python -m tests.chaos.reporter SERVER TOPIC LETTERS JOURNAL PACE`.

It sends what the file of letters holds, `PACE` a second, and writes the number of each that is acknowledged to the journal
at once. Started again, it sends what the journal lacks: what was sent but not acknowledged comes twice. Ends with 0 when
all is acknowledged.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

from confluent_kafka import KafkaError, KafkaException, Message, Producer


def main(server: str, topic: str, letters: str, journal: str, pace: str) -> None:
    """Send the rest of the letters."""
    done = set(Path(journal).read_text().split()) if Path(journal).exists() else set()
    producer = Producer(
        {
            "bootstrap.servers": server,
            "acks": "all",
            "enable.idempotence": True,
            "partitioner": "murmur2_random",
            "linger.ms": 5,
            "reconnect.backoff.max.ms": 500,
            "log_level": 0,
        }
    )
    with Path(journal).open("a") as acknowledged:
        began, sent = time.monotonic(), 0
        for line in Path(letters).read_text().splitlines():
            if not line:
                _all_acknowledged(producer)
                continue
            number, partition, key, value = line.split(" ")
            if number in done:
                continue
            producer.produce(
                topic, bytes.fromhex(value), bytes.fromhex(key), int(partition), on_delivery=_noting(number, acknowledged)
            )
            sent += 1
            producer.poll(max(0.0, began + sent / float(pace) - time.monotonic()))
        _all_acknowledged(producer)


def _noting(number: str, journal: TextIO) -> Callable[[KafkaError | None, Message], None]:
    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            raise KafkaException(error)
        journal.write(f"{number}\n")
        journal.flush()

    return delivered


def _all_acknowledged(producer: Producer) -> None:
    while producer.flush(1.0):
        pass


if __name__ == "__main__":
    main(*sys.argv[1:])
