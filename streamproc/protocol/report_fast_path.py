"""Reports cut in two, so that a reader who has seen both parts before need not decode them again.

A report is a fixed beginning, the *id*, and a *tail*, which depends on period and symbol alone. A gatherer meets the same
ids every period and the same few tails in all of them: two look-ups then replace the decoding.
"""

from __future__ import annotations

import numpy as np

from streamproc.protocol.byte_strings import ByteStrings
from streamproc.protocol.reports import encode_report

_SIZE_AT = 7
"""Where the length of the id is: in this byte, or if it is 32 to 255 bytes long in the next."""

_BEGINNING = np.frombuffer(encode_report("", 0, "")[:_SIZE_AT] + b"\0", dtype=np.uint64)
"""A map of four, the version, the key of the id; and a byte for the length."""

_OF_BEGINNING = np.frombuffer(b"\xff" * _SIZE_AT + b"\0", dtype=np.uint64)

_SHORT, _AFTER_SHORT, _LONGER = 0xA0, 0xC0, 0xD9


def tail_of(period: int, symbol: str) -> bytes:
    """What every canonical report of this period and symbol ends with."""
    return encode_report("", period, symbol)[_SIZE_AT + 1 :]


def split_reports(values: ByteStrings) -> tuple[ByteStrings, ByteStrings]:
    """The id and the tail of each report; both empty where that is not to be told easily.

    If the tail is one of `tail_of`, the value is a report of this id, period and symbol. What has no such tail may be
    anything.
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
