"""Splits reports into an id and a tail, so that two look-ups replace the decoding of a report.

A report consists of a fixed prefix, the *id*, and a *tail*, which depends on the period and the symbol only. A gatherer
reads the same ids in every period, and the same few tails in all reports of a period.
"""

from __future__ import annotations

import numpy as np

from streamproc.protocol.byte_strings import ByteStrings
from streamproc.protocol.reports import encode_report

_SIZE_AT = 7
"""Index of the byte with the length of the id. The length of an id of 32 to 255 bytes is in the next byte."""

_BEGINNING = np.frombuffer(encode_report("", 0, "")[:_SIZE_AT] + b"\0", dtype=np.uint64)
"""The fixed prefix: a map of four entries, the version, the key of the id; and a byte for the length."""

_OF_BEGINNING = np.frombuffer(b"\xff" * _SIZE_AT + b"\0", dtype=np.uint64)

_SHORT, _AFTER_SHORT, _LONGER = 0xA0, 0xC0, 0xD9


def tail_of(period: int, symbol: str) -> bytes:
    """The tail of every canonical report of this period and symbol."""
    return encode_report("", period, symbol)[_SIZE_AT + 1 :]


def split_reports(values: ByteStrings) -> tuple[ByteStrings, ByteStrings]:
    """The id and the tail of each value; both are empty if the value does not have the usual form of a report.

    If the tail equals a result of `tail_of`, the value is a report of this id, period and symbol. Any other value must be
    decoded.
    """
    blocks = values.blocks(2 * 8)
    size = blocks[:, _SIZE_AT].astype(np.int64)
    short, longer = (size >= _SHORT) & (size < _AFTER_SHORT), size == _LONGER
    lengths = np.where(short, size - _SHORT, blocks[:, _SIZE_AT + 1])
    starts = values.starts + _SIZE_AT + 1 + longer
    tails = starts + lengths
    begins = blocks.view(np.uint64)[:, 0] & _OF_BEGINNING == _BEGINNING
    valid = begins & (short | longer) & (lengths > 0) & (tails < values.ends)
    return values.part(starts, lengths, valid), values.part(tails, values.ends - tails, valid)
