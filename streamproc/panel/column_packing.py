"""A column in as few bytes as it needs, and the digest of these: how two holders of a column know that it is the same."""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt

from streamproc.errors import Malformed
from streamproc.releases.step import Column

WIDTHS = (1, 2, 4, 8)
"""Bits a row can take, so that no symbol lies across two bytes."""


def bits_for(symbols: int) -> int:
    """The least width that tells so many symbols apart."""
    return next(bits for bits in WIDTHS if symbols <= 1 << bits)


def pack_symbols(column: Column, bits: int) -> bytes:
    """A byte for every `8 / bits` rows, the first row in the highest bits; the last byte is filled up with zeros."""
    if bits == 8:
        return column.tobytes()
    if bits == 1:
        return np.packbits(column).tobytes()
    per_byte = 8 // bits
    packed = np.zeros(-(-len(column) // per_byte), dtype=np.uint8)
    for place in range(per_byte):
        part = column[place::per_byte]
        packed[: len(part)] |= part << np.uint8(8 - bits * (place + 1))
    return packed.tobytes()


def column_digest(column: Column, bits: int) -> bytes:
    """SHA-256 of the packed column."""
    return hashlib.sha256(pack_symbols(column, bits)).digest()


def unpack_symbols(data: bytes, bits: int, rows: int) -> Column:
    """The first `rows` symbols; what fills up the last byte must be zero."""
    if len(data) != packed_bytes(rows, bits):
        raise Malformed("data: expected `bits` bits for each of `rows` rows, and no more bytes than that")
    packed = np.frombuffer(data, dtype=np.uint8)
    symbols = _spread(packed, bits)
    if symbols[rows:].any():
        raise Malformed("data: expected zeros after the last row")
    return symbols[:rows]


def packed_bytes(rows: int, bits: int) -> int:
    """How many bytes so many rows take."""
    return -(-rows * bits // 8)


def _spread(packed: npt.NDArray[np.uint8], bits: int) -> Column:
    if bits == 8:
        return packed
    if bits == 1:
        return np.unpackbits(packed)
    per_byte = 8 // bits
    symbols = np.empty(len(packed) * per_byte, dtype=np.uint8)
    for place in range(per_byte):
        symbols[place::per_byte] = packed >> np.uint8(8 - bits * (place + 1)) & np.uint8((1 << bits) - 1)
    return symbols
