"""A table that finds the numbers of many strings at once: nothing wrong, and everything that is not long."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamproc.gatherer.byte_hash_table import MAX_WORDS, ByteHashTable
from streamproc.protocol.reports import ByteStrings

LONGEST = 8 * MAX_WORDS - 1
STRINGS = st.binary(min_size=1, max_size=LONGEST + 9) | st.text("a\0", min_size=1, max_size=12).map(str.encode)


def put(lookup: ByteHashTable, numbers: dict[bytes, int]) -> None:
    lookup.put(ByteStrings.of(list(numbers)), np.array(list(numbers.values()), dtype=np.int64))


def found(lookup: ByteHashTable, *strings: bytes) -> list[int]:
    return list(map(int, lookup.find(ByteStrings.of(strings))))


@given(st.lists(st.sets(STRINGS, max_size=40), max_size=5), st.sets(STRINGS, max_size=40))
def test_what_was_put_is_found_and_nothing_else(parts: list[set[bytes]], strangers: set[bytes]) -> None:
    lookup = ByteHashTable(bytes(32))
    numbers: dict[bytes, int] = {}
    for part in parts:
        fresh = {string: 1000 + len(numbers) + place for place, string in enumerate(part - numbers.keys())}
        put(lookup, fresh)
        numbers |= fresh

    asked = [*numbers, *strangers, *numbers]

    assert found(lookup, *asked) == [numbers.get(string, -1) if len(string) <= LONGEST else -1 for string in asked]


def test_many_strings_find_a_place() -> None:
    lookup = ByteHashTable(bytes(32))
    strings = [f"person-{number}".encode() for number in range(20_000)]
    for start in range(0, 20_000, 5000):
        put(lookup, dict(zip(strings[start : start + 5000], range(start, start + 5000), strict=True)))

    assert found(lookup, *reversed(strings)) == list(reversed(range(20_000)))
    assert found(lookup, *(b"stranger-%d" % number for number in range(20_000))) == [-1] * 20_000


@pytest.mark.parametrize("same_place", [0, 63])
def test_strings_that_all_want_one_place_find_others(monkeypatch: pytest.MonkeyPatch, same_place: int) -> None:
    monkeypatch.setattr(ByteHashTable, "_home_slots", lambda self, keys: np.full(len(keys), same_place))
    lookup = ByteHashTable(bytes(32))
    numbers = {b"%d" % number: number for number in range(30)}
    put(lookup, numbers)

    assert found(lookup, *numbers, b"30") == [*numbers.values(), -1]


def test_nothing_is_found_in_an_empty_table_or_of_no_strings() -> None:
    assert found(ByteHashTable(bytes(32)), b"a", b"") == [-1, -1]
    assert found(ByteHashTable(bytes(32))) == []
