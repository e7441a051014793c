from __future__ import annotations

import numpy as np

from streamproc.gatherer.member_index import MemberIndex
from streamproc.protocol.reports import ByteStrings

KEY = b"k" * 32


def admitted(*names: str, capacity: int = 10) -> MemberIndex:
    people = MemberIndex(KEY, capacity)
    for name in names:
        people.admit(name)
    return people


def test_rows_are_given_in_the_order_of_admission_until_the_capacity() -> None:
    people = MemberIndex(KEY, 2)

    assert [people.admit("a"), people.admit("b"), people.admit("c")] == [0, 1, None]
    assert len(people) == 2
    assert people.known == {"a": 0, "b": 1}


def test_a_roster_is_admitted_whatever_the_capacity() -> None:
    people = MemberIndex(KEY, 1)
    people.admit_all(["a", "b", "c"])

    assert people.known == {"a": 0, "b": 1, "c": 2}


def test_who_stands_on_a_roster_twice_is_one_person() -> None:
    people = MemberIndex(KEY, 1)
    people.admit_all(["a", "b", "a"])

    assert len(people) == 2
    assert people.known == {"a": 0, "b": 1}


def test_nobody_is_found_among_people_who_never_left() -> None:
    assert admitted("a").find("b") is None


def test_after_a_restart_people_are_found_by_their_hash_and_then_known_by_their_id() -> None:
    before = admitted("a", "b")
    after = MemberIndex(KEY, 10)
    after.restore(before.hashes)

    assert after.known == {}
    assert [after.find("b"), after.find("stranger")] == [1, None]
    assert after.known == {"b": 1}
    assert after.hashes.tobytes() == before.hashes.tobytes()


def test_another_key_gives_other_hashes() -> None:
    stranger = MemberIndex(b"x" * 32, 10)
    stranger.restore(admitted("a").hashes)

    assert stranger.find("a") is None


def test_those_who_stay_close_ranks_whether_they_were_seen_since_the_restart_or_not() -> None:
    people = MemberIndex(KEY, 10)
    people.restore(admitted("a", "b", "c", "d").hashes)
    people.find("a")
    people.find("d")

    people.retain(np.array([False, True, False, True]))

    assert people.known == {"d": 1}
    assert [people.find("b"), people.find("a"), people.find("c")] == [0, None, None]
    assert people.hashes.tobytes() == admitted("b", "d").hashes.tobytes()


def test_rows_of_many_are_those_of_each_after_any_arrivals_and_removals() -> None:
    people = admitted("a", "b")
    ids = ByteStrings.of([b"b", b"c", b"a"])
    assert people.rows(ids).tolist() == [1, -1, 0]

    people.admit("c")
    assert people.rows(ids).tolist() == [1, 2, 0]

    people.retain(np.array([True, False, True]))
    assert people.rows(ids).tolist() == [-1, 1, 0]

    after = MemberIndex(KEY, 10)
    after.restore(people.hashes)
    assert after.rows(ids).tolist() == [-1, -1, -1]
    after.find("c")
    assert after.rows(ids).tolist() == [-1, 1, -1]
