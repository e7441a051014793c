"""The site registry recognises people without their ids, adds up what they cost, and reads back what it wrote."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from streamproc.privacy.adjacency import Adjacency
from streamproc.privacy.types import Rho
from streamproc.protocol.registry_format import (
    SKETCH,
    DamagedRegistry,
    Entry,
    People,
    Registry,
    compose,
    digest_people,
    encode_entry,
    encode_header,
    parse_registry,
    stream_hash,
)

KEY = bytes(range(32))


def ids(first: int, last: int) -> list[str]:
    return [f"person-{number}" for number in range(first, last)]


def entry(study: str = "work", first: int = 0, last: int = 50, rho: float = 0.1, **changes: object) -> Entry:
    made = Entry(
        time="2026-01-01T00:00:00Z",
        what="replay",
        study=study,
        fingerprint=study.encode().hex().ljust(64, "0"),
        adjacency=Adjacency.REPLACE_ONE,
        rho=Rho(rho),
        rho_replace_one=Rho(rho),
        insecure=False,
        people=digest_people(ids(first, last), KEY),
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def file_of(*entries: Entry) -> bytes:
    lines, known = [encode_header(KEY)], set[bytes]()
    for each in entries:
        lines.append(encode_entry(each, known))
        known |= {each.people.digest} if each.people else set()
    return b"".join(lines)


def parsed(content: bytes) -> Registry:
    found = parse_registry(content)
    assert found is not None
    return found


def plain(found: Entry) -> Entry:
    return replace(found, people=None)


def test_people_are_the_same_in_any_order_and_under_one_key_only() -> None:
    forwards, backwards = digest_people(ids(0, 100), KEY), digest_people(ids(0, 100)[::-1], KEY)
    assert forwards.digest == backwards.digest
    assert forwards.n == len(forwards.sketch) == 100
    other_key = digest_people(ids(0, 100), bytes(32))
    assert forwards.digest != other_key.digest
    assert not forwards.shares_anybody(other_key)


def test_up_to_the_size_of_a_sketch_one_common_person_is_found() -> None:
    half = SKETCH // 2
    assert digest_people(ids(0, half), KEY).shares_anybody(digest_people(ids(half - 1, SKETCH), KEY))
    assert not digest_people(ids(0, half), KEY).shares_anybody(digest_people(ids(half, SKETCH), KEY))


def test_a_population_that_differs_by_one_person_is_recognised() -> None:
    one, other = digest_people(ids(0, 20_000), KEY), digest_people(ids(1, 20_001), KEY)
    assert one.digest != other.digest
    assert len(one.sketch) == SKETCH
    assert one.shares_anybody(other)


def test_an_overlap_is_missed_no_more_often_than_stated() -> None:
    """With sketches of 32: `J = 1/20`, so at most `(19/20)^32 = 0.194` are missed.

    The true chance is below the bound, so a count above 2,000 * 0.194 + 5 standard deviations (476) has a chance below 3e-7.
    """
    rng = np.random.default_rng(4)
    missed = 0
    for _ in range(2000):
        hashes = rng.integers(0, 2**63, size=2000, dtype=np.uint64)
        one, other = (People(1050, name, np.sort(part)[:32]) for name, part in ((b"1", hashes[:1050]), (b"2", hashes[950:])))
        missed += not one.shares_anybody(other)
    assert 0 < missed <= 476


def test_what_is_written_is_read_back() -> None:
    stream = entry("home", 100, 200, what="stream", broker="kafka://b:9092", stream=stream_hash(b"k", KEY), again=True)
    unknown = entry("town", people=None, insecure=True, adjacency=Adjacency.ZERO_OUT, rho_replace_one=Rho(0.2))
    registry = parsed(file_of(entry(), stream, unknown))
    assert registry.key == KEY
    assert [plain(found) for found in registry.entries] == [plain(entry()), plain(stream), unknown]
    for found, made in zip(registry.entries[:2], (entry(), stream), strict=True):
        assert found.people is not None and made.people is not None
        assert (found.people.n, found.people.digest) == (made.people.n, made.people.digest)
        assert np.array_equal(found.people.sketch, made.people.sketch)


def test_the_sketch_of_the_same_people_is_written_once() -> None:
    once, twice = file_of(entry()), file_of(entry(), entry("home"))
    assert b"sketch" not in twice[len(once) :]
    people = [found.people for found in parsed(twice).entries]
    assert people[0] is people[1] is not None


def test_no_id_is_in_it() -> None:
    assert b"person-" not in file_of(entry())


def test_an_append_that_did_not_finish_is_left_out() -> None:
    whole, torn = file_of(entry()), file_of(entry(), entry("home", 60, 70))
    for length in range(len(whole), len(torn) - 1):
        registry = parsed(torn[:length])
        assert (len(registry.entries), registry.length, registry.ends_open) == (1, len(whole), False)


def test_only_the_beginning_of_a_first_line_counts_as_an_empty_registry() -> None:
    header = encode_header(KEY)
    for length in range(len(header)):
        assert parse_registry(header[:length]) is None


@pytest.mark.parametrize(
    "content",
    [
        b"the-operator-token-without-a-line-end",
        b"{ ",
        b'{"registry":2',
        b'{"registry":1,"key":"0g',
        encode_header(KEY)[:-1] + b"x",
        encode_header(KEY).upper()[:30],
        bytes(16),
    ],
)
def test_a_file_that_is_no_registry_and_has_no_line_end_is_damaged(content: bytes) -> None:
    with pytest.raises(DamagedRegistry) as damaged:
        parse_registry(content)
    assert (damaged.value.line, damaged.value.reason) == (1, "is not the first line of a site registry")


def test_a_whole_last_line_without_its_line_end_counts() -> None:
    content = file_of(entry(), entry("home", 60, 70))[:-1]
    registry = parsed(content)
    assert (len(registry.entries), registry.length, registry.ends_open) == (2, len(content), True)


FIELDS = json.loads(file_of(entry()).splitlines()[1])


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"", "is not a JSON object"),
        (b"[" * 100_000, "is not a JSON object"),
        (b"\xff", "is not a JSON object"),
        ({"what": "demo"}, "what: expected one of replay, stream"),
        ({"rho": 0}, "rho: expected a positive number"),
        ({"rho": float("inf")}, "rho: expected a positive number"),
        ({"rho_replace_one": True}, "rho_replace_one: expected a positive number"),
        ({"adjacency": "both"}, "adjacency: expected replace-one or zero-out"),
        ({"insecure": None}, "insecure: expected true or false"),
        ({"study": 3}, "study: expected a text"),
        ({"fingerprint": "ab"}, "fingerprint: expected 32 bytes in hexadecimal"),
        ({"people": "ab"}, "people: expected 32 bytes in hexadecimal"),
        ({"people": "ab" * 32, "sketch": "!"}, "sketch: expected hashes of 8 bytes in base 64"),
        (
            {"people": "ab" * 32, "sketch": "A" * 22 + "=="},
            "sketch: expected ascending hashes, no more than people",
        ),
        ({"n": 0}, "n: expected a whole number from 1"),
        ({"n": 3}, "sketch: expected ascending hashes, no more than people"),
    ],
)
def test_a_damaged_line_is_named(line: bytes | dict[str, object], reason: str) -> None:
    bad = line if isinstance(line, bytes) else json.dumps(FIELDS | line).encode()
    with pytest.raises(DamagedRegistry) as damaged:
        parse_registry(file_of(entry()) + bad + b"\n" + encode_entry(entry("home"), ()))
    assert (damaged.value.line, damaged.value.reason) == (3, reason)


def test_a_sketch_that_no_line_has_is_missed() -> None:
    with pytest.raises(DamagedRegistry, match="line 2: sketch: expected one"):
        parse_registry(encode_header(KEY) + encode_entry(entry(), {bytes.fromhex(FIELDS["people"])}))


@pytest.mark.parametrize("header", [b"{}\n", b'{"registry":2,"key":""}\n', b'{"registry":1,"key":"00"}\n', b"\n"])
def test_another_files_first_line_is_refused(header: bytes) -> None:
    with pytest.raises(DamagedRegistry, match="line 1"):
        parse_registry(header + encode_entry(entry(), ()))


def test_costs_add_up_exactly_and_are_rounded_up() -> None:
    total = compose([entry(rho=0.1)] * 3)
    assert (total.releases, total.adjacency, total.seeded) == (3, Adjacency.REPLACE_ONE, 0)
    assert total.rho is not None
    assert Fraction(total.rho) >= 3 * Fraction(0.1)
    assert total.rho == total.rho_replace_one == pytest.approx(0.3)


def test_under_different_adjacencies_the_replace_one_costs_add_up() -> None:
    zero_out = entry(rho=0.1, adjacency=Adjacency.ZERO_OUT, rho_replace_one=Rho(0.25))
    alone = compose([zero_out, zero_out])
    assert (alone.adjacency, alone.rho, alone.rho_replace_one) == (Adjacency.ZERO_OUT, 0.2, 0.5)
    mixed = compose([zero_out, entry(rho=0.5)])
    assert (mixed.adjacency, mixed.rho, mixed.rho_replace_one) == (Adjacency.REPLACE_ONE, 0.75, 0.75)


def test_a_seed_leaves_no_bound() -> None:
    total = compose([entry(), entry(insecure=True)])
    assert (total.rho, total.rho_replace_one, total.seeded) == (None, None, 1)


def test_unknown_people_are_those_of_the_same_study_and_of_no_other() -> None:
    unknown = entry(people=None, what="stream")
    assert unknown.shares_people(entry())
    assert entry().shares_people(unknown)
    assert not unknown.shares_people(entry("home"))


def test_a_restart_has_the_same_key_values_people_and_kind_of_noise() -> None:
    stream = entry(what="stream", stream=stream_hash(b"one", KEY))
    assert stream.continues(replace(stream, broker="kafka://moved:9092", people=digest_people(ids(0, 50)[::-1], KEY)))
    assert not stream.continues(replace(stream, stream=stream_hash(b"two", KEY)))
    assert not stream.continues(replace(stream, fingerprint="11" * 32))
    assert not stream.continues(replace(stream, people=digest_people(ids(0, 51), KEY)))
    assert not stream.continues(replace(stream, insecure=True))
    assert not entry().continues(entry())


def test_unknown_people_continue_unknown_people_only() -> None:
    stream = entry(what="stream", stream=stream_hash(b"one", KEY), people=None)
    assert stream.continues(replace(stream, broker="kafka://moved:9092"))
    known = replace(stream, people=digest_people(ids(0, 50), KEY))
    assert not stream.continues(known)
    assert not known.continues(stream)
