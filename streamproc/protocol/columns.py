"""Records of the synthetic topic of a release: its public contract, then its columns in chunks."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from streamproc.errors import Malformed, VerificationFailed
from streamproc.panel.column_packing import WIDTHS, bits_for, pack_symbols, packed_bytes, unpack_symbols
from streamproc.privacy.types import Period
from streamproc.protocol.codec import Fields, check_period, check_release, check_whole, pack, unpack
from streamproc.protocol.snapshots import SnapshotAssembler, SnapshotChunk, decode_snapshot, has_summary
from streamproc.releases.contracts import contract_from_values
from streamproc.releases.kind import MAX_ROWS, Contract
from streamproc.releases.step import Column, PanelState

CHUNK_CHARACTERS = 524_288
"""Maximum characters of a contract's matrices in one record."""

MAX_MATRIX_CHUNKS = 64
"""Maximum number of further records of one contract."""

CHUNK_BYTES = 524_288
"""Packed bytes of a full chunk. Its rows are a multiple of 8, so the chunks' data, joined, are the packed column."""


class NewRows(NamedTuple):
    """The synthetic people who enter with a column of an open study. Their entries are the last ones of the column."""

    before: int
    """Number of rows before the column, also those who have left: the row number of the first who enters."""
    entrants: int
    """How many enter."""


@dataclass(frozen=True)
class ColumnChunk:
    """Entries `first..first+rows-1` of one column, which has `total` entries: one for each row, in an open study one for
    each row that was present before the column or enters with it."""

    release: str
    period: Period
    first: int
    rows: int
    total: int
    bits: int
    data: bytes = field(repr=False)
    new: NewRows | None = None
    """Who enters; None in a closed study."""

    def __post_init__(self) -> None:
        check_release(self.release)
        check_period(self.period)
        check_whole("total", self.total, 0, MAX_ROWS)
        check_whole("first", self.first, 0, self.total)
        check_whole("rows", self.rows, 1 if self.total else 0, self.total - self.first)
        if type(self.bits) is not int or self.bits not in WIDTHS:
            raise Malformed("bits: expected 1, 2, 4 or 8")
        if self.new is not None:
            check_whole("entrants", self.new.entrants, 0, self.total)
            check_whole("before", self.new.before, self.total - self.new.entrants, MAX_ROWS - self.new.entrants)
        if self.first % 8 or (self.rows % 8 and self.first + self.rows < self.total):
            raise Malformed("rows: expected a multiple of 8 in every chunk but the last")
        if type(self.data) is not bytes or len(self.data) != packed_bytes(self.rows, self.bits):
            raise Malformed("data: expected `bits` bits for each of `rows` rows, and no more bytes than that")

    def symbols(self) -> Column:
        """The alphabet index of each row."""
        return unpack_symbols(self.data, self.bits, self.rows)

    def encode(self) -> bytes:
        """The record's value."""
        fields = {
            "release": self.release,
            "period": self.period,
            "first": self.first,
            "rows": self.rows,
            "total": self.total,
            "bits": self.bits,
            "data": self.data,
        }
        return pack("column", fields if self.new is None else fields | self.new._asdict())


def decode_synthetic(value: bytes | None) -> ContractRecord | LongContract | MatrixChunk | ColumnChunk | SnapshotChunk:
    """Decode a record of a synthetic topic. Raises Malformed."""
    fields = unpack(value, "contract", "matrices", "column", "snapshot")
    match fields["type"]:
        case "contract" if "matrix_chunks" in fields:
            return LongContract(fields)
        case "contract":
            return decode_contract(fields)
        case "matrices":
            return MatrixChunk(fields["release"], fields["part"], fields["data"])
        case "snapshot":
            return decode_snapshot(fields)
        case _:
            return _decode_column(fields)


def _decode_column(fields: Fields) -> ColumnChunk:
    return ColumnChunk(
        fields["release"],
        fields["period"],
        fields["first"],
        fields["rows"],
        fields["total"],
        fields["bits"],
        fields["data"],
        NewRows(fields["before"], fields["entrants"]) if "before" in fields or "entrants" in fields else None,
    )


def encode_column(release: str, period: Period, column: Column, codes: int, new: NewRows | None = None) -> list[bytes]:
    """The values of a column's records, in order; `codes` is the number of different entries (`Contract.column_codes`)."""
    return [chunk.encode() for chunk in column_chunks(release, period, column, codes, new)]


def column_chunks(
    release: str, period: Period, column: Column, codes: int, new: NewRows | None = None
) -> Iterator[ColumnChunk]:
    """The chunks of a column, in order."""
    if column.dtype != np.uint8 or column.ndim != 1 or (column.size and int(column.max()) >= codes):
        raise Malformed("data: expected a column of places in the alphabet")
    bits = bits_for(codes)
    rows = CHUNK_BYTES * 8 // bits
    for first in range(0, max(len(column), 1), rows):
        part = column[first : first + rows]
        yield ColumnChunk(release, period, first, len(part), len(column), bits, pack_symbols(part, bits), new)


@dataclass(frozen=True, eq=False)
class DecodedColumn:
    """A complete column, decoded."""

    release: str
    period: Period
    symbols: Column = field(repr=False)
    digest: bytes
    """SHA-256 of the packed column."""
    new: NewRows | None = None
    """Who enters with the column; None in a closed study."""
    snapshot: bytes | None = None
    """Digest of the snapshot that follows the column, if one does."""


class ColumnAssembler:
    """Assembles the columns of a release, from period 1 on, from chunks in the order of its topic.

    A column of an open study after which a snapshot is due is complete when that is. Only the digest of it is kept.
    """

    def __init__(self, contract: ContractRecord, panel: PanelState | None = None) -> None:
        """With `panel`, the next chunk is that of the first column after it."""
        self._contract = contract
        self._period = Period(1) if panel is None else Period(panel.period + 1)
        self._parts: list[Column] = []
        self._rows = 0
        self._hash = hashlib.sha256()
        self._new: NewRows | None = None
        """Who enters with the column that has begun; None in a closed study."""
        self._numbered = 0 if panel is None else panel.rows
        """Open study: number of rows before the next column."""
        self._present = 0 if panel is None else len(panel.present.numbers)
        """Open study: how many of them are present."""
        self._waiting: DecodedColumn | None = None
        """The column whose snapshot is not complete."""
        self._snapshot: SnapshotAssembler | None = None

    @property
    def has_begun(self) -> bool:
        """Whether some but not all chunks of a column or of its snapshot were added."""
        return self._rows > 0 or self._waiting is not None

    def add(self, chunk: ColumnChunk | SnapshotChunk) -> DecodedColumn | None:
        """Add the next chunk, and return the column that it completes, or None. Raises VerificationFailed."""
        if isinstance(chunk, SnapshotChunk) or self._waiting is not None:
            return self._add_snapshot(chunk)
        contract = self._contract
        if contract.contract.is_open and not self.has_begun:
            self._new = NewRows(self._numbered, chunk.new.entrants if chunk.new else 0)
        total = contract.n_star if self._new is None else self._present + self._new.entrants
        expected = (contract.release, self._period, self._rows, total, contract.bits, self._new)
        if (chunk.release, chunk.period, chunk.first, chunk.total, chunk.bits, chunk.new) != expected:
            wanted = _place(self._rows, total, self._period, self._new)
            came = _place(chunk.first, chunk.total, chunk.period, chunk.new)
            raise VerificationFailed(
                f"release {contract.release}: expected {wanted}, {contract.bits} bits each, but {came} came, "
                f"{chunk.bits} bits each"
            )
        symbols = chunk.symbols()
        if symbols.size and int(symbols.max()) >= contract.contract.column_codes:
            raise VerificationFailed(
                f"release {contract.release}: period {self._period} holds a symbol outside its alphabet"
            )
        self._parts.append(symbols)
        self._rows += chunk.rows
        self._hash.update(chunk.data)
        return self._completed() if self._rows == total else None

    def _completed(self) -> DecodedColumn | None:
        symbols = np.concatenate(self._parts)
        if self._new is not None:
            self._count_rows(symbols, self._new)
        column = DecodedColumn(self._contract.release, self._period, symbols, self._hash.digest(), self._new)
        self._parts, self._rows, self._hash = [], 0, hashlib.sha256()
        if self._new is not None and has_summary(self._period):
            self._waiting = column
            self._snapshot = SnapshotAssembler(column.release, column.period, self._present)
            return None
        self._period = Period(self._period + 1)
        return column

    def _add_snapshot(self, chunk: ColumnChunk | SnapshotChunk) -> DecodedColumn | None:
        column, snapshot = self._waiting, self._snapshot
        if column is None or snapshot is None or not isinstance(chunk, SnapshotChunk):
            raise VerificationFailed(
                f"release {self._contract.release}, period {self._period}: a snapshot is missing, or has no column before it"
            )
        if not snapshot.add(chunk):
            return None
        self._waiting = self._snapshot = None
        self._period = Period(self._period + 1)
        return replace(column, snapshot=snapshot.digest)

    def _count_rows(self, symbols: Column, new: NewRows) -> None:
        """Take note of who is present after a column of an open study. The largest code says that a person has left."""
        left = symbols == self._contract.contract.column_codes - 1
        if left[len(symbols) - new.entrants :].any():
            raise VerificationFailed(
                f"release {self._contract.release}: in period {self._period} somebody leaves who has just entered"
            )
        self._numbered += new.entrants
        self._present = len(symbols) - int(np.count_nonzero(left))


def _place(first: int, total: int, period: Period, new: NewRows | None) -> str:
    numbered = "" if new is None else f", with {new.entrants} new rows from {new.before} on"
    return f"row {first} of {total} of period {period}{numbered}"


@dataclass(frozen=True, eq=False)
class ContractRecord:
    """A contract and the number of synthetic people, which depends on the noise for a `paper` window release.

    In an open study that number changes, and `n_star` is 0.
    """

    contract: Contract
    n_star: int

    def __post_init__(self) -> None:
        check_whole("n_star", self.n_star, 0, MAX_ROWS)
        if self.contract.n_star not in (None, self.n_star):
            raise Malformed("n_star: expected what n, n_pad and k make it")
        if self.contract.is_open and self.n_star != 0:
            raise Malformed("n_star: expected 0 in an open study")

    @property
    def release(self) -> str:
        """The release's name."""
        return self.contract.name

    @property
    def bits(self) -> int:
        """Bits per row in its columns."""
        return bits_for(self.contract.column_codes)

    def digest(self) -> bytes:
        """SHA-256 of the values of its records, one after the other, as the ledger states it."""
        return hashlib.sha256(b"".join(self.encode())).digest()

    def encode(self) -> list[bytes]:
        """The values of its records: the contract, then chunks of its matrices if they do not fit into one record."""
        fields = self.contract.to_dict() | {"n_star": self.n_star}
        text = fields.get("matrices", "")
        if len(text) <= CHUNK_CHARACTERS:
            return [pack("contract", fields)]
        first, *others = [text[start : start + CHUNK_CHARACTERS] for start in range(0, len(text), CHUNK_CHARACTERS)]
        contract = pack("contract", fields | {"matrices": first, "matrix_chunks": len(others)})
        chunks = [MatrixChunk(self.release, part, data) for part, data in enumerate(others, start=1)]
        return [contract, *(chunk.encode() for chunk in chunks)]


@dataclass(frozen=True)
class MatrixChunk:
    """A part of the text of a contract's matrices, for contracts that do not fit into one record."""

    release: str
    part: int
    """Its number, from 1; the contract holds the text before the first."""
    data: str = field(repr=False)

    def __post_init__(self) -> None:
        check_release(self.release)
        check_whole("part", self.part, 1, MAX_MATRIX_CHUNKS)
        if type(self.data) is not str or not 0 < len(self.data) <= CHUNK_CHARACTERS:
            raise Malformed(f"data: expected a text of at most {CHUNK_CHARACTERS} characters")

    def encode(self) -> bytes:
        """The record's value."""
        return pack("matrices", {"release": self.release, "part": self.part, "data": self.data})


class LongContract:
    """A contract whose matrices come in further records."""

    def __init__(self, fields: Fields) -> None:
        check_release(fields["release"])
        check_whole("matrix_chunks", fields["matrix_chunks"], 1, MAX_MATRIX_CHUNKS)
        if not isinstance(fields["matrices"], str):
            raise Malformed("matrices: expected a text")
        check_whole("n_star", fields["n_star"], 0, MAX_ROWS)
        self.release: str = fields["release"]
        self.n_star: int = fields["n_star"]
        self._fields = fields
        self._texts: list[str] = [fields["matrices"]]

    def add(self, chunk: MatrixChunk) -> ContractRecord | None:
        """Add the next chunk, and return the contract once it is complete. Raises Malformed for any other chunk."""
        if (chunk.release, chunk.part) != (self.release, len(self._texts)):
            raise Malformed("part: expected the next chunk of the contract's matrices")
        self._texts.append(chunk.data)
        if len(self._texts) <= self._fields["matrix_chunks"]:
            return None
        complete = {key: value for key, value in self._fields.items() if key != "matrix_chunks"}
        return decode_contract(Fields(complete | {"matrices": "".join(self._texts)}))


def decode_contract(fields: Fields) -> ContractRecord:
    """Decode the contract in the fields of a message. Raises Malformed."""
    return ContractRecord(checked_contract(fields), fields["n_star"])


def checked_contract(fields: Fields) -> Contract:
    """The contract in the fields of a message. Raises Malformed for anything else."""
    return contract_from_values(fields, lambda field, got, expected: Malformed(f"{field}: expected {expected}"))
