"""Explicit bombs: what a fuzzer of short inputs does not come upon. Each is refused, in the stated memory."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Literal

import msgpack
import numpy as np
import pytest

from streamproc.gatherer.logic import GathererLogic, PartitionContext
from streamproc.privacy.types import Period
from streamproc.protocol.codec import MAX_RECORD
from streamproc.protocol.control import Cut
from streamproc.protocol.reports import MAX_ID, decode_any, encode_batches, encode_report
from streamproc.protocol.state_file import seal
from streamproc.study import Population, WindowRelease
from tests.fuzz import seeds
from tests.fuzz.mutators import SEALED, framed
from tests.fuzz.targets import TARGETS
from tests.fuzz.trial import run_trial
from tests.memory import memory_taken
from tests.protocol.examples import EXAMPLES
from tests.stream_model.report_sequences import LogRecord
from tests.studies import build_study

GIB_HEADERS = {
    "list": b"\xdd\xff\xff\xff\xff",
    "map": b"\xdf\xff\xff\xff\xff",
    "bytes": b"\xc6\xff\xff\xff\xff",
    "text": b"\xdb\xff\xff\xff\xff",
    "extension": b"\xc9\xff\xff\xff\xff\x01",
}
DEEP = {"lists": b"\x91" * 100_000 + b"\xc0", "maps": b"\x81\xa1a" * 100_000 + b"\xc0"}
WRONG: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        -1,
        2**63,
        2**64 - 1,
        -(2**63),
        1.5,
        float("nan"),
        float("inf"),
        float("-inf"),
        "",
        "\0",
        b"",
        b"\xff",
    ),
    *([], {}, [[]], {"a": 1}, [None], "x" * 2_000),
)
RECORDS = ("report", "control", "tally", "reject", "synthetic", "ledger")
OF_MANY = {"report-parts": "report", "gathering": "report", "cuts": "cut", "tallies": "tally-1", "columns": "column-1-bit"}


def examples(target: str) -> Iterable[bytes]:
    """One of each kind of message."""
    kinds = {msgpack.unpackb(seed).get("type"): seed for seed in TARGETS[target].seeds() if seed != b"no report"}
    return kinds.values()


def with_raw(message: bytes, index: int, raw: bytes) -> bytes:
    """The message with the bytes of one value replaced."""
    fields = list(msgpack.unpackb(message).items())
    parts = [msgpack.packb(key) + (raw if at == index else msgpack.packb(value)) for at, (key, value) in enumerate(fields)]
    return bytes([0x80 + len(fields)]) + b"".join(parts)


@pytest.mark.parametrize("target", RECORDS)
@pytest.mark.parametrize("raw", [*GIB_HEADERS.values(), *DEEP.values(), b"\xc1", b"\xa2\xff\xfe", b"\xa3\xed\xa0\x80", b""])
def test_a_field_that_promises_4_gib_is_endless_or_is_no_text_is_refused(target: str, raw: bytes) -> None:
    for message in examples(target):
        for index in range(len(msgpack.unpackb(message))):
            assert not run_trial(TARGETS[target], with_raw(message, index, raw)).decoded


@pytest.mark.parametrize("target", RECORDS)
def test_a_field_of_a_wrong_kind_is_refused_or_means_what_it_says(target: str) -> None:
    """Both are fine for a report's symbol, which any text may be; nothing else may happen."""
    for message in examples(target):
        fields = msgpack.unpackb(message)
        for key in fields:
            for wrong in WRONG:
                run_trial(TARGETS[target], msgpack.packb(fields | {key: wrong}))
            assert not run_trial(TARGETS[target], msgpack.packb({**fields, 1: 2, key: None})).decoded or target == "ledger"


@pytest.mark.parametrize("target", OF_MANY)
@pytest.mark.parametrize("raw", [*GIB_HEADERS.values(), *DEEP.values(), b""])
def test_those_who_put_records_together_hold_out_too(target: str, raw: bytes) -> None:
    example = EXAMPLES[OF_MANY[target]].encoded
    for index in range(len(msgpack.unpackb(example))):
        run_trial(TARGETS[target], framed([example, with_raw(example, index, raw), example]))


@pytest.mark.parametrize("rule", ["first", "last"])
def test_reports_of_one_member_for_every_later_period_take_the_stated_memory(rule: Literal["first", "last"]) -> None:
    """The partition has 250,000 people, of whom the last reports for the periods 3 to 365."""
    names = [f"p{number}" for number in range(250_000)]
    population = Population(initial="a", duplicates=rule)
    study = build_study(WindowRelease("w", 1), horizon=365, partitions=1, population=population, alphabet="abc")
    gathering = GathererLogic(PartitionContext(study, 0, bytes(32), names))
    gathering.ingest([LogRecord(0, encode_report(names[-1], 1, "b")), LogRecord(1, encode_report(names[-1], 2, "b"))])
    gathering.add_cut(Cut(Period(1), (1,)))
    gathering.close_periods(2)

    bomb = [LogRecord(period, encode_report(names[-1], period, "b")) for period in range(3, 366)]
    size = sum(len(line.value or b"") for line in bomb)
    with memory_taken() as memory:
        gathering.ingest(bomb)
        gathering.add_cut(Cut(Period(2), (400,)))
    assert memory.peak <= TARGETS["gathering"].bound.of(size)


@pytest.mark.parametrize("rule", ["first", "last"])
def test_reports_of_the_first_and_last_id_without_a_roster_take_the_stated_memory(
    rule: Literal["first", "last"],
) -> None:
    """The first id claims the periods 1 to 365, 250,000 people join, and the last id claims the periods 1 to 365."""
    names = [f"p{number}" for number in range(250_000)]
    population = Population(initial="a", duplicates=rule)
    study = build_study(WindowRelease("w", 1), horizon=365, partitions=1, population=population, alphabet="abc")
    gathering = GathererLogic(PartitionContext(study, 0, bytes(32)))
    gathering.ingest([LogRecord(period, encode_report("a", period, "b")) for period in range(1, 366)])
    periods, symbols = np.ones(len(names), dtype=np.uint16), np.zeros(len(names), dtype=np.uint8)
    batches = [LogRecord(400 + index, value) for index, value in enumerate(encode_batches(names, periods, symbols))]
    gathering.ingest(batches)
    gathering.ingest([LogRecord(500, encode_report("z", 1, "b"))])

    bomb = [LogRecord(500 + period, encode_report("z", period, "b")) for period in range(2, 366)]
    size = sum(len(line.value or b"") for line in bomb)
    with memory_taken() as memory:
        gathering.ingest(bomb)
    assert memory.peak <= TARGETS["gathering"].bound.of(size)

    gathering.add_cut(Cut(Period(1), (900,)))
    assert [tally.people for tally in gathering.close_periods(900)] == [len(names) + 2]
    assert sum(array.nbytes for array in gathering.arrays().values()) <= 64 * len(names)


def padded(size: int) -> bytes:
    """A report of so many bytes: what it has too much is a key that nobody knows."""
    plain = len(msgpack.packb({"v": 1, "id": "p", "t": 1, "s": "a", "x": b"\0" * 70_000})) - 70_000
    return bytes(msgpack.packb({"v": 1, "id": "p", "t": 1, "s": "a", "x": b"\0" * (size - plain)}))


def test_a_record_of_the_largest_size_is_a_report_and_one_byte_more_is_none() -> None:
    assert len(padded(MAX_RECORD)) == MAX_RECORD
    assert run_trial(TARGETS["report"], padded(MAX_RECORD)).decoded
    assert not run_trial(TARGETS["report"], padded(MAX_RECORD + 1)).decoded


def test_an_id_of_the_greatest_length_is_one_and_a_longer_or_an_empty_one_is_none() -> None:
    assert decode_any(encode_report("ö" * MAX_ID, 1, "a")) == ("ö" * MAX_ID, 1, "a")
    for individual in ("", "ö" * (MAX_ID + 1)):
        assert not run_trial(TARGETS["report"], encode_report(individual, 1, "a")).decoded


@pytest.mark.parametrize("target", ["synthesizer-state", "gatherer-state"])
@pytest.mark.parametrize("raw", [*GIB_HEADERS.values(), *DEEP.values(), b""])
def test_a_sealed_bomb_is_no_state(target: str, raw: bytes) -> None:
    fingerprint = seeds.left().fingerprint
    assert not run_trial(TARGETS[target], seal(fingerprint, raw)).decoded
    body = TARGETS[target].seeds()[0][SEALED:]
    for index in range(len(msgpack.unpackb(body))):
        assert not run_trial(TARGETS[target], seal(fingerprint, with_raw(body, index, raw))).decoded


STUDIES = {
    "lists in lists": f"a = {'[' * 50_000}",
    "tables in tables": f"{'a.' * 50_000}a = 1",
    "inline tables in one another": f"a = {'{a=' * 50_000}",
    "an exponent without end": seeds.STUDY.replace("rho = 0.005", "rho = 1e400"),
    "an exponent that no number has": seeds.STUDY.replace("share = 0.5", "share = 1e-999999999"),
    "an integer of 4000 digits": seeds.STUDY.replace("size = 2", f"size = {'9' * 4_000}"),
    "an integer of 100,000 digits": seeds.STUDY.replace("size = 2", f"size = {'9' * 100_000}"),
    "a date for a number": seeds.STUDY.replace("horizon = 3", "horizon = 2026-01-01"),
    "a time without a date": seeds.STUDY.replace("2026-01-01T00:00:00Z", "07:32:00"),
    "before the first year": seeds.STUDY.replace("2026-01-01T00:00:00Z", "0001-01-01T00:00:00+23:59"),
    "after the last year": seeds.STUDY.replace("2026-01-01T00:00:00Z", "9999-12-31T23:59:59Z"),
    "not a number": seeds.STUDY.replace("rho = 0.005", "rho = nan"),
    "true for a number": seeds.STUDY.replace("horizon = 3", "horizon = true"),
    "a key twice": seeds.STUDY.replace("horizon = 3", "horizon = 3\nhorizon = 3"),
    "a thousand releases": seeds.STUDY + '[[release]]\nname = "quarterly"\nkind = "window"\nk = 1\n' * 1_000,
    "an alphabet without end": seeds.STUDY.replace('["0", "1"]', json.dumps([str(symbol) for symbol in range(5_000)])),
    "a name without end": seeds.STUDY.replace('"poverty"', f'"{"a" * 500_000}"'),
    "surrogates": seeds.STUDY.replace('"poverty"', r'"\ud800"'),
}


@pytest.mark.parametrize("study", STUDIES)
def test_a_study_of_unusual_size_or_kind_is_refused(study: str) -> None:
    assert not run_trial(TARGETS["study"], STUDIES[study].encode()).decoded


HUGE: tuple[Any, ...] = (10**9, 2**70, -1, True, None, [], [[]] * 100, "x" * 10_000, 1e308)

METADATA = {
    "lists in lists": "[" * 100_000,
    "maps in maps": '{"a":' * 100_000,
    "a huge integer": f'{{"v":{"9" * 4_000}}}',
    "an integer of 100,000 digits": f'{{"v":{"9" * 100_000}}}',
    "not a number": '{"v":NaN}',
    "a key twice": '{"v":1,"v":1}',
}


@pytest.mark.parametrize("text", METADATA)
def test_metadata_of_unusual_size_or_kind_is_refused(text: str) -> None:
    assert not run_trial(TARGETS["metadata"], METADATA[text].encode()).decoded


NUMBERS = ("horizon", "k", "n", "n_pad", "sigma", "sigmas", "weights", "most", "length", "rho")
NAMES = ("alphabet", "event", "kind", "measure", "matrices", "pattern")


@pytest.mark.parametrize("key", [*NUMBERS, *NAMES])
def test_a_contract_in_metadata_that_would_be_a_huge_matrix_is_refused(key: str) -> None:
    """Or means what it says, in the stated memory: any large sigma is one."""
    with_key = [values for values in map(json.loads, seeds.metadata()) if key in values["contract"]]
    assert with_key
    for values in with_key:
        for wrong in HUGE:
            contract = values["contract"] | {key: wrong}
            run_trial(TARGETS["metadata"], json.dumps(values | {"contract": contract}).encode())


LINES = {
    "NUL": b"individual,1,2,3\n\0,0,0,0\n\0\0",
    "a line without end": b"individual,1,2,3\n" + b"a" * 3_000_000,
    "columns without end": b"individual,1,2,3\n" + b"," * 3_000_000,
    "a header without end": b"individual" + b",1" * 1_500_000,
    "a quote never closed": b'individual,1,2,3\n"' + b"a\n" * 100_000,
    "nothing but quotes": b'"' * 300_000,
    "nothing but line ends": b"\r" * 20_000,
    "UTF-16": "individual,1,2,3\nada,0,0,0\n".encode("utf-16"),
    "no text": b"individual,1,2,3\n\xed\xa0\x80,0,0,0\n",
}


@pytest.mark.parametrize("lines", LINES)
@pytest.mark.parametrize("target", ["panel-csv", "release-csv"])
def test_lines_of_unusual_length_or_kind_are_refused(target: str, lines: str) -> None:
    assert not run_trial(TARGETS[target], LINES[lines]).decoded


@pytest.mark.parametrize("content", [b"a" * 2_000_000, b"\0" * 2_000_000, b"\n" * 20_000, b"\xff", b"a\na", b""])
def test_a_roster_of_unusual_kind_is_refused(content: bytes) -> None:
    assert not run_trial(TARGETS["roster"], content).decoded
