"""The workload of the reporting program for one period: true reports, then messages that must change nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import msgpack

from tests.chaos.model import home
from tests.chaos.study import ALPHABET, ID_MARK, NO_SYMBOL, ChaosStudy


@dataclass(frozen=True)
class Message:
    """One record, sent to the home partition of its key unless `partition` is given."""

    key: bytes
    value: bytes
    partition: int = -1
    report: tuple[str, int, str] | None = None
    """Individual, period and symbol, if this is a true report."""


def draw_messages(study: ChaosStudy, people: range, period: int) -> tuple[list[Message], list[Message]]:
    """Draw the true reports of these people in random order, and the messages to send after their acknowledgement."""
    rng = Random(f"mail {study.seed} {period}")
    true = [
        _message(study.people[person], period, symbol)
        for person in people
        if (symbol := study.symbol(person, period)) is not None
    ]
    rng.shuffle(true)
    return true, _ignored(study, rng, true, period)


def write_messages(path: Path, true: Sequence[Message], ignored: Sequence[Message]) -> None:
    """Write the file of the reporting program: number, partition, key, value. An empty line waits for acknowledgements."""
    lines = [
        f"{number} {message.partition} {message.key.hex()} {message.value.hex()}\n"
        for number, message in enumerate([*true, *ignored])
    ]
    lines.insert(len(true), "\n")
    path.write_text("".join(lines))


def _message(individual: str, period: int, symbol: str, partition: int = -1) -> Message:
    value = bytes(msgpack.packb({"v": 1, "id": individual, "t": period, "s": symbol}))
    return Message(individual.encode(), value, partition, (individual, period, symbol))


def _ignored(study: ChaosStudy, rng: Random, true: Sequence[Message], period: int) -> list[Message]:
    """Draw some repeated, contradicting, late, foreign, unknown and malformed messages."""
    each = max(1, len(true) // 100)
    ignored: list[Message] = []
    for message in rng.sample(true, each):
        assert message.report is not None
        individual, _, symbol = message.report
        away = (home(individual, study.partitions) + 1) % study.partitions
        ignored += [
            message,
            _message(individual, period, rng.choice(ALPHABET)),
            _message(individual, period, NO_SYMBOL),
            _message(individual, period, symbol, away),
            _message(individual, rng.choice((0, -1, study.horizon + 1, 2**40)), symbol),
            _message(f"{ID_MARK}-foreign-{rng.randrange(10**6)}", min(period + 1, study.horizon), symbol)
            if period > 1
            else message,
            Message(message.key, message.value[:-1]),
            Message(message.key, b"\xc1" + individual.encode()),
        ]
        if period > 2:
            ignored.append(_message(individual, period - 2, rng.choice(ALPHABET)))
    return ignored
