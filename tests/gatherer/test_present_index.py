"""Ids of present people have rows; those of people who have left are recognised without a row."""

from __future__ import annotations

import numpy as np

import streamproc.gatherer.present_index as present_index
from streamproc.gatherer.hash_index import Hashes
from streamproc.gatherer.present_index import PresentIndex
from streamproc.protocol.reports import ByteStrings

KEY = b"k" * 32
LONG = "l" * 300


def admitted(*ids: str) -> PresentIndex:
    index = PresentIndex(KEY)
    index.admit(list(ids), Hashes.of_ids(ids, KEY))
    return index


def by_id(index: PresentIndex, *ids: str) -> list[int]:
    numbers: list[int] = index.rows(ByteStrings.of_text(list(ids))).tolist()
    return numbers


def by_hash(index: PresentIndex, *ids: str) -> list[int]:
    numbers: list[int] = index.find(Hashes.of_ids(ids, KEY)).tolist()
    return numbers


def test_rows_are_found_by_id_and_by_hash() -> None:
    index = admitted("a", "b", LONG)
    assert by_id(index, "b", "a", "c", LONG) == [1, 0, -1, -1]
    assert by_hash(index, "b", "a", "c", LONG) == [1, 0, -1, 2]


def test_removed_rows_have_the_given_number_and_the_others_move_up() -> None:
    index = admitted("a", "b", "c", "d")
    index.remove(np.array([True, False, True, False]), -2)
    assert by_id(index, "a", "b", "c", "d") == [-2, 0, -2, 1]
    assert by_hash(index, "a", "b", "c", "d") == [-1, 0, -1, 1]
    assert index.hashes.to_bytes() == Hashes.of_ids(["b", "d"], KEY).to_bytes()


def test_a_row_may_be_given_again_after_it_was_removed() -> None:
    index = admitted("a", "b")
    index.remove(np.array([True, False]), -1)
    index.admit(["a"], Hashes.of_ids(["a"], KEY))
    assert by_id(index, "a", "b") == by_hash(index, "a", "b") == [1, 0]


def test_after_a_restart_ids_are_recognised_by_hash_and_then_remembered() -> None:
    index = PresentIndex(KEY)
    index.restore(admitted("a", "b").hashes)
    assert by_id(index, "a") == [-1]
    index.remember(["b", "gone"], np.array([1, -3]))
    assert by_id(index, "a", "b", "gone") == [-1, 1, -3]


def test_ids_of_people_without_a_row_do_not_fill_the_table() -> None:
    index = PresentIndex(KEY)
    for part in range(40):
        ids = [f"person-{part}-{number}" for number in range(10_000)]
        index.admit(ids, Hashes.of_ids(ids, KEY))
        index.remove(np.ones(10_000, dtype=np.bool_), -2)
        index.remember([f"gone-{part}-{number}" for number in range(10_000)], np.full(10_000, -3))
    slots = len(index._by_id._numbers)
    assert slots <= 4 * (present_index.SPARE_IDS + 20_000)
