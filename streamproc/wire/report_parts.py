"""A report cut in two, so that a reader who has seen both parts before need not decode them again.

The canonical bytes of a report are a *head*, which depends on the individual alone, and a *tail*, which depends on period
and symbol alone. A gatherer meets the same heads every period and the same few tails in all of them: two look-ups then
replace the decoding. Whoever keeps only heads from `head_of` and tails from `tail_of` is safe: joined, they are a report.
"""

from __future__ import annotations

from streamproc.wire.reports import encode_report

SIZE_AT = 7
"""Where the head says how long the id is, in a byte if it is short."""
SHORT_HEAD = 0xA0 - SIZE_AT - 1
"""What that byte, less this, says: where the head of a report with a short id ends."""
LONGEST_SHORT_HEAD = 0xC0 - SHORT_HEAD
"""A head that would end here or later has another byte there: its id is longer than 31 bytes, or it is no head."""

_LONGER = 0xD9


def head_of(individual: str) -> bytes:
    """What every canonical report of this individual begins with."""
    return encode_report(individual, 0, "")[: -len(tail_of(0, ""))]


def tail_of(period: int, symbol: str) -> bytes:
    """What every canonical report of this period and symbol ends with."""
    return encode_report("", period, symbol)[SIZE_AT + 1 :]


def split_report(value: bytes) -> tuple[bytes, bytes]:
    """Head and tail if the report is canonical; of other bytes, two parts of which at least one is neither."""
    try:
        size = value[SIZE_AT]
        if size < _LONGER:
            end = size - SHORT_HEAD
        elif size == _LONGER:
            end = value[SIZE_AT + 1] + SIZE_AT + 2
        else:
            end = int.from_bytes(value[SIZE_AT + 1 : SIZE_AT + 3]) + SIZE_AT + 3
    except IndexError:
        end = 0
    return value[:end], value[end:]
