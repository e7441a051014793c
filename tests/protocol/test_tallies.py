"""Tallies are split into chunks and assembled again, also from several senders and with repetitions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamproc.errors import Malformed
from streamproc.privacy.types import Period
from streamproc.protocol.tallies import CHUNK_COUNTS, Conflict, Tally, TallyAssembler, TallyChunk, decode_tally

LARGE = CHUNK_COUNTS + 5


def tally_of(
    *, partition: int = 0, period: int = 1, people: int = 9, seed: int = 0, size: int = LARGE, last: bool = False
) -> Tally:
    counts = np.random.default_rng(seed).integers(0, people + 1, size=size)
    return Tally(partition, Period(period), people, {"small": np.array([people, 0]), "large": counts}, last)


def chunks_of(tally: Tally) -> list[TallyChunk]:
    return [decode_tally(value) for value in tally.encode()]


def assembled(chunks: list[TallyChunk]) -> list[Tally | Conflict]:
    assembler = TallyAssembler()
    return [outcome for outcome in map(assembler.add, chunks) if outcome is not None]


def test_a_tally_takes_a_record_for_every_32768_counts_of_a_release() -> None:
    tally = tally_of()

    assert [(chunk.release, chunk.first, len(chunk.counts)) for chunk in chunks_of(tally)] == [
        ("large", 0, CHUNK_COUNTS),
        ("large", CHUNK_COUNTS, 5),
        ("small", 0, 2),
    ]
    assert tally.key == b"0/1"


@given(
    st.dictionaries(st.sampled_from(["a", "b", "c"]), st.lists(st.integers(0, 40), max_size=5), min_size=1),
    st.randoms(use_true_random=False),
)
def test_a_tally_comes_back_whatever_the_order_of_its_chunks(counts: dict[str, list[int]], random: object) -> None:
    tally = Tally(7, Period(3), 40, {name: np.array(numbers, dtype=np.int64) for name, numbers in counts.items()})
    chunks = chunks_of(tally)
    random.shuffle(chunks)  # type: ignore[attr-defined]

    (whole,) = assembled(chunks)

    assert isinstance(whole, Tally)
    assert whole == tally
    assert {name: numbers.tolist() for name, numbers in whole.counts.items()} == counts


def test_only_the_tally_of_a_last_period_says_so() -> None:
    assert [chunk.last for chunk in chunks_of(tally_of(last=True))] == [True] * 3
    assert assembled(chunks_of(tally_of(last=True))) == [tally_of(last=True)]
    assert all(b"last" not in value for value in tally_of().encode())
    assert tally_of() != tally_of(last=True)


def test_people_who_leave_are_counted_beside_those_who_are_present() -> None:
    leaving = Tally(0, Period(5), 0, {"w": np.array([0, 0, 7])})
    assert assembled(chunks_of(leaving)) == [leaving]


def test_tallies_are_equal_if_their_counts_are() -> None:
    assert len({tally_of(), tally_of(), tally_of(seed=1)}) == 2
    assert tally_of() != "a tally"


def test_the_order_of_releases_does_not_change_a_byte() -> None:
    one, two = np.array([1]), np.array([2])

    assert Tally(0, Period(1), 2, {"a": one, "b": two}).encode() == Tally(0, Period(1), 2, {"b": two, "a": one}).encode()


@given(st.lists(st.booleans(), min_size=6, max_size=6))
def test_chunks_of_two_gatherers_that_send_the_same_tally_may_interleave(turns: list[bool]) -> None:
    mine, yours = chunks_of(tally_of()), chunks_of(tally_of())
    sent = [(mine if turn else yours).pop(0) for turn in turns if (mine if turn else yours)] + mine + yours

    assert assembled(sent) == [tally_of()]


def test_a_repeat_of_a_whole_tally_is_ignored() -> None:
    assert assembled(chunks_of(tally_of()) * 3) == [tally_of()]


def test_tallies_of_several_partitions_and_periods_may_interleave() -> None:
    tallies = [tally_of(partition=partition, period=period) for partition in (0, 1) for period in (1, 2)]
    rows = zip(*map(chunks_of, tallies), strict=True)

    assert assembled([chunk for row in rows for chunk in row]) == tallies


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(tally_of(seed=1), id="other counts"),
        pytest.param(tally_of(people=10), id="other people"),
        pytest.param(tally_of(last=True), id="a last period"),
        pytest.param(tally_of(size=LARGE + 1), id="another size"),
        pytest.param(Tally(0, Period(1), 9, {"small": np.array([9, 0])}), id="fewer releases"),
        pytest.param(Tally(0, Period(1), 9, {"small": np.array([9, 0]), "else": np.array([9])}), id="another release"),
    ],
)
@pytest.mark.parametrize("at_once", [False, True])
def test_two_different_tallies_of_one_place_are_a_conflict(other: Tally, at_once: bool) -> None:
    first, second = chunks_of(tally_of()), chunks_of(other)
    sent = [first[0], *second, *first[1:]] if at_once else first + second

    assert Conflict(0, Period(1)) in assembled(sent)


def test_a_contradiction_never_completes_a_tally() -> None:
    chunks = chunks_of(tally_of())
    wrong = replace(chunks[0], counts=chunks[0].counts // 2)

    assert assembled([chunks[0], wrong, *chunks[1:]]) == [Conflict(0, Period(1)), tally_of()]


@pytest.mark.parametrize(
    "wrong",
    [
        {"partition": -1},
        {"partition": 1024},
        {"period": 0},
        {"people": -1},
        {"of": 0},
        {"release": "a.b"},
        {"first": 1},
        {"first": CHUNK_COUNTS},
        {"total": CHUNK_COUNTS - 1},
        {"total": 2**17},
        {"counts": np.zeros(CHUNK_COUNTS - 1, dtype=np.int64)},
        {"counts": np.full(CHUNK_COUNTS, -1)},
        {"counts": np.full(CHUNK_COUNTS, 2**31)},
        {"last": 1},
    ],
)
def test_a_chunk_that_cannot_be_is_malformed(wrong: dict[str, object]) -> None:
    good = chunks_of(tally_of())[0]
    with pytest.raises(Malformed):
        replace(good, **wrong)  # type: ignore[arg-type]


def test_a_tally_refuses_counts_that_are_no_64_bit_integers() -> None:
    with pytest.raises(Malformed):
        Tally(0, Period(1), 3, {"a": np.array([1.0])})
    with pytest.raises(Malformed):
        Tally(0, Period(1), 3, {})


def test_printing_a_tally_shows_no_count() -> None:
    tally = Tally(0, Period(1), 777, {"a": np.array([555])})

    assert not {"777", "555"} & set(repr(tally).replace("=", " ").split())
    assert "555" not in repr(tally) + repr(tally.chunks[0])
    assert "777" not in repr(tally) + repr(tally.chunks[0])
