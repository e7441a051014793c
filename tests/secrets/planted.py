"""What is planted: people with marked names, a symbol of which only its occurrence is secret, and counts that stand out."""

from __future__ import annotations

import csv
import hashlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
from aiokafka.partitioner import murmur2

from streamproc.protocol.ledger import MeasurementChunk, decode_ledger
from tests.stream.deployed_study import Symbols
from tests.stream.report_traffic import home

ALPHABET = ("calm", "SECRETSYMBOL", "rest")
"""All are in the public contract. That somebody reported one is not."""

MARKS = ("SECRET-ID", "SECRET-STRANGER", "SECRETSTRANGE")
"""Parts of ids on the roster or of members, of ids of strangers, and of symbols outside the alphabet."""

PEOPLE = 20_011
"""Public, as every study's size is."""

REPORTED = (3_923, 3_919, 3_917)
"""How many report the marked symbol in each period; other counts stand out as much."""


def individual(row: int) -> str:
    return f"SECRET-ID-{row:05}"


def histories() -> Symbols:
    """A row per person, the same every time."""
    rng = np.random.default_rng(11)
    columns = []
    for count in REPORTED:
        column = np.array(["calm"] * PEOPLE, dtype=object)
        chosen = rng.permutation(PEOPLE)
        column[chosen[:count]] = "SECRETSYMBOL"
        column[chosen[count : count + 4_327]] = "rest"
        columns.append(column)
    return np.stack(columns, axis=1)


def write_panel(path: Path, symbols: Symbols) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["individual", *range(1, symbols.shape[1] + 1)])
        writer.writerows([individual(row), *line] for row, line in enumerate(symbols.tolist()))
    return path


def exact_counts(symbols: Symbols, partitions: int) -> set[int]:
    """Of symbols, pairs, people with so many events after each period, and people of each partition."""
    homes = [home(individual(row), partitions) for row in range(len(symbols))]
    found: set[int] = set(_frequencies(np.array(homes, dtype=object)))
    for period in range(symbols.shape[1]):
        found.update(_frequencies(symbols[:, period]))
        events = (symbols[:, : period + 1] == "SECRETSYMBOL").sum(axis=1)
        found.update(int((events >= b).sum()) for b in range(1, period + 2))
        if period:
            found.update(_frequencies(symbols[:, period - 1] + "|" + symbols[:, period]))
    # Chance makes a noisy count one of many exact ones that lie close together, so only those count that stand apart.
    return {count for count in found if count >= 2_000}


def _frequencies(values: Symbols) -> list[int]:
    return list(np.unique(values.astype(str), return_counts=True)[1].tolist())


def marks_in(data: str | bytes) -> set[str]:
    """Which marks are in there, in clear or in hex; whole names only matter to find who leaked."""
    content = data.encode("utf-8", "surrogateescape") if isinstance(data, str) else data
    lower = content.lower()
    return {mark for mark in MARKS if mark.encode() in content or mark.encode().hex().encode() in lower}


def numbers_in(text: str) -> set[float]:
    """All numbers in a text, with or without separators of thousands."""
    return {float(word.replace(",", "")) for word in re.findall(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?:e-?\d+)?(?![\w])", text)}


def counts_in(numbers: Iterable[float], secret: set[int]) -> set[float]:
    """Which of the numbers are secret counts, or such fractions of all people."""
    fractions = np.array(sorted(count / PEOPLE for count in secret))
    found = np.array(sorted(numbers))
    near = np.abs(found[:, None] - fractions[None, :]).min(axis=1, initial=1.0) < 1e-9
    return {number for number, is_near in zip(found.tolist(), near.tolist(), strict=True) if number in secret or is_near}


def numbers_of(record: bytes) -> Iterator[float]:
    """All numbers in a public record, those of packed measurements too."""
    yield from _numbers(msgpack.unpackb(record))
    if msgpack.unpackb(record)["type"] == "measurement":
        chunk = decode_ledger(record)
        assert isinstance(chunk, MeasurementChunk)
        yield from (float(value) for value in chunk.data.tolist())


def _numbers(value: Any) -> Iterator[float]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _numbers(key)
            yield from _numbers(item)
    elif isinstance(value, list):
        for item in value:
            yield from _numbers(item)
    elif isinstance(value, int | float):
        yield float(value)
    elif isinstance(value, bytes):
        yield len(value)


def plain_hashes(row: int) -> dict[str, bytes]:
    """Hashes of an id by common functions without a key, which a person with a list of names could look up."""
    name = individual(row).encode()
    digests = {
        kind: hashlib.new(kind, name, usedforsecurity=False).digest()[:8]
        for kind in ("md5", "sha1", "sha256", "sha512", "blake2b", "blake2s")
    }
    digests["blake2b-128"] = hashlib.blake2b(name, digest_size=16).digest()[:8]
    return digests


def murmur(row: int) -> tuple[bytes, bytes]:
    """In both orders of bytes."""
    number = int(murmur2(individual(row).encode())) & 0xFFFFFFFF
    return number.to_bytes(4, "big"), number.to_bytes(4, "little")
