"""The partition an individual is at home in: that of Java's default partitioner, so that producers in any language agree."""

from __future__ import annotations

import struct

_M = 0x5BD1E995
_SEED = 0x9747B28C
_MASK = 0xFFFFFFFF
_WORD = struct.Struct("<I")


def home_partition(individual: str, partitions: int) -> int:
    """Where reports of the individual with this id belong, `0..partitions-1`."""
    return (murmur2(individual.encode()) & 0x7FFFFFFF) % partitions


def murmur2(key: bytes) -> int:
    """Kafka's 32-bit hash, unsigned. (Java shows it as a signed number.)"""
    whole = len(key) & ~3
    mixed = _SEED ^ len(key)
    for (word,) in _WORD.iter_unpack(key[:whole]):
        product = word * _M & _MASK
        mixed = mixed * _M & _MASK ^ (product ^ product >> 24) * _M & _MASK
    if whole < len(key):
        mixed = (mixed ^ int.from_bytes(key[whole:], "little")) * _M & _MASK
    mixed = (mixed ^ mixed >> 13) * _M & _MASK
    return mixed ^ mixed >> 15
