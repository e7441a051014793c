"""Columns packed, cut into chunks, and put together again in the order of their topic."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamproc.errors import Malformed, VerificationFailed
from streamproc.panel.column_packing import bits_for, column_digest, pack_symbols, unpack_symbols
from streamproc.privacy.types import Period
from streamproc.protocol.codec import Fields, pack
from streamproc.protocol.columns import (
    CHUNK_BYTES,
    ColumnAssembler,
    ColumnChunk,
    ContractRecord,
    DecodedColumn,
    column_chunks,
    decode_synthetic,
    encode_column,
)
from streamproc.releases.step import Column
from tests.protocol.examples import (
    CONTRACTS,
    EVER_TWICE,
    LONG_SPELLS,
    MONTHS_POOR,
    PAPER_MONTHS_POOR,
    PAPER_QUARTERLY,
    QUARTERLY,
)


def record_of(symbols: int, rows: int) -> ContractRecord:
    """A contract of so many symbols and synthetic people; nothing else about it matters here."""
    alphabet = tuple(f"s{index}" for index in range(symbols))
    contract = PAPER_QUARTERLY.contract
    mechanism = replace(contract.mechanism, q=symbols)
    return ContractRecord(replace(contract, alphabet=alphabet, mechanism=mechanism), rows)


def random_column(symbols: int, rows: int, seed: int = 0) -> Column:
    return np.random.default_rng(seed).integers(0, symbols, size=rows).astype(np.uint8)


def chunks_of(column: Column, symbols: int, period: int = 1) -> list[ColumnChunk]:
    decoded = [decode_synthetic(value) for value in encode_column("quarterly", Period(period), column, symbols)]
    assert all(isinstance(chunk, ColumnChunk) for chunk in decoded)
    return decoded  # type: ignore[return-value]


@pytest.mark.parametrize(("symbols", "bits"), [(2, 1), (3, 2), (4, 2), (5, 4), (16, 4), (17, 8), (64, 8)])
def test_a_row_takes_the_least_bits_that_tell_its_symbols_apart(symbols: int, bits: int) -> None:
    assert bits_for(symbols) == bits


@given(st.sampled_from([1, 2, 4, 8]), st.data())
def test_packing_is_that_of_numpys_packbits_on_the_bits_of_each_row(bits: int, data: st.DataObject) -> None:
    column = np.array(data.draw(st.lists(st.integers(0, min(2**bits, 64) - 1), max_size=40)), dtype=np.uint8)
    each_bit = [(int(symbol) >> place) & 1 for symbol in column for place in reversed(range(bits))]

    packed = pack_symbols(column, bits)

    assert packed == np.packbits(np.array(each_bit, dtype=np.uint8)).tobytes()
    assert unpack_symbols(packed, bits, len(column)).tolist() == column.tolist()


@pytest.mark.parametrize("symbols", [2, 3, 5, 64])
@pytest.mark.parametrize("beyond", [-1, 0, 1, 9])
def test_a_column_comes_back_from_its_chunks(symbols: int, beyond: int) -> None:
    rows = CHUNK_BYTES * 8 // bits_for(symbols) + beyond
    column = random_column(symbols, rows)
    assembler = ColumnAssembler(record_of(symbols, rows))

    chunks = chunks_of(column, symbols)
    outcomes = [assembler.add(chunk) for chunk in chunks]

    assert len(chunks) == (2 if beyond > 0 else 1)
    assert outcomes[:-1] == [None] * (len(chunks) - 1)
    whole = outcomes[-1]
    assert isinstance(whole, DecodedColumn)
    assert np.array_equal(whole.symbols, column)
    assert whole.digest == column_digest(column, bits_for(symbols))
    assert whole.digest == hashlib.sha256(b"".join(chunk.data for chunk in chunks)).digest()


def test_a_release_without_synthetic_people_still_has_columns() -> None:
    assembler = ColumnAssembler(record_of(2, 0))
    (chunk,) = chunks_of(random_column(2, 0), 2)

    whole = assembler.add(chunk)

    assert whole is not None
    assert len(whole.symbols) == 0


def test_columns_come_in_order_from_period_1_on() -> None:
    assembler = ColumnAssembler(record_of(2, 9))
    columns = [random_column(2, 9, seed) for seed in range(3)]
    chunks = [chunk for period, column in enumerate(columns, start=1) for chunk in chunks_of(column, 2, period)]

    released = [assembler.add(chunk) for chunk in chunks]

    assert [column.period for column in released if column] == [1, 2, 3]
    assert all(np.array_equal(one.symbols, two) for one, two in zip(released, columns, strict=True) if one)


@pytest.mark.parametrize(
    ("period", "rows", "release"),
    [
        pytest.param(2, 9, "quarterly", id="a period left out"),
        pytest.param(1, 10, "quarterly", id="another number of rows"),
        pytest.param(1, 9, "other", id="another release"),
    ],
)
def test_a_chunk_that_should_not_come_now_fails_verification(period: int, rows: int, release: str) -> None:
    chunk = next(column_chunks(release, Period(period), random_column(2, rows), 2))

    with pytest.raises(VerificationFailed, match="release quarterly: expected row 0 of 9 of period 1"):
        ColumnAssembler(record_of(2, 9)).add(chunk)


def test_a_column_that_comes_twice_fails_verification() -> None:
    assembler = ColumnAssembler(record_of(2, 9))
    (chunk,) = chunks_of(random_column(2, 9), 2)
    assembler.add(chunk)

    with pytest.raises(VerificationFailed):
        assembler.add(chunk)


def test_a_symbol_outside_the_alphabet_fails_verification() -> None:
    (chunk,) = chunks_of(np.array([0, 3], dtype=np.uint8), 4)

    with pytest.raises(VerificationFailed, match="alphabet"):
        ColumnAssembler(record_of(3, 2)).add(chunk)


@pytest.mark.parametrize(
    "wrong",
    [
        {"release": ""},
        {"release": "a/b"},
        {"period": 0},
        {"period": 1_000_001},
        {"first": -8},
        {"first": 4, "rows": 5},
        {"first": 16, "rows": 0, "data": b""},
        {"rows": 7, "data": b"\0"},
        {"rows": 10},
        {"total": 2**31},
        {"bits": 3},
        {"bits": True},
        {"bits": 2},
        {"data": b"\0"},
        {"data": b"\0\0\0"},
        {"data": "00"},
    ],
)
def test_a_chunk_that_cannot_be_is_malformed(wrong: dict[str, object]) -> None:
    good = ColumnChunk("quarterly", Period(1), 0, 9, 9, 1, b"\0\0")

    with pytest.raises(Malformed):
        replace(good, **wrong)  # type: ignore[arg-type]


def test_a_packed_column_has_as_many_bytes_as_its_rows_need() -> None:
    with pytest.raises(Malformed):
        unpack_symbols(b"\0\0", 1, 8)


def test_bits_after_the_last_row_must_be_zero() -> None:
    with pytest.raises(Malformed):
        ColumnChunk("quarterly", Period(1), 0, 9, 9, 1, b"\0\x01").symbols()


def test_a_column_with_a_symbol_it_has_no_room_for_is_refused() -> None:
    with pytest.raises(Malformed):
        encode_column("quarterly", Period(1), np.array([2], dtype=np.uint8), 2)


@pytest.mark.parametrize("record", CONTRACTS.values(), ids=CONTRACTS)
def test_a_contract_comes_back_with_all_its_values(record: ContractRecord) -> None:
    (encoded,) = record.encode()
    decoded = decode_synthetic(encoded)

    assert isinstance(decoded, ContractRecord)
    assert decoded.contract.to_dict() == record.contract.to_dict()
    assert decoded.n_star == record.n_star
    assert decoded.release == record.release


@pytest.mark.parametrize(
    ("record", "wrong"),
    [
        (record, wrong)
        for record, each in (
            (
                QUARTERLY,
                [
                    {"kind": "histogram"},
                    {"release": "a b"},
                    {"alphabet": ["0"]},
                    {"alphabet": "01"},
                    {"alphabet": ["0", ["1"]]},
                    {"n": -1},
                    {"n": 1001},
                    {"rho": 0.0},
                    {"rho": 1},
                    {"rho": float("nan")},
                    {"rho": float("inf")},
                    {"adjacency": "none"},
                    {"adjacency": ["replace-one"]},
                    {"horizon": 0},
                    {"horizon": 10**9},
                    {"insecure": 0},
                    {"k": 0},
                    {"k": 3},
                    {"k": 17, "horizon": 20},
                    {"measure": "guess"},
                    {"measure": None},
                    {"measure": ["flow"]},
                    {"measure": "contrast"},
                    {"n_pad": 2**40},
                    {"weights": [0.000625]},
                    {"weights": [0.000625, 0.0]},
                    {"weights": [0.000625, 1e61]},
                    {"weights": [0.000625, 1e-61]},
                    {"weights": [0.000625, float("nan")]},
                    {"weights": [0.000625, "1"]},
                    {"weights": 0.000625},
                    {"n_star": 1499},
                    {"n_star": None},
                ],
            ),
            (
                PAPER_QUARTERLY,
                [
                    {"sigma": 0.0},
                    {"sigma": float("nan")},
                    {"sigma": 1},
                    {"n_star": -1},
                    {"n_star": 2**31},
                ],
            ),
            (
                MONTHS_POOR,
                [
                    {"horizon": 3},
                    {"horizon": 1001},
                    {"horizon": 10**9},
                    {"alphabet": ["a", "b"]},
                    {"event": []},
                    {"event": [1]},
                    {"most": 0},
                    {"most": 1},
                    {"most": 3},
                    {"most": 65, "horizon": 100},
                    {"sigma": 0.0},
                    {"sigma": float("inf")},
                    {"matrices": ""},
                    {"matrices": None},
                    {"matrices": b"/5wAZP+mAFoAHv/iAAAAAP+wAFA="},
                    {"matrices": "/5wAZP+mAFoAHv/iAAAAAP+wAF!="},
                    {"matrices": "/5wAZP+mAFoAHv/iAAAAAP+wAFA=AAAA"},
                    {"matrices": "A" * 28},
                    {"n_star": 11},
                ],
            ),
            (
                PAPER_MONTHS_POOR,
                [
                    {"horizon": 3},
                    {"horizon": 10**9},
                    {"measure": "histogram"},
                    {"sigmas": [1.0]},
                    {"sigmas": [1.0, -1.0]},
                    {"sigmas": [1.0, "1"]},
                    {"n_star": 11},
                ],
            ),
            (
                LONG_SPELLS,
                [
                    {"measure": "paper"},
                    {"length": 0},
                    {"length": 3},
                    {"length": True},
                    {"event": []},
                    {"alphabet": ["a", "b"]},
                ],
            ),
            (
                EVER_TWICE,
                [
                    {"measure": "paper"},
                    {"pattern": "1"},
                    {"pattern": "("},
                    {"pattern": "12"},
                    {"pattern": "1" * 100_000},
                    {"pattern": None},
                    {"pattern": ["1"]},
                ],
            ),
        )
        for wrong in each
    ],
)
def test_a_contract_that_cannot_be_is_malformed(record: ContractRecord, wrong: dict[str, object]) -> None:
    fields = Fields(record.contract.to_dict() | {"n_star": record.n_star} | wrong)

    with pytest.raises(Malformed):
        decode_synthetic(pack("contract", fields))


def test_a_contract_that_the_library_does_not_take_is_malformed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refusing(*values: object) -> None:
        raise ValueError("some later rule")

    monkeypatch.setattr("streamproc.releases.window_flow.WindowFlowMechanism", refusing)

    with pytest.raises(Malformed):
        decode_synthetic(QUARTERLY.encode()[0])


def test_a_window_wider_than_the_limit_is_malformed() -> None:
    fields = QUARTERLY.contract.to_dict() | {"alphabet": list("abcd"), "k": 9, "horizon": 12, "n_star": 1}

    with pytest.raises(Malformed, match="65536"):
        decode_synthetic(pack("contract", fields))
