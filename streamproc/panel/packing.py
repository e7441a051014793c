"""A column as few bytes as it needs, and the digest of these: how two holders of a column know that it is the same one."""

from __future__ import annotations

import hashlib

import numpy as np

from streamproc.synth.step import Column


def bits_of(symbols: int) -> int:
    """Bits a row takes in an alphabet of this size: 1, 2, 4 or 8, so that no symbol lies across two bytes."""
    return next(bits for bits in (1, 2, 4, 8) if symbols <= 1 << bits)


def packed(column: Column, symbols: int) -> bytes:
    """Alphabet indices of `bits_of(symbols)` bits each, high bits first; the last byte is filled up with zeros."""
    bits = bits_of(symbols)
    per_byte = 8 // bits
    size = -(-len(column) // per_byte)
    out = np.zeros(size, dtype=np.uint8)
    for place in range(per_byte):
        part = column[place::per_byte]
        out[: len(part)] |= part << (8 - bits * (place + 1))
    return out.tobytes()


def column_digest(column: Column, symbols: int) -> bytes:
    """SHA-256 of the packed column."""
    return hashlib.sha256(packed(column, symbols)).digest()
