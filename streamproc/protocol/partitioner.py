"""The home partition of an individual, computed as by Java's default partitioner, so that all producers agree."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

_M = 0x5BD1E995
_SEED = 0x9747B28C
_MASK = 0xFFFFFFFF
_WORD = struct.Struct("<I")


def home_partition(individual: str, partitions: int) -> int:
    """The partition `0..partitions-1` to which all reports of the individual with this id belong."""
    return (murmur2(individual.encode()) & 0x7FFFFFFF) % partitions


def home_partitions(individuals: Sequence[str], partitions: int) -> npt.NDArray[np.int64]:
    """`home_partition` of each, computed together."""
    encoded = [individual.encode() for individual in individuals]
    lengths = np.fromiter(map(len, encoded), dtype=np.int64, count=len(encoded))
    homes = np.empty(len(encoded), dtype=np.int64)
    for length in np.unique(lengths).tolist():
        places = np.flatnonzero(lengths == length)
        keys = np.frombuffer(b"".join([encoded[place] for place in places.tolist()]), dtype=np.uint8)
        hashes = _murmur2_of_equal_length(keys.reshape(len(places), length))
        homes[places] = (hashes & np.uint32(0x7FFFFFFF)).astype(np.int64) % partitions
    return homes


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


def _murmur2_of_equal_length(keys: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint32]:
    """`murmur2` of each row; arithmetic of unsigned arrays wraps, as it should."""
    count, length = keys.shape
    whole = length & ~3
    m = np.uint32(_M)
    mixed = np.full(count, _SEED ^ length, dtype=np.uint32)
    for word in np.ascontiguousarray(keys[:, :whole]).view("<u4").astype(np.uint32).T:
        product = word * m
        mixed = mixed * m ^ (product ^ product >> np.uint32(24)) * m
    if whole < length:
        tail = np.zeros((count, 4), dtype=np.uint8)
        tail[:, : length - whole] = keys[:, whole:]
        mixed = (mixed ^ tail.view("<u4").astype(np.uint32)[:, 0]) * m
    mixed = (mixed ^ mixed >> np.uint32(13)) * m
    return mixed ^ mixed >> np.uint32(15)
