"""Where the measured stream runs: a Kafka broker of the benchmark's own."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.broker import KafkaBroker, missing_programs


@contextmanager
def own_broker(quick: bool) -> Iterator[tuple[str, Path]]:
    """The address of a broker of a single node, and a folder; both are gone afterwards.

    The quick run only shows that everything runs, and does it on the embedded log. Raises NoBroker where there can be none.
    """
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        if quick:
            yield f"embedded:{folder / 'log'}", folder
            return
        missing = missing_programs()
        if missing is not None:
            raise NoBroker(missing)
        broker = KafkaBroker(folder / "broker")
        try:
            broker.start()
            yield broker.url, folder
        finally:
            broker.kill()


class NoBroker(Exception):
    """A program is missing; the message says how to get it."""
