"""Packs a column into as few bytes as possible, and computes the digest by which two copies of a column are compared."""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt

from streamproc.errors import Malformed
from streamproc.releases.step import Column

WIDTHS = (1, 2, 4, 8)
"""Possible numbers of bits per row. They divide 8, so that every symbol is within one byte."""


def bits_for(symbols: int) -> int:
    """The smallest width in bits that can represent this number of symbols."""
    return next(bits for bits in WIDTHS if symbols <= 1 << bits)


def pack_symbols(column: Column, bits: int) -> bytes:
    """One byte per `8 / bits` rows, the first row in the highest bits; the last byte is padded with zero bits."""
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
    """The first `rows` symbols. Raises Malformed if the length is wrong or the padding of the last byte is not zero."""
    if len(data) != packed_bytes(rows, bits):
        raise Malformed("data: expected `bits` bits for each of `rows` rows, and no more bytes than that")
    packed = np.frombuffer(data, dtype=np.uint8)
    symbols = _spread(packed, bits)
    if symbols[rows:].any():
        raise Malformed("data: expected zeros after the last row")
    return symbols[:rows]


def packed_bytes(rows: int, bits: int) -> int:
    """Number of bytes that this number of rows takes."""
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
