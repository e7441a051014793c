"""Reports: one report in a record, or many packed into one, and the partition that a report belongs to.

Only bytes that cannot be understood at all are malformed here. A period out of range or a symbol outside the alphabet
decodes, and the gatherer rejects it: membership must not depend on whether a symbol is valid.

The home partition of an individual is that of Java's default partitioner, so that producers in all languages agree.

`split_reports` avoids decoding: a canonical report is a fixed beginning, the id, and a *tail* that depends on period and
symbol alone. A gatherer meets the same ids in every period and the same few tails in all reports, so two look-ups in hash
tables replace the decoding of a report. NumPy does this for thousands of reports together, which are in one buffer:
`ByteStrings`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Self, TypeAlias

import numpy as np
import numpy.typing as npt
from msgpack import unpackb

from streamproc.errors import Malformed
from streamproc.privacy.types import IntArray
from streamproc.protocol.codec import VERSION, Fields, pack, unpack_any

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


Report: TypeAlias = tuple[str, int, str]
"""An individual's id, a period and a symbol, as sent, not checked against a study. Secret."""

MAX_ID = 1_024
"""Maximum number of characters of an id."""

MAX_BATCH = 65_536
"""Maximum number of reports in one record."""

MAX_PERIOD = 2**63
"""MessagePack has integers from here on; arrays of periods have not."""

_BATCH_BYTES = 900_000

Block: TypeAlias = npt.NDArray[np.uint8]
"""A row of bytes for each string, all of the same width."""

MAX_BLOCK_BYTES = 256
"""Maximum width of a block in bytes. The buffer has this margin before the first string and after the last."""


@dataclass(frozen=True, eq=False, repr=False)
class ByteStrings:
    """Many short strings in one buffer, so that NumPy can work on all of them together.

    The strings may overlap. The buffer `data` has a margin of `MAX_BLOCK_BYTES` at both ends.
    """

    data: bytes
    starts: IntArray
    lengths: IntArray

    @classmethod
    def of(cls, strings: Sequence[bytes]) -> Self:
        """Copy strings into a new buffer."""
        lengths = np.fromiter(map(len, strings), dtype=np.int64, count=len(strings))
        return cls(_with_margins(b"".join(strings)), MAX_BLOCK_BYTES + np.cumsum(lengths) - lengths, lengths)

    @classmethod
    def of_text(cls, strings: Sequence[str]) -> Self:
        """Copy strings, encoded in UTF-8, into a new buffer."""
        joined = "\0".join(strings).encode()
        # Searching the joined bytes for separators is faster than taking the length of each string.
        between = np.flatnonzero(np.frombuffer(joined, dtype=np.uint8) == 0)
        if len(between) != len(strings) - 1:
            return cls.of([string.encode() for string in strings])
        starts, ends = np.append(0, between + 1), np.append(between, len(joined))
        return cls(_with_margins(joined), MAX_BLOCK_BYTES + starts, ends - starts)

    @property
    def ends(self) -> IntArray:
        """The index in `data` after the end of each string."""
        return self.starts + self.lengths

    def part(self, starts: IntArray, lengths: IntArray, valid: npt.NDArray[np.bool_]) -> ByteStrings:
        """Other strings in the same buffer. Those that are not `valid` are empty."""
        return ByteStrings(self.data, np.where(valid, starts, self.starts), np.where(valid, lengths, 0))

    def blocks(self, width: int, *, before: int = 0) -> Block:
        """A block of `width` bytes for each string that begins `before` bytes before its start. It may exceed the string."""
        everywhere = np.ndarray(len(self.data) - width + 1, dtype=f"V{width}", buffer=self.data, strides=(1,))
        return everywhere[self.starts - before].view(np.uint8).reshape(-1, width)


def _with_margins(joined: bytes) -> bytes:
    room = bytes(MAX_BLOCK_BYTES)
    return b"".join((room, joined, room))


@dataclass(frozen=True, eq=False, repr=False)
class ReportBatch:
    """Up to 65,536 reports of individuals with the same home partition. Secret; its `repr` shows the size only."""

    ids: Sequence[str]
    periods: npt.NDArray[np.uint16]
    symbols: npt.NDArray[np.uint8]
    """Indices in the study's alphabet."""
    encoded_ids: ByteStrings = field(init=False)
    """The ids in UTF-8."""

    def __post_init__(self) -> None:
        size = len(self.ids)
        if not 1 <= size <= MAX_BATCH:
            raise Malformed(f"ids: expected 1 to {MAX_BATCH} of them")
        try:
            spans = ByteStrings.of_text(self.ids)
        except TypeError:
            spans = None
        # Most ids have at most as many bytes as an id may have characters.
        if spans is None or not spans.lengths.all() or (spans.lengths.max() > MAX_ID and max(map(len, self.ids)) > MAX_ID):
            raise Malformed(f"ids: expected text of 1 to {MAX_ID} characters each")
        object.__setattr__(self, "encoded_ids", spans)
        if self.periods.dtype != np.uint16 or self.periods.shape != (size,):
            raise Malformed("t: expected 2 bytes for each id")
        if self.symbols.dtype != np.uint8 or self.symbols.shape != (size,):
            raise Malformed("s: expected a byte for each id")

    def __repr__(self) -> str:
        return f"ReportBatch({len(self.ids)} reports)"

    def encode(self) -> bytes:
        """The value of one record, which has no key."""
        periods, symbols = self.periods.astype(">u2").tobytes(), self.symbols.tobytes()
        return pack("reports", {"ids": list(self.ids), "t": periods, "s": symbols})


def encode_report(individual: str, period: int, symbol: str) -> bytes:
    """The value of one record, whose key is the id in UTF-8."""
    return pack(None, {"id": individual, "t": period, "s": symbol})


def encode_batches(ids: Sequence[str], periods: npt.NDArray[np.uint16], symbols: npt.NDArray[np.uint8]) -> Iterator[bytes]:
    """Encode reports in as few batch records as possible, in order. All ids must have the same home partition."""
    sizes = np.fromiter(map(len, map(str.encode, ids)), dtype=np.int64, count=len(ids)) + 8
    ends = np.cumsum(sizes)
    start = 0
    while start < len(ids):
        filled = int(np.searchsorted(ends, _BATCH_BYTES + (ends[start - 1] if start else 0), side="right"))
        stop = min(max(filled, start + 1), start + MAX_BATCH)
        yield ReportBatch(ids[start:stop], periods[start:stop], symbols[start:stop]).encode()
        start = stop


def decode_any(value: bytes | None) -> Report | ReportBatch:
    """Decode a single report or a batch. Raises Malformed."""
    # Nearly every record is a report of exactly the four usual entries: those are decoded here, quickly, and whatever is
    # not one, right or wrong, is looked at again below. At most four entries and four different keys: none came twice.
    try:
        fields = unpackb(value, max_array_len=0, max_map_len=4)
        version, individual, period, symbol = fields["v"], fields["id"], fields["t"], fields["s"]
        if (
            len(fields) == 4
            and type(individual) is str
            and type(period) is int
            and period < MAX_PERIOD
            and type(symbol) is str
            and type(version) is int
            and version == VERSION
            and individual
            and len(individual) <= MAX_ID
        ):
            return individual, period, symbol
    except (ValueError, TypeError, LookupError):
        pass
    return _decode(unpack_any(value))


def _decode(fields: Fields) -> Report | ReportBatch:
    if "type" not in fields:
        return _report(fields)
    if fields["type"] != "reports":
        raise Malformed("type: expected reports, or none")
    ids, periods, symbols = fields["ids"], fields["t"], fields["s"]
    if not isinstance(ids, list):
        raise Malformed("ids: expected a list")
    if not isinstance(periods, bytes) or len(periods) % 2:
        raise Malformed("t: expected 2 bytes for each id")
    if not isinstance(symbols, bytes):
        raise Malformed("s: expected a byte for each id")
    return ReportBatch(ids, np.frombuffer(periods, ">u2").astype(np.uint16), np.frombuffer(symbols, np.uint8))


def _report(fields: Fields) -> Report:
    individual, period, symbol = fields["id"], fields["t"], fields["s"]
    if not (isinstance(individual, str) and 1 <= len(individual) <= MAX_ID):
        raise Malformed(f"id: expected text of 1 to {MAX_ID} characters")
    if type(period) is not int or period >= MAX_PERIOD:
        raise Malformed("t: expected a whole number of 64 bits")
    if not isinstance(symbol, str):
        raise Malformed("s: expected text")
    return individual, period, symbol


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
