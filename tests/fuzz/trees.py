"""MessagePack as trees that keep what dictionaries lose: keys that come twice, headers that lie, bytes that are nothing."""

from __future__ import annotations

from random import Random
from typing import Any

import msgpack

Node = Any


class Pairs(list[tuple[Node, Node]]):
    """A map as it is written: keys of any kind, in order, as often as they come."""


class Raw(bytes):
    """Bytes that stand as they are in place of an item."""


UNUSUAL_VALUES: tuple[Node, ...] = (
    *(None, True, False, 0, 1, -1, 2, 7, 8, 255, 256, 32_768, 65_535, 65_536, 65_537, 10_000, 10_001, 1_024, 1_025),
    *(2**31 - 1, 2**31, 2**32, 2**53, 2**62, 2**63 - 1, 2**63, 2**64 - 1, -(2**31), -(2**63)),
    *(0.0, -0.0, 1.0, 0.5, 1e308, 5e-324, float("nan"), float("inf"), float("-inf")),
    *("", "a", "0", "1", "\0", "ö", "😀", "id", "type", "dtype", "reports", "x" * 1_024, "x" * 1_025, "<i8", "|O"),
    *(b"", b"\0", bytes(8), bytes(16), bytes(32), bytes(33), b"\xff" * 8),
    *([], [0], [[]], [None] * 9, Pairs(), Pairs([("a", 1)]), Pairs([("a", 1), ("a", 2)]), Pairs([(1, 1)]), Pairs([([], 1)])),
    msgpack.ExtType(5, b"x"),
    msgpack.Timestamp(1),
    *(Raw(b"\xc1"), Raw(b"\xdd\xff\xff\xff\xff"), Raw(b"\xdf\xff\xff\xff\xff"), Raw(b"\xc6\xff\xff\xff\xff")),
    *(Raw(b"\xdb\xff\xff\xff\xff"), Raw(b"\xc9\xff\xff\xff\xff\x05"), Raw(b"\xa2\xff\xfe"), Raw(b"\xa3\xed\xa0\x80")),
    *(Raw(b"\x91" * 600 + b"\xc0"), Raw(b"\x81\xa1a" * 600 + b"\xc0"), Raw(b"\xdd\x00\x00\xff\xff")),
)
"""What fields of a message are replaced with."""


def parse_tree(value: bytes) -> Node:
    """The tree of a message; raises ValueError or another error of MessagePack's if it is none."""
    return msgpack.unpackb(value, object_pairs_hook=Pairs, strict_map_key=False, unicode_errors="surrogateescape")


def encode_tree(node: Node) -> bytes:
    """The bytes of a tree, its lies included."""
    packer = msgpack.Packer(use_bin_type=True, unicode_errors="surrogateescape")
    if isinstance(node, Raw):
        return bytes(node)
    if isinstance(node, Pairs):
        return bytes(packer.pack_map_header(len(node))) + b"".join(encode_tree(part) for pair in node for part in pair)
    if isinstance(node, list):
        return bytes(packer.pack_array_header(len(node))) + b"".join(map(encode_tree, node))
    return bytes(packer.pack(node))


def mutate_tree(node: Node, rng: Random) -> Node:
    """The tree with one thing in it changed, most often deep inside."""
    if isinstance(node, Pairs) and node and rng.random() < 0.85:
        return _mutate_map(node, rng)
    if isinstance(node, list) and not isinstance(node, Pairs) and node and rng.random() < 0.8:
        return _mutate_list(node, rng)
    return _mutate_item(node, rng)


def _mutate_map(node: Pairs, rng: Random) -> Pairs:
    pairs, index = Pairs(node), rng.randrange(len(node))
    key, value = pairs[index]
    match rng.randrange(12):
        case 0:
            del pairs[index]
        case 1:
            pairs.append((key, mutate_tree(value, rng)))
        case 2:
            pairs[index] = (rng.choice(UNUSUAL_VALUES), value)
        case 3:
            pairs.insert(rng.randrange(len(pairs) + 1), (rng.choice(UNUSUAL_VALUES), rng.choice(UNUSUAL_VALUES)))
        case 4:
            rng.shuffle(pairs)
        case 5:
            pairs[index] = (key, rng.choice(pairs)[1])
        case _:
            pairs[index] = (key, mutate_tree(value, rng))
    return pairs


def _mutate_list(node: list[Node], rng: Random) -> list[Node]:
    items, index = list(node), rng.randrange(len(node))
    match rng.randrange(8):
        case 0:
            del items[index]
        case 1:
            items.insert(index, items[index])
        case 2:
            items.insert(rng.randrange(len(items) + 1), rng.choice(UNUSUAL_VALUES))
        case 3:
            rng.shuffle(items)
        case 4:
            items = items * rng.choice((2, 3, 40))
        case _:
            items[index] = mutate_tree(items[index], rng)
    return items


def _mutate_item(node: Node, rng: Random) -> Node:
    if rng.random() < 0.5:
        return rng.choice(UNUSUAL_VALUES)
    match node:
        case bool():
            return not node
        case int():
            return max(-(2**63), min(2**64 - 1, node + rng.choice((-1, 1, -8, 8, node, -2 * node, 1 << rng.randrange(63)))))
        case float():
            return rng.choice((-node, node * 2, node / 3, node + 1e-9, float("nan"), float("inf")))
        case str():
            return rng.choice((node + rng.choice("a0ö\0-"), node[1:], node[:-1], node * rng.choice((2, 30))))
        case bytes():
            return mutate_bytes(node, rng)
        case _:
            return [node] if rng.random() < 0.5 else Pairs([("a", node)])


_INTERESTING = b"\x00\x01\x7f\x80\x8f\x90\x9f\xa0\xbf\xc0\xc1\xc2\xc4\xc6\xc7\xca\xcb\xcf\xd3\xd9\xdd\xdf\xff"


def mutate_bytes(value: bytes, rng: Random) -> bytes:
    """A flipped bit, an interesting byte, a piece cut out, doubled or put in."""
    edited, index = bytearray(value), rng.randrange(len(value) + 1)
    match rng.randrange(5):
        case 0 if index < len(edited):
            edited[index] ^= 1 << rng.randrange(8)
        case 1 if index < len(edited):
            edited[index] = rng.choice(_INTERESTING)
        case 2:
            del edited[index : index + rng.choice((1, 2, 8, 16))]
        case 3:
            edited[index:index] = edited[index : index + rng.randint(1, 16)]
        case _:
            edited[index:index] = rng.randbytes(rng.choice((1, 2, 8)))
    return bytes(edited)
