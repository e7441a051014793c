"""Untrusted bytes: a decoder returns a value or raises Malformed, in bounded memory, and quotes nothing of them."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamproc.errors import Malformed
from streamproc.protocol.codec import MAX_DEPTH, MAX_RECORD
from streamproc.protocol.columns import ColumnChunk, decode_synthetic
from streamproc.protocol.reports import decode_any
from streamproc.protocol.snapshots import CHUNK_ROWS, SnapshotChunk, unpack_gaps
from streamproc.protocol.state_file import pack_arrays, seal, unpack_arrays, unseal
from tests.memory import memory_taken
from tests.protocol.examples import DECODERS, EXAMPLES

FINGERPRINT = bytes(range(32))
SEEDS = [example.encoded for example in EXAMPLES.values()]
SEED_STATE = pack_arrays({"period": 3, "rows": np.arange(9, dtype=np.uint16), "more": [{"a": np.zeros((2, 2))}, None, "x"]})

MAX_BYTES_PER_BYTE = 32
"""What decoding may take, as the page states it: so many times the length of the record, plus `MAX_EXTRA_BYTES`."""
MAX_EXTRA_BYTES = 4 * 2**20
MAX_EXTRA_BYTES_OF_STATE = 80 * 2**20
"""A state file is not scanned first, which would take as much memory again: lists in lists are allocated as announced."""


def decode_state(value: bytes | None) -> Any:
    return unpack_arrays(value or b"")


def decode_file(value: bytes | None) -> Any:
    return unpack_arrays(unseal(value or b"", FINGERPRINT))


ALL = (*DECODERS, decode_state, decode_file)


def tried(decode: Callable[[bytes | None], Any], value: bytes | None) -> bool:
    """Whether it decodes. Any error but Malformed, or one that has bytes in tow, escapes."""
    try:
        decoded = decode(value)
        if isinstance(decoded, ColumnChunk):
            decoded.symbols()
        if isinstance(decoded, SnapshotChunk):
            unpack_gaps(decoded.numbers, decoded.rows)
        return True
    except Malformed as malformed:
        assert malformed.__context__ is None
        assert malformed.__cause__ is None
        assert malformed.args == (malformed.reason,)
        return False


@given(st.binary(max_size=200))
def test_random_bytes_never_break_a_decoder(value: bytes) -> None:
    for decode in ALL:
        tried(decode, value)


ODD = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=5)
    | st.binary(max_size=40)
    | st.builds(msgpack.ExtType, st.integers(0, 127), st.binary(max_size=3))
    | st.builds(msgpack.Timestamp, st.integers(0, 2**34))
)
ODD_TREES = st.recursive(
    ODD,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3) | st.binary(max_size=3), inner, max_size=3)
    ),
)


@given(st.sampled_from(SEEDS), st.data(), ODD_TREES)
def test_a_field_of_any_other_kind_never_breaks_a_decoder(seed: bytes, data: st.DataObject, odd: Any) -> None:
    fields = msgpack.unpackb(seed)
    fields[data.draw(st.sampled_from(sorted(fields)))] = odd
    value = msgpack.packb(fields)

    for decode in DECODERS:
        tried(decode, value)


@given(st.sampled_from(sorted(EXAMPLES)), st.data())
def test_a_message_cut_short_or_followed_by_more_is_malformed(name: str, data: st.DataObject) -> None:
    example = EXAMPLES[name]
    length = data.draw(st.integers(0, len(example.encoded) - 1))

    assert not tried(example.decode, example.encoded[:length])
    assert not tried(example.decode, example.encoded + b"\xc0")


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_key_that_comes_twice_is_malformed(name: str) -> None:
    example = EXAMPLES[name]
    entries = list(msgpack.unpackb(example.encoded).items())
    doubled = [*entries, entries[-1]]
    body = b"".join(msgpack.packb(part) for entry in doubled for part in entry)

    assert not tried(example.decode, b"\xde" + len(doubled).to_bytes(2) + body)


OPTIONAL = {
    "reject-of-a-batch": {"counts"},
    "period-salted": {"salt"},
    "cut-last": {"last"},
    "tally-last": {"last"},
    "period-last": {"salt", "last"},
    "period-summary": {"salt", "summary"},
}
"""Entries without which a message means something else, or is one of an earlier program."""


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_missing_entry_is_malformed(name: str) -> None:
    example = EXAMPLES[name]
    fields = msgpack.unpackb(example.encoded)

    for key in fields.keys() - OPTIONAL.get(name, set()):
        assert not tried(example.decode, msgpack.packb({other: fields[other] for other in fields if other != key}))


def nested(depth: int, innermost: Any = None) -> Any:
    for _ in range(depth):
        innermost = [innermost]
    return innermost


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("depth", [MAX_DEPTH, 100, 300, 1000])
def test_a_field_of_lists_in_lists_is_malformed_however_deep(name: str, depth: int) -> None:
    """Nested deeply enough that a recursive walk, such as that of a repr, exhausts the stack."""
    example = EXAMPLES[name]
    fields = msgpack.unpackb(example.encoded)

    for key in fields:
        assert not tried(example.decode, msgpack.packb(fields | {key: nested(depth)}))
    assert not tried(example.decode, msgpack.packb(fields | {"unknown": nested(depth)}))


def test_a_message_may_be_as_deep_as_the_page_says() -> None:
    report = msgpack.unpackb(EXAMPLES["report"].encoded)

    assert tried(decode_any, msgpack.packb(report | {"unknown": nested(MAX_DEPTH - 1)}))
    assert not tried(decode_any, msgpack.packb(report | {"unknown": nested(MAX_DEPTH)}))


@pytest.mark.parametrize("depth", [MAX_DEPTH, 300, 500, 1000])
def test_state_of_lists_or_maps_in_one_another_is_malformed(depth: int) -> None:
    maps: Any = None
    for _ in range(depth):
        maps = {"a": maps}

    assert not tried(decode_state, msgpack.packb({"a": nested(depth)}))
    assert not tried(decode_state, msgpack.packb({"a": maps}))


def array(length: int) -> bytes:
    return b"\xdd" + length.to_bytes(4)


def map_of(entries: int) -> bytes:
    return b"\xdf" + entries.to_bytes(4)


def filled(head: bytes, with_: bytes) -> bytes:
    return head + with_ * ((MAX_RECORD - len(head)) // len(with_))


BATCH = b"\x84\xa1v\x01\xa4type\xa7reports\xa1x\xc0\xa3ids"
BOMBS = {
    "nothing": b"",
    "lists in lists": b"\x91" * MAX_RECORD,
    "maps in maps": filled(b"", b"\x81\xa1a"),
    "lists that promise much": array(65_535) * 200_000,
    "lists that promise everything": array(2**32 - 1) * 200_000,
    "lists in lists that promise much and hold something": filled(array(65_535) * 500, b"\xc0"),
    "a batch of lists that promise much": filled(BATCH + array(65_535) * 500, b"\xc0"),
    "maps that promise much": filled(map_of(2**32 - 1), b"\xa0\xc0"),
    "empty lists": filled(array(999_995), b"\x90"),
    "empty maps": filled(array(999_995), b"\x80"),
    "empty lists in a batch": filled(BATCH + array(65_535), b"\x90"),
    "short text": filled(BATCH + array(62_500), b"\xa2\xc4\x80"),
    "short text in many lists": b"\x85"
    + b"".join(b"\xa1" + key + array(65_536) + b"\xa2\xc4\x80" * 65_536 for key in (b"v", b"a", b"b", b"c", b"d")),
    "ids of one letter": BATCH + array(65_536) + b"\xa2\xc4\x80" * 65_536,
    "floats": filled(array(111_110), b"\xcb\x3f\xf0\0\0\0\0\0\1"),
    "timestamps": filled(array(166_665), b"\xd6\xff\0\0\0\1"),
    "text that promises much": b"\xdb\xff\xff\xff\xff" + b"a" * 1000,
    "bytes that promise much": b"\xc6\xff\xff\xff\xff" + b"a" * 1000,
    "extensions": filled(b"", b"\xd4\x05\0"),
    "text that is no UTF-8": b"\x84\xa1v\x01\xa2id\xa2\xff\xfe\xa1t\x01\xa1s\xa10",
    "one byte too long": msgpack.packb({"v": 1, "id": "a", "t": 1, "s": "0", "x": b"\0" * MAX_RECORD}),
    "keys that are lists": b"\x81\x90\x01",
    "keys that are numbers": b"\x81\x01\x01",
    "the reserved byte": b"\xc1",
    "many keys": map_of(60_000) + b"".join(msgpack.packb(str(i)) + b"\xc0" for i in range(60_000)),
}


@pytest.mark.parametrize("decode", ALL, ids=lambda decode: decode.__name__)
@pytest.mark.parametrize("bomb", BOMBS)
def test_a_bomb_is_refused_within_the_stated_memory(decode: Callable[[bytes | None], Any], bomb: str) -> None:
    value = BOMBS[bomb]
    with memory_taken() as memory:
        decoded = tried(decode, value)

    extra = MAX_EXTRA_BYTES_OF_STATE if decode is decode_state else MAX_EXTRA_BYTES
    assert not decoded or decode is decode_state
    assert memory.peak <= MAX_BYTES_PER_BYTE * len(value) + extra


def test_a_contract_takes_no_more_memory_than_its_horizon_squared() -> None:
    horizon = 499
    fields = {"horizon": horizon, "sigmas": [5.0] * horizon}
    value = msgpack.packb(msgpack.unpackb(EXAMPLES["contract-cumulative-paper"].encoded) | fields)
    with memory_taken() as memory:
        assert tried(decode_synthetic, value)

    assert memory.peak <= MAX_BYTES_PER_BYTE * len(value) + MAX_EXTRA_BYTES + 64 * horizon**2


@pytest.mark.parametrize("numbers", [b"\0" * CHUNK_ROWS, b"\x80" * CHUNK_ROWS * 5, b"\xff\xff\xff\xff\x07" * CHUNK_ROWS])
def test_a_snapshot_is_read_within_the_stated_memory(numbers: bytes) -> None:
    shorts = b"\0" * 2 * CHUNK_ROWS
    fields = {"total": CHUNK_ROWS, "numbers": numbers, "states": shorts, "ages": shorts}
    value = msgpack.packb(msgpack.unpackb(EXAMPLES["snapshot"].encoded) | fields)
    with memory_taken() as memory:
        tried(decode_synthetic, value)

    assert memory.peak <= MAX_BYTES_PER_BYTE * len(value) + MAX_EXTRA_BYTES


def test_no_value_is_malformed() -> None:
    for decode in DECODERS:
        assert not tried(decode, None)


@pytest.mark.parametrize("decode", DECODERS)
def test_a_reason_never_repeats_what_came(decode: Callable[[bytes | None], Any]) -> None:
    marked = "RARE-SYMBOL"
    for seed in SEEDS:
        fields = msgpack.unpackb(seed)
        for key in fields:
            for odd in (marked, [marked], {marked: marked}, marked.encode()):
                try:
                    decode(msgpack.packb(fields | {key: odd}))
                except Malformed as malformed:
                    assert marked not in str(malformed)


def mutated(value: bytes, rng: random.Random) -> bytes:
    """One to four random edits: flips, cuts, doubled pieces, bytes that MessagePack finds interesting."""
    edited = bytearray(value)
    for _ in range(rng.randint(1, 4)):
        place = rng.randrange(len(edited) + 1)
        match rng.randrange(5):
            case 0 if place < len(edited):
                edited[place] ^= 1 << rng.randrange(8)
            case 1 if place < len(edited):
                edited[place] = rng.choice(
                    b"\x00\x7f\x80\x8f\x90\x9f\xa0\xbf\xc0\xc1\xc2\xc4\xc6\xc7\xca\xcb\xcf\xd3\xd9\xdd\xdf\xff"
                )
            case 2:
                del edited[place : place + rng.randint(1, 8)]
            case 3:
                edited[place:place] = edited[place : place + rng.randint(1, 16)]
            case _:
                edited[place:place] = rng.randbytes(rng.randint(1, 9))
    return bytes(edited)


def fuzz(inputs: int, seed: int) -> int:
    """Try so many mutated messages on the decoder they are meant for and on another; how many still decode."""
    rng = random.Random(seed)
    aimed = [(example.encoded, example.decode) for example in EXAMPLES.values()]
    aimed += [(SEED_STATE, decode_state), (seal(FINGERPRINT, SEED_STATE), decode_file)]
    decoded = 0
    for _ in range(inputs // 2):
        value, decode = rng.choice(aimed)
        value = mutated(value, rng)
        decoded += tried(decode, value) + tried(rng.choice(ALL), value)
    return decoded


def test_mutated_messages_never_break_a_decoder() -> None:
    assert fuzz(20_000, seed=1) > 100


@pytest.mark.slow
def test_a_million_mutated_messages_never_break_a_decoder() -> None:
    assert fuzz(1_000_000, seed=2) > 5_000
