"""Structure-aware mutation: what comes out passes the checks on the surface, so that those behind them are reached too."""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from collections.abc import Callable
from random import Random
from typing import TypeAlias

import msgpack

from streamproc.protocol.state_file import seal
from tests.fuzz.trees import UNUSUAL_VALUES, Node, Pairs, Raw, encode_tree, mutate_bytes, mutate_tree, parse_tree

Mutator: TypeAlias = Callable[[bytes, Random], bytes]
"""Other bytes from these, the same for the same state of the generator."""

FINGERPRINT = slice(6, 38)
SEALED = 70
"""Bytes of a state file before its body."""

_NO_TREE = (ValueError, TypeError, RecursionError, msgpack.UnpackException)


def of_bytes(value: bytes, rng: Random) -> bytes:
    """One to four edits anywhere."""
    for _ in range(rng.randint(1, 4)):
        value = mutate_bytes(value, rng)
    return value


def of_message(value: bytes, rng: Random) -> bytes:
    """One to three changes to the tree of one MessagePack value."""
    try:
        node = parse_tree(value)
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            node = mutate_tree(node, rng)
        return encode_tree(node)
    except _NO_TREE:
        return of_bytes(value, rng)


def framed(records: list[bytes]) -> bytes:
    """Several records as one input."""
    return bytes(msgpack.packb(records))


def frames(value: bytes) -> list[bytes]:
    """The records of an input; whatever holds none is one."""
    try:
        records = msgpack.unpackb(value, max_array_len=1_000, max_bin_len=len(value))
    except (ValueError, msgpack.UnpackException):
        return [value]
    return records if isinstance(records, list) and all(type(record) is bytes for record in records) else [value]


def of_records(value: bytes, rng: Random) -> bytes:
    """A record changed, left out, repeated or moved."""
    records = frames(value)
    for _ in range(rng.randint(1, 2)):
        index = rng.randrange(len(records)) if records else 0
        match rng.randrange(8) if records else 0:
            case 0:
                records.insert(index, encode_tree(rng.choice(UNUSUAL_VALUES)))
            case 1:
                del records[index]
            case 2:
                records.insert(rng.randrange(len(records) + 1), records[index])
            case 3:
                rng.shuffle(records)
            case _:
                records[index] = of_message(records[index], rng)
    return framed(records)


def of_ledger(value: bytes, rng: Random) -> bytes:
    """Records changed as in `of_records`; then, in most cases, chained and announced again, as a forger would."""
    changed_value = of_records(value, rng)
    try:
        return framed(_chained(frames(changed_value))) if rng.random() < 0.8 else changed_value
    except _NO_TREE:
        return changed_value


def _chained(records: list[bytes]) -> list[bytes]:
    """Let every period record name the one before, every intent the period record after it."""
    head, chained = b"", list(records)
    for index, record in enumerate(chained):
        kind = _field(record, "type")
        if kind == "period":
            chained[index] = _with_field(record, "previous", head)
            head = hashlib.sha256(chained[index]).digest()
            for before in range(index):
                if _field(chained[before], "type") == "intent" and _field(record, "period") == _field(
                    chained[before], "period"
                ):
                    chained[before] = _with_field(chained[before], "digest", head)
        elif kind == "study":
            head = hashlib.sha256(record).digest()
    return chained


def _field(record: bytes, name: str) -> Node:
    try:
        node = parse_tree(record)
    except _NO_TREE:
        return None
    return next((value for key, value in node if key == name), None) if isinstance(node, Pairs) else None


def _with_field(record: bytes, name: str, value: Node) -> bytes:
    return encode_tree(Pairs((key, value if key == name else before) for key, before in parse_tree(record)))


def of_state(value: bytes, rng: Random) -> bytes:
    """The body of a state file changed and sealed again, with a checksum that is right."""
    if len(value) < SEALED:
        return of_bytes(value, rng)
    return seal(value[FINGERPRINT], of_message(value[SEALED:], rng))


_TOKENS = (
    *("1", "0", "-1", "1e400", "-1e400", "1e-400", "nan", "inf", "true", "[]", "{}", '""', '"a"', "[[]]", "2026-01-01"),
    *("2026-01-01T00:00:00Z", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59Z", "07:00:00", "9" * 20, "9" * 5000),
    *("1e999999999999", "0x" + "f" * 40, "0.1", '"\\u0000"', '"|"', '"carry"', '"fill:0"', '"kafka://a:1"', '"embedded:x"'),
    *('"month"', '"90s"', '"9999999w"', "[" * 200, '["0", "0"]', '["0", "1", "2"]', "[release]", "[[release]]", "[study]"),
    *("k = 16", "horizon = 10000", "a.b.c = 1", "[schedule]", "\\", '"""', "'", "\ufeff", "\0", "ö", "# x", "="),
)


def of_study(value: bytes, rng: Random) -> bytes:
    """Lines and values of a TOML file changed."""
    lines = value.decode("utf-8", "surrogateescape").split("\n")
    for _ in range(rng.randint(1, 3)):
        index = rng.randrange(len(lines))
        match rng.randrange(6):
            case 0:
                lines.insert(rng.randrange(len(lines) + 1), lines.pop(index) if len(lines) > 1 else lines[index])
            case 1:
                lines.insert(index, rng.choice(_TOKENS))
            case 2:
                lines.insert(rng.randrange(len(lines) + 1), lines[index])
            case 3:
                return of_bytes("\n".join(lines).encode("utf-8", "surrogateescape"), rng)
            case _:
                key, equals, _ = lines[index].partition("=")
                lines[index] = f"{key}{equals} {rng.choice(_TOKENS)}" if equals else lines[index]
    return "\n".join(lines).encode("utf-8", "surrogateescape")


_CELLS = (
    b",",
    b"\n",
    b"\r",
    b"\r\n",
    b'"',
    b'""',
    b"\0",
    b"\xef\xbb\xbf",
    b"\xff",
    b"1",
    b"0",
    b" ",
    b",,,,",
    b'"\n"',
    b"ada",
)


def of_csv(value: bytes, rng: Random) -> bytes:
    """Cells, quotes and line ends put in, lines repeated and left out."""
    for _ in range(rng.randint(1, 3)):
        lines = value.split(b"\n")
        index = rng.randrange(len(lines))
        match rng.randrange(5):
            case 0:
                lines.insert(index, lines[rng.randrange(len(lines))])
            case 1:
                del lines[index]
            case 2:
                lines[index] = mutate_bytes(lines[index], rng)
            case _:
                at = rng.randrange(len(lines[index]) + 1)
                lines[index] = lines[index][:at] + rng.choice(_CELLS) * rng.choice((1, 1, 1, 50)) + lines[index][at:]
        value = b"\n".join(lines)
    return value


def of_gzip(value: bytes, rng: Random) -> bytes:
    """What is packed changed, and packed again."""
    try:
        unpacked = gzip.decompress(value) if rng.random() < 0.8 else None
    except (OSError, EOFError, zlib.error):
        unpacked = None
    return of_bytes(value, rng) if unpacked is None else gzip.compress(of_csv(unpacked, rng), 1, mtime=0)


def of_json(value: bytes, rng: Random) -> bytes:
    """One to three changes to a JSON tree."""
    try:
        node = json.loads(value, object_pairs_hook=Pairs)
        for _ in range(rng.randint(1, 3)):
            node = mutate_tree(node, rng)
        return _json(node).encode("utf-8", "surrogatepass")
    except (ValueError, RecursionError):
        return of_bytes(value, rng)


def _json(node: Node) -> str:
    if isinstance(node, Pairs):
        return "{" + ",".join(f"{json.dumps(str(key))}:{_json(value)}" for key, value in node) + "}"
    if isinstance(node, list):
        return "[" + ",".join(map(_json, node)) + "]"
    if isinstance(node, Raw):
        return "[" * 300
    if isinstance(node, bytes):
        return node.decode("latin-1")
    return json.dumps(node if node is None or isinstance(node, bool | int | float | str) else str(node))
