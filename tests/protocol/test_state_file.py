"""State files: a round trip keeps the content, and damaged, foreign and unknown files have different errors."""

from __future__ import annotations

from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from streamproc.errors import Malformed
from streamproc.protocol.state_file import STATE_VERSION, OldStateFile, pack_arrays, seal, unpack_arrays, unseal

MINE, OTHER = bytes(32), bytes([1] * 32)

ARRAYS = hnp.arrays(
    st.sampled_from(
        [np.bool_, np.uint8, np.uint16, np.uint32, np.uint64, np.int8, np.int16, np.int32, np.int64, np.float64]
    ),
    hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
)
PLAIN = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(max_size=9) | st.binary(max_size=9)
NAMES = st.text(max_size=9).filter(lambda name: name != "dtype")
TREES = st.recursive(PLAIN | ARRAYS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3))


def same(one: Any, two: Any) -> bool:
    if isinstance(one, np.ndarray):
        return bool(one.dtype == two.dtype and one.shape == two.shape and one.tobytes() == two.tobytes())
    if isinstance(one, dict):
        return one.keys() == two.keys() and all(same(one[key], two[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(two) and all(map(same, one, two))
    return bool(one == two and type(one) is type(two))


@given(st.dictionaries(NAMES, TREES, max_size=4))
def test_a_tree_of_arrays_comes_back_from_its_file(values: dict[str, Any]) -> None:
    assert same(unpack_arrays(unseal(seal(MINE, pack_arrays(values)), MINE)), values)


def test_arrays_of_another_byte_order_or_layout_come_back_with_their_values() -> None:
    values = {"big": np.arange(6, dtype=">i8").reshape(2, 3), "sliced": np.arange(9, dtype=np.uint16)[::2]}

    back = unpack_arrays(pack_arrays(values))

    assert all(np.array_equal(back[name], values[name]) for name in values)
    assert back["big"].dtype == np.dtype("<i8")


def test_arrays_that_come_back_are_read_only() -> None:
    array = unpack_arrays(pack_arrays({"a": np.zeros(3)}))["a"]

    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1


@pytest.mark.parametrize("array", [np.array(["ada"]), np.array([object()]), np.zeros(1, np.complex128), np.zeros((1,) * 5)])
def test_arrays_of_other_kinds_are_not_kept(array: Any) -> None:
    with pytest.raises(Malformed):
        pack_arrays({"a": array})


def test_a_map_that_looks_like_an_array_is_not_kept() -> None:
    with pytest.raises(Malformed):
        pack_arrays({"a": {"dtype": "mine"}})


@pytest.mark.parametrize(
    "wrong",
    [
        {"dtype": "|O"},
        {"dtype": "<M8[s]"},
        {"dtype": ["<u2"]},
        {"shape": 3},
        {"shape": [2]},
        {"shape": [-3]},
        {"shape": [-1, -3]},
        {"shape": [True, 3]},
        {"shape": [2**62, 2**62]},
        {"shape": [1, 1, 1, 1, 3]},
        {"data": b"12345"},
        {"data": "123456"},
        {"data": None},
    ],
)
def test_an_array_that_cannot_be_is_malformed(wrong: dict[str, Any]) -> None:
    with pytest.raises(Malformed):
        unpack_arrays(msgpack.packb({"a": {"dtype": "<u2", "shape": [3], "data": b"123456"} | wrong}))


@pytest.mark.parametrize("body", [b"", b"\xc0", b"\x90", b"\x80\x80", b"\x82\xa1a\x01\xa1a\x02", b"\x91" * 3000])
def test_what_is_no_map_is_no_state(body: bytes) -> None:
    with pytest.raises(Malformed):
        unpack_arrays(body)


def reason_of(file: bytes, fingerprint: bytes = MINE) -> str:
    with pytest.raises(Malformed) as caught:
        unseal(file, fingerprint)
    return caught.value.reason


def test_reasons_tell_what_is_wrong_with_a_file() -> None:
    file = seal(MINE, b"body")

    assert "bad magic" in reason_of(b"")
    assert "bad magic" in reason_of(b"PK\3\4" + file[4:])
    assert f"version {STATE_VERSION + 1} is unknown" in reason_of(file[:4] + (STATE_VERSION + 1).to_bytes(2) + file[6:])
    assert "another study" in reason_of(file, OTHER)
    assert bytes(unseal(file, MINE)) == b"body"


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_whole_file_of_version_0_1_is_told_from_a_damaged_one(version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamproc.protocol.state_file.STATE_VERSION", version)
    file = seal(MINE, b"body")
    monkeypatch.undo()

    for fingerprint in (MINE, OTHER):
        with pytest.raises(OldStateFile, match=r"^a study that was begun with version 0\.1 .* finished with version 0\.1$"):
            unseal(file, fingerprint)
    assert "checksum" in reason_of(file[:-1])
    assert "version 0 is unknown" in reason_of(file[:4] + bytes(2) + file[6:])


def test_every_flipped_bit_and_every_cut_is_noticed() -> None:
    file = seal(MINE, b"body")

    for place in range(len(file)):
        assert reason_of(file[:place] + bytes([file[place] ^ 0x10]) + file[place + 1 :])
        assert reason_of(file[:place])
    assert "checksum" in reason_of(file + b"\0")
    assert "checksum" in reason_of(file[:10] + b"\1" + file[11:])


def test_a_fingerprint_has_32_bytes() -> None:
    with pytest.raises(Malformed):
        seal(b"short", b"body")
