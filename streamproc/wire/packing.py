"""Packed columns taken apart again: alphabet indices of 1, 2, 4 or 8 bits, high bits first, as `packbits` does it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from streamproc.synth.step import Column
from streamproc.wire.malformed import Malformed


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
