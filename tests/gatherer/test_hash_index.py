"""Hashes and their numbers: what was added is found, in few bytes, however it was added."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamproc.gatherer.hash_index as hash_index
from streamproc.gatherer.hash_index import ABSENT, Hashes, HashIndex

FEW = st.integers(0, 3)
"""So few different words that many hashes have the same first word."""


def hashes_of(pairs: list[tuple[int, int]]) -> Hashes:
    return Hashes.of_bytes(b"".join(high.to_bytes(8) + low.to_bytes(8) for high, low in pairs))


def random_hashes(count: int, seed: int = 0) -> Hashes:
    return Hashes.of_bytes(np.random.default_rng(seed).bytes(16 * count))


@given(st.lists(st.lists(st.tuples(FEW, FEW), max_size=6), max_size=8), st.lists(st.tuples(FEW, FEW)))
def test_an_index_is_a_dictionary(parts: list[list[tuple[int, int]]], asked: list[tuple[int, int]]) -> None:
    index, known = HashIndex(np.int32), dict[tuple[int, int], int]()
    for part in parts:
        new = [pair for pair in dict.fromkeys(part) if pair not in known]
        numbers = np.arange(len(known), len(known) + len(new))
        known |= dict(zip(new, numbers.tolist(), strict=True))
        index.add(hashes_of(new), numbers)
    assert len(index) == len(known)
    assert index.find(hashes_of(asked)).tolist() == [known.get(pair, ABSENT) for pair in asked]


@given(st.lists(st.tuples(FEW, FEW), unique=True), st.data())
def test_numbers_are_replaced_and_hashes_with_a_negative_one_removed(
    pairs: list[tuple[int, int]], data: st.DataObject
) -> None:
    index = HashIndex(np.int32)
    for number, pair in enumerate(pairs):
        index.add(hashes_of([pair]), np.array([number]))
    replaced = data.draw(st.lists(st.integers(-2, 9), min_size=len(pairs), max_size=len(pairs)))
    index.renumber(np.array(replaced, dtype=np.int64))
    assert index.find(hashes_of(pairs)).tolist() == [max(number, ABSENT) for number in replaced]
    assert len(index) == sum(number >= 0 for number in replaced)


def test_a_run_does_not_grow_beyond_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hash_index, "MAX_RUN", 100)
    index, everybody = HashIndex(np.int32), random_hashes(1_000)
    for start in range(0, 1_000, 10):
        index.add(everybody.where(np.arange(start, start + 10)), np.arange(start, start + 10))
    assert [len(run) for run in index._runs[:5]] == [80] * 5
    assert index.find(everybody).tolist() == list(range(1_000))


@pytest.mark.parametrize("each", [1_000, 100_000])
def test_a_hash_takes_16_bytes_and_its_number(each: int) -> None:
    index = HashIndex(np.uint8)
    everybody = random_hashes(100_000)
    for start in range(0, 100_000, each):
        part = everybody.where(np.arange(start, start + each))
        index.add(part, np.ones(each, dtype=np.uint8))
    assert index.nbytes == 17 * 100_000
    assert (index.find(everybody) == 1).all()
    assert (index.find(random_hashes(1_000, seed=1)) == ABSENT).all()


def test_there_are_few_runs_however_hashes_are_added() -> None:
    index = HashIndex(np.uint8)
    for seed in range(2_000):
        index.add(random_hashes(1 + seed % 7, seed), np.zeros(1 + seed % 7, dtype=np.uint8))
    assert len(index) == sum(1 + seed % 7 for seed in range(2_000))
    assert len(index._runs) <= 14


def test_hashes_come_back_from_their_bytes() -> None:
    data = np.random.default_rng(0).bytes(160)
    hashes = Hashes.of_bytes(data)
    assert hashes.to_bytes() == data
    assert int(hashes.high[0]) == int.from_bytes(data[:8])
    ordered = hashes.where(hashes.order()).to_bytes()
    assert [ordered[at : at + 16] for at in range(0, 160, 16)] == sorted(data[at : at + 16] for at in range(0, 160, 16))
