"""The home partition of an individual, computed as by Java's default partitioner, so that all producers agree."""

from __future__ import annotations

import struct

_M = 0x5BD1E995
_SEED = 0x9747B28C
_MASK = 0xFFFFFFFF
_WORD = struct.Struct("<I")


def home_partition(individual: str, partitions: int) -> int:
    """The partition `0..partitions-1` to which all reports of the individual with this id belong."""
    return (murmur2(individual.encode()) & 0x7FFFFFFF) % partitions


def murmur2(key: bytes) -> int:
    """Kafka's 32-bit hash as an unsigned integer. (Java's is signed.)"""
    whole = len(key) & ~3
    mixed = _SEED ^ len(key)
    for (word,) in _WORD.iter_unpack(key[:whole]):
        product = word * _M & _MASK
        mixed = mixed * _M & _MASK ^ (product ^ product >> 24) * _M & _MASK
    if whole < len(key):
        mixed = (mixed ^ int.from_bytes(key[whole:], "little")) * _M & _MASK
    mixed = (mixed ^ mixed >> 13) * _M & _MASK
    return mixed ^ mixed >> 15
