"""The key, cuts and rejects."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamproc.errors import Malformed
from streamproc.privacy.types import Period
from streamproc.protocol.codec import pack
from streamproc.protocol.control import Cut, Key, decode_control
from streamproc.protocol.rejects import Reason, Reject, decode_reject


@given(st.integers(1, 1_000_000), st.lists(st.integers(0, 2**63 - 1), min_size=1, max_size=1024), st.booleans())
def test_a_cut_comes_back_and_only_a_last_one_says_so(period: int, ends: list[int], last: bool) -> None:
    cut = Cut(Period(period), tuple(ends), last)

    assert decode_control(cut.encode()) == cut
    assert (b"last" in cut.encode()) is last


@given(st.binary(min_size=32, max_size=32))
def test_a_key_comes_back(key: bytes) -> None:
    assert decode_control(Key(key).encode()) == Key(key)


@given(st.dictionaries(st.sampled_from(Reason), st.integers(1, 65_536), min_size=1))
def test_a_reject_of_a_batch_comes_back_and_counts_its_reports(counts: dict[Reason, int]) -> None:
    reject = Reject.of(3, 7, counts)
    assert decode_reject(reject.encode()) == reject
    assert (reject.by_reason, reject.count) == (counts, sum(counts.values()))
    assert counts[reject.reason] == max(counts.values())


@given(st.integers(0, 1023), st.integers(0, 2**63 - 1), st.sampled_from(Reason))
def test_a_reject_comes_back(partition: int, offset: int, reason: Reason) -> None:
    assert decode_reject(Reject(partition, offset, reason).encode()) == Reject(partition, offset, reason)


def test_printing_shows_neither_the_key_nor_offsets() -> None:
    assert repr(Key(b"k" * 32)) == "Key()"
    assert repr(Cut(Period(3), (77, 88))) == "Cut(period=3, last=False)"


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("key", {"key": b"short"}),
        ("key", {"key": "k" * 32}),
        ("key", {}),
        ("cut", {"period": 0, "ends": [1]}),
        ("cut", {"period": 1_000_001, "ends": [1]}),
        ("cut", {"period": True, "ends": [1]}),
        ("cut", {"period": 1, "ends": []}),
        ("cut", {"period": 1, "ends": [0] * 1025}),
        ("cut", {"period": 1, "ends": [-1]}),
        ("cut", {"period": 1, "ends": [2**63]}),
        ("cut", {"period": 1, "ends": ["0"]}),
        ("cut", {"period": 1, "ends": {"0": 1}}),
        ("cut", {"period": 1}),
        ("cut", {"period": 1, "ends": [1], "last": 1}),
        ("reject", {"partition": 0, "offset": 0, "reason": "late"}),
        ("Cut", {"period": 1, "ends": [0]}),
    ],
)
def test_what_is_no_control_record_is_malformed(kind: str, fields: dict[str, object]) -> None:
    with pytest.raises(Malformed):
        decode_control(pack(kind, fields))


@pytest.mark.parametrize(
    "fields",
    [
        {"partition": -1, "offset": 0, "reason": "late"},
        {"partition": 0, "offset": -1, "reason": "late"},
        {"partition": 0, "offset": 0, "reason": "because"},
        {"partition": 0, "offset": 0, "reason": 7},
        {"partition": 0, "offset": 0},
        {"partition": 0, "offset": 0, "reason": "late", "counts": {"late": 1}},
        {"partition": 0, "offset": 0, "reason": "late", "counts": {"late": 1, "duplicate": 2}},
        {"partition": 0, "offset": 0, "reason": "late", "counts": {"late": 2, "because": 1}},
        {"partition": 0, "offset": 0, "reason": "late", "counts": {"late": 65_537}},
        {"partition": 0, "offset": 0, "reason": "late", "counts": {"late": "2"}},
        {"partition": 0, "offset": 0, "reason": "late", "counts": ["late"]},
    ],
)
def test_what_is_no_reject_is_malformed(fields: dict[str, object]) -> None:
    with pytest.raises(Malformed):
        decode_reject(pack("reject", fields))


def test_a_record_longer_than_the_limit_is_refused_when_written() -> None:
    with pytest.raises(Malformed, match="1000000"):
        pack("study", {"study": {"text": "a" * 1_000_000}})
