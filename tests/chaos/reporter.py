"""A reporting program on librdkafka: `python -m tests.chaos.reporter SERVER TOPIC MESSAGES ACKNOWLEDGED PACE`.

It sends the messages in the file `MESSAGES`, `PACE` a second, and appends the number of each acknowledged one to the file
`ACKNOWLEDGED` at once. When it is started again, it sends the messages that are not in that file, so a message that was sent
but not acknowledged is sent twice. It restarts itself when acknowledgements stop coming. It exits with 0 when all messages
are acknowledged.
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
"""Seconds without an acknowledgement after which it restarts itself. When a broker restarts, librdkafka may lose its
connections for good, and then waits for minutes."""


class Acknowledgements:
    """Writes acknowledged numbers to a file, and knows when the last one came."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._last = time.monotonic()

    def awaited(self, number: str) -> Callable[[KafkaError | None, Message], None]:
        """Return the callback that writes the number once its message is acknowledged."""

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                raise KafkaException(error)
            self._file.write(f"{number}\n")
            self._file.flush()
            self._last = time.monotonic()

        return delivered

    def restart_if_stalled(self, waiting: int) -> None:
        """Restart the program if none of the `waiting` messages was acknowledged for `STALLED` seconds."""
        if not waiting:
            self._last = time.monotonic()
        elif time.monotonic() > self._last + STALLED:
            os.execv(sys.executable, [sys.executable, "-m", "tests.chaos.reporter", *sys.argv[1:]])


def main(server: str, topic: str, messages_file: str, acknowledged_file: str, pace: str) -> None:
    """Send the messages that are not acknowledged yet."""
    done = set(Path(acknowledged_file).read_text().split()) if Path(acknowledged_file).exists() else set()
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
    with Path(acknowledged_file).open("a") as file:
        acknowledged = Acknowledgements(file)
        began, sent = time.monotonic(), 0
        for line in Path(messages_file).read_text().splitlines():
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
            acknowledged.restart_if_stalled(len(producer))
        _send_all(producer, acknowledged)


def _send_all(producer: Producer, acknowledged: Acknowledgements) -> None:
    while waiting := producer.flush(1.0):
        acknowledged.restart_if_stalled(waiting)


if __name__ == "__main__":
    main(*sys.argv[1:])
