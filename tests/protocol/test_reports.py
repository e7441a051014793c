"""Single reports and batches, and where individuals are at home."""

from __future__ import annotations

import msgpack
import numpy as np
import pytest
from aiokafka.partitioner import murmur2 as kafka_murmur2
from hypothesis import given
from hypothesis import strategies as st

from streamproc.errors import Malformed
from streamproc.protocol.codec import MAX_RECORD
from streamproc.protocol.reports import (
    MAX_BATCH,
    MAX_ID,
    ReportBatch,
    decode_any,
    encode_batches,
    encode_report,
    home_partition,
    murmur2,
)

IDS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=70)
PERIODS = st.integers(-(2**63), 2**63 - 1)


def batch_of(ids: list[str], period: int = 1) -> ReportBatch:
    return ReportBatch(ids, np.full(len(ids), period, dtype=np.uint16), np.zeros(len(ids), dtype=np.uint8))


@given(IDS, PERIODS, st.text(st.characters(codec="utf-8"), max_size=70))
def test_a_report_comes_back_as_sent_whatever_its_period_and_symbol(individual: str, period: int, symbol: str) -> None:
    value = encode_report(individual, period, symbol)

    assert decode_any(value) == (individual, period, symbol)


@given(st.lists(st.tuples(IDS, st.integers(0, 2**16 - 1), st.integers(0, 255)), min_size=1, max_size=40))
def test_a_batch_comes_back_as_sent(reports: list[tuple[str, int, int]]) -> None:
    ids, periods, symbols = zip(*reports, strict=True)

    decoded = decode_any(ReportBatch(ids, np.array(periods, np.uint16), np.array(symbols, np.uint8)).encode())

    assert isinstance(decoded, ReportBatch)
    assert list(zip(decoded.ids, decoded.periods.tolist(), decoded.symbols.tolist(), strict=True)) == reports


@pytest.mark.parametrize(
    "fields",
    [
        {"v": 1, "id": "ada", "t": 1},
        {"v": 1, "id": "", "t": 1, "s": "0"},
        {"v": 1, "id": "a" * (MAX_ID + 1), "t": 1, "s": "0"},
        {"v": 1, "id": 7, "t": 1, "s": "0"},
        {"v": 1, "id": b"ada", "t": 1, "s": "0"},
        {"v": 1, "id": "ada", "t": "1", "s": "0"},
        {"v": 1, "id": "ada", "t": True, "s": "0"},
        {"v": 1, "id": "ada", "t": 1.0, "s": "0"},
        {"v": 1, "id": "ada", "t": 2**63, "s": "0"},
        {"v": 1, "id": "ada", "t": 1, "s": 0},
        {"v": 1, "id": "ada", "t": 1, "s": ["0"]},
        {"v": 2, "id": "ada", "t": 1, "s": "0"},
        {"v": True, "id": "ada", "t": 1, "s": "0"},
        {"v": 1.0, "id": "ada", "t": 1, "s": "0"},
        {"v": 1, "type": "reports", "id": "ada", "t": 1, "s": "0"},
        {"v": 1, "type": "reports", "ids": [], "t": b"", "s": b""},
        {"v": 1, "type": "reports", "ids": ["ada", ""], "t": b"\0\1\0\1", "s": b"\0\0"},
        {"v": 1, "type": "reports", "ids": ["ada", 7], "t": b"\0\1\0\1", "s": b"\0\0"},
        {"v": 1, "type": "reports", "ids": ["a" * (MAX_ID + 1)], "t": b"\0\1", "s": b"\0"},
        {"v": 1, "type": "reports", "ids": ["ada"], "t": b"\0\1\0", "s": b"\0"},
        {"v": 1, "type": "reports", "ids": ["ada"], "t": b"\0\1\0\1", "s": b"\0"},
        {"v": 1, "type": "reports", "ids": ["ada"], "t": b"\0\1", "s": b"\0\0"},
        {"v": 1, "type": "reports", "ids": ["ada"], "t": [1], "s": b"\0"},
        {"v": 1, "type": "reports", "ids": ["ada"], "t": b"\0\1", "s": "0"},
        {"v": 1, "type": "reports", "ids": "ada", "t": b"\0\1\0\1\0\1", "s": b"\0\0\0"},
        {"v": 1, "type": "report", "ids": ["ada"], "t": b"\0\1", "s": b"\0"},
    ],
)
def test_what_is_no_report_is_malformed(fields: dict[str, object]) -> None:
    with pytest.raises(Malformed):
        decode_any(msgpack.packb(fields))


def test_a_key_that_comes_twice_is_malformed() -> None:
    pairs = [("v", 1), ("id", "ada"), ("t", 1), ("t", 2), ("s", "0")]
    body = b"".join(msgpack.packb(part) for pair in pairs for part in pair)

    with pytest.raises(Malformed):
        decode_any(b"\x85" + body)
    with pytest.raises(Malformed):
        decode_any(b"\xde\x00\x05" + body)


def test_a_map_with_a_longer_header_than_needed_is_still_a_report() -> None:
    assert decode_any(b"\xde\x00\x04" + encode_report("ada", 1, "0")[1:]) == ("ada", 1, "0")


def test_a_batch_of_too_many_reports_is_malformed() -> None:
    with pytest.raises(Malformed):
        batch_of(["a"] * (MAX_BATCH + 1))


def test_many_reports_are_split_into_as_few_records_as_fit() -> None:
    short = [str(i) for i in range(MAX_BATCH + 1)]
    long = ["a" * 1000 for _ in range(2000)]
    ids = short + long

    values = list(encode_batches(ids, np.arange(len(ids), dtype=np.uint32).astype(np.uint16), np.ones(len(ids), np.uint8)))
    decoded = [decode_any(value) for value in values]

    assert max(map(len, values)) <= MAX_RECORD
    assert len(values) == 4
    assert [individual for batch in decoded if isinstance(batch, ReportBatch) for individual in batch.ids] == ids
    periods = np.concatenate([batch.periods for batch in decoded if isinstance(batch, ReportBatch)])
    assert periods.tolist() == [i % 2**16 for i in range(len(ids))]


def test_printing_a_batch_shows_nobody() -> None:
    assert "ada" not in repr(batch_of(["ada"])) + str(batch_of(["ada"]))


@pytest.mark.parametrize(
    ("key", "signed"),
    [
        ("21", -973932308),
        ("foobar", -790332482),
        ("a-little-bit-long-string", -985981536),
        ("a-little-bit-longer-string", -1486304829),
        ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        ("abc", 479470107),
    ],
)
def test_the_hash_is_that_of_kafkas_own_tests(key: str, signed: int) -> None:
    assert murmur2(key.encode()) == signed % 2**32


@given(st.binary(max_size=70))
def test_the_hash_is_that_of_aiokafka(key: bytes) -> None:
    assert murmur2(key) == kafka_murmur2(key) % 2**32


@given(st.text(st.characters(codec="utf-8"), max_size=12), st.integers(1, 1024))
def test_a_home_partition_is_one_of_the_topic(individual: str, partitions: int) -> None:
    assert 0 <= home_partition(individual, partitions) < partitions
