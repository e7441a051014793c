"""A program that reports, on another client than ours: `python -m tests.chaos.reporter SERVER TOPIC LETTERS JOURNAL PACE`.

It sends what the file of letters holds, `PACE` a second, and writes the number of each that is acknowledged to the journal
at once. Started again, it sends what the journal lacks: what was sent but not acknowledged comes twice. So it does by itself
when nothing comes back any more. Ends with 0 when all is acknowledged.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

from confluent_kafka import KafkaError, KafkaException, Message, Producer

STALLED = 30.0
"""Seconds without an acknowledgement after which it begins anew: when a broker restarts, librdkafka may lose its connections
for good, and then waits for minutes."""


class Acknowledgements:
    """What came back, and when that was last."""

    def __init__(self, journal: TextIO) -> None:
        self._journal = journal
        self._last = time.monotonic()

    def awaited(self, number: str) -> Callable[[KafkaError | None, Message], None]:
        """Notes the number once it comes back."""

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                raise KafkaException(error)
            self._journal.write(f"{number}\n")
            self._journal.flush()
            self._last = time.monotonic()

        return delivered

    def begin_anew_if_stalled(self, waiting: int) -> None:
        """`waiting`: how many have not come back."""
        if not waiting:
            self._last = time.monotonic()
        elif time.monotonic() > self._last + STALLED:
            os.execv(sys.executable, [sys.executable, "-m", "tests.chaos.reporter", *sys.argv[1:]])


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
    with Path(journal).open("a") as file:
        acknowledged = Acknowledgements(file)
        began, sent = time.monotonic(), 0
        for line in Path(letters).read_text().splitlines():
            if not line:
                _send_all(producer, acknowledged)
                continue
            number, partition, key, value = line.split(" ")
            if number in done:
                continue
            producer.produce(
                topic, bytes.fromhex(value), bytes.fromhex(key), int(partition), on_delivery=acknowledged.awaited(number)
            )
            sent += 1
            producer.poll(max(0.0, began + sent / float(pace) - time.monotonic()))
            acknowledged.begin_anew_if_stalled(len(producer))
        _send_all(producer, acknowledged)


def _send_all(producer: Producer, acknowledged: Acknowledgements) -> None:
    while waiting := producer.flush(1.0):
        acknowledged.begin_anew_if_stalled(waiting)


if __name__ == "__main__":
    main(*sys.argv[1:])
