"""Reports cut in two: what was joined is found again, and nothing that is no report passes for one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamproc.protocol.reports import ByteStrings, decode_any, encode_report, split_reports, tail_of

IDS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=70)
PERIODS = st.integers(0, 2**16)
SYMBOLS = st.text(st.characters(codec="utf-8"), max_size=40)


def strings_in(spans: ByteStrings) -> list[bytes]:
    return [spans.data[start:end] for start, end in zip(spans.starts.tolist(), spans.ends.tolist(), strict=True)]


def split(*values: bytes) -> list[tuple[bytes, bytes]]:
    ids, tails = split_reports(ByteStrings.of(values))
    return list(zip(strings_in(ids), strings_in(tails), strict=True))


@given(st.lists(st.tuples(IDS, PERIODS, SYMBOLS), max_size=8))
def test_reports_split_into_id_and_tail(reports: list[tuple[str, int, str]]) -> None:
    expected = [(individual.encode(), tail_of(period, symbol)) for individual, period, symbol in reports]

    assert split(*(encode_report(*report) for report in reports)) == expected


@pytest.mark.parametrize(("size", "easy"), [(1, True), (31, True), (32, True), (255, True), (256, False), (1024, False)])
def test_ids_of_up_to_255_bytes_are_found(size: int, easy: bool) -> None:
    expected = (b"a" * size, tail_of(1, "0")) if easy else (b"", b"")

    assert split(encode_report("a" * size, 1, "0")) == [expected]


@given(IDS, PERIODS, SYMBOLS, st.data())
def test_whatever_has_the_tail_of_a_report_is_one(individual: str, period: int, symbol: str, data: st.DataObject) -> None:
    """Bytes of a report are changed, removed and added at random."""
    value = bytearray(encode_report(individual, period, symbol))
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, min(len(value), 12)))
        value[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=2))

    [(found, tail)] = split(bytes(value))

    if found and tail == tail_of(period, symbol):
        try:
            text = found.decode()
        except UnicodeDecodeError:
            return
        assert decode_any(bytes(value)) == (text, period, symbol)


@given(st.lists(st.binary(max_size=40), max_size=5))
def test_other_bytes_are_no_reports(values: list[bytes]) -> None:
    assert split(*values) == [(b"", b"")] * len(values)


@pytest.mark.parametrize("size", range(len(encode_report("ada", 1, "0"))))
def test_a_report_that_is_cut_off_has_no_tail_of_a_report(size: int) -> None:
    """Although the next one lies right behind it in memory."""
    whole = encode_report("ada", 1, "0")

    [(_, tail), after] = split(whole[:size], whole)

    assert tail != tail_of(1, "0")
    assert after == (b"ada", tail_of(1, "0"))


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=20)))
def test_texts_are_laid_out_as_their_bytes_are(texts: list[str]) -> None:
    encoded = [text.encode() for text in texts]

    assert strings_in(ByteStrings.of_text(texts)) == strings_in(ByteStrings.of(encoded)) == encoded
