"""Questions: which bins answer yes, and which questions a release cannot answer."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamproc.errors import UnsupportedQuery
from streamproc.panel import AtLeast, LastSymbols, count_of, exactly, in_a_row
from streamproc.privacy.types import Period
from streamproc.releases.query import EventCount, InSpell, Matched, Query, ask, in_spell, matched
from streamproc.study import WindowRelease
from tests.releases.random_studies import MEASURES, window_contract
from tests.studies import build_study

ALPHABET = ("a", "b", "c")
CONTRACT = window_contract(build_study(WindowRelease("w", 3), alphabet=ALPHABET, horizon=6), 10)
PAPER = window_contract(build_study(WindowRelease("w", 3, measure="paper"), alphabet=ALPHABET, horizon=6), 10)


@given(st.integers(1, 6), st.data())
def test_a_bin_answers_yes_if_its_last_symbols_do(period: int, data: st.DataObject) -> None:
    """Before period `k` a window has as many symbols as there were periods."""
    width = data.draw(st.integers(1, min(3, period)))
    yes = data.draw(st.sets(st.sampled_from(list(product(ALPHABET, repeat=width)))))
    query = LastSymbols("any", width, lambda window: window in yes)
    weights = CONTRACT.query_weights(query, Period(period))
    assert weights.tolist() == [window[-width:] in yes for window in product(ALPHABET, repeat=min(period, 3))]


@given(st.integers(1, 6), st.data())
def test_a_bin_of_the_paper_answers_yes_if_its_symbols_up_to_the_period_do(period: int, data: st.DataObject) -> None:
    """Of a window that came out at `max(period, k)`, the symbols up to `period`, and of these the last `width`."""
    width = data.draw(st.integers(1, min(3, period)))
    yes = data.draw(st.sets(st.sampled_from(list(product(ALPHABET, repeat=width)))))
    query = LastSymbols("any", width, lambda window: window in yes)
    weights = PAPER.query_weights(query, Period(period))
    seen = min(period, 3)
    expected = [window[seen - width : seen] in yes for window in product(ALPHABET, repeat=3)]
    assert weights.tolist() == expected


@pytest.mark.parametrize(
    ("query", "yes"),
    [
        (count_of("1", at_least=1, of=3), {"001", "010", "011", "100", "101", "110", "111"}),
        (count_of("1", at_least=2, of=3), {"011", "101", "110", "111"}),
        (in_a_row("1", length=2, of=3), {"011", "110", "111"}),
        (count_of("1", at_least=3, of=3), {"111"}),
        (exactly("1", "0"), {"010", "110"}),
        (exactly("1"), {"001", "011", "101", "111"}),
        (exactly("0", "1", "0"), {"010"}),
        (in_a_row("0", length=3, of=3), {"000"}),
    ],
)
def test_the_questions_of_a_quarter(query: LastSymbols, yes: set[str]) -> None:
    """Among them the paper's four: poor in at least one month, in at least two, in two in a row, in all three."""
    windows = ["".join(window) for window in product("01", repeat=3)]
    for measure in MEASURES:
        contract = window_contract(build_study(WindowRelease("w", 3, measure=measure), horizon=6), 10)
        weights = contract.query_weights(query, Period(5))
        assert {window for window, weight in zip(windows, weights, strict=True) if weight} == yes


def test_names_say_what_is_asked() -> None:
    assert exactly("1", "0").name == "last:10"
    assert exactly("in", "out").name == "last:in|out"
    assert count_of({"c", "b"}, at_least=2, of=3).name == "b/c in at least 2 of the last 3"
    assert in_a_row(["b"], length=2, of=3).name == "b in 2 in a row of the last 3"
    assert AtLeast(4).name == "atleast:4"


@pytest.mark.parametrize(
    ("query", "period", "reason"),
    [
        (
            count_of("b", at_least=1, of=4),
            6,
            r"looks back over 4 periods, .* release w .* k = 3; .* mean nothing",
        ),
        (exactly("a", "a"), 1, "needs 2 periods, but period 1 comes before that"),
        (exactly("a", "d"), 3, "last:ad: 'd' is not a symbol of release w, whose symbols are a, b, c"),
        (count_of(["poor"], at_least=1, of=2), 3, "'poor' is not a symbol"),
        (in_a_row(["a", "x"], length=1, of=2), 3, "'x' is not a symbol"),
    ],
)
def test_what_no_bin_can_tell_is_refused_with_the_reason(query: LastSymbols, period: int, reason: str) -> None:
    with pytest.raises(UnsupportedQuery, match=reason) as caught:
        CONTRACT.query_weights(query, Period(period))
    assert "\n" not in str(caught.value)
    with pytest.raises(UnsupportedQuery, match=reason):
        PAPER.query_weights(query, Period(period))


def brute_force(text: str, holds: Callable[[str], bool], width: int) -> None:
    """Compare a question with its meaning on all windows of three symbols."""
    query = ask(text)
    assert isinstance(query, LastSymbols)
    assert (query.name, query.width) == (text, width)
    windows = list(product(ALPHABET, repeat=width))
    assert [query.holds(window) for window in windows] == [holds("".join(window)) for window in windows]


def listed(symbols: str) -> str:
    return ", ".join(f'"{symbol}"' for symbol in symbols)


@pytest.mark.parametrize("relation", [">=", "==", "<="])
@pytest.mark.parametrize("symbols", ["b", "ac", "abc"])
def test_a_count_as_text_counts_the_symbols_of_every_window(symbols: str, relation: str) -> None:
    for of in range(1, 5):
        for count in range(of + 1):
            allowed = {">=": range(count, of + 1), "==": range(count, count + 1), "<=": range(count + 1)}[relation]

            def holds(window: str, allowed: range = allowed) -> bool:
                return sum(window.count(symbol) for symbol in symbols) in allowed

            brute_force(f"count({listed(symbols)}) {relation} {count} of {of}", holds, of)


@pytest.mark.parametrize("symbols", ["b", "ac"])
def test_a_run_as_text_finds_it_anywhere_in_every_window(symbols: str) -> None:
    for of in range(1, 5):
        for length in range(1, of + 1):
            runs = {"".join(run) for run in product(symbols, repeat=length)}

            def holds(window: str, runs: set[str] = runs) -> bool:
                return any(run in window for run in runs)

            brute_force(f"run({listed(symbols)}) >= {length} of {of}", holds, of)


@pytest.mark.parametrize(
    ("text", "windows"),
    [
        ('now in ("a")', {"a"}),
        ('now in ("a", "c")', {"a", "c"}),
        ('lag1 in ("a")', {"aa", "ab", "ac"}),
        ('lag1 in ("a", "b") and now in ("c")', {"ac", "bc"}),
        ('lag2 in ("a") and now in ("b")', {"aab", "abb", "acb"}),
        ('lag2 in ("a") and lag1 in ("b", "c") and now in ("c")', {"abc", "acc"}),
    ],
)
def test_places_as_text_look_at_their_own_symbol_of_every_window(text: str, windows: set[str]) -> None:
    brute_force(text, windows.__contains__, len(min(windows)))


def test_a_question_as_text_weighs_bins_as_the_same_question_in_code() -> None:
    for text, query in [
        ('count("a","b") >= 2 of 3', count_of(["a", "b"], at_least=2, of=3)),
        ('run("b") >= 2 of 3', in_a_row("b", length=2, of=3)),
        ('now in ("b") and lag1 in ("a")', exactly("a", "b")),
    ]:
        for period in range(query.width, 7):
            weights = CONTRACT.query_weights(ask(text), Period(period))
            assert weights.tolist() == CONTRACT.query_weights(query, Period(period)).tolist()


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("events>=3", AtLeast(3)),
        ("events == 3", EventCount(3)),
        ("events == 0", EventCount(0)),
        ("spell  >= 6", InSpell(6)),
        ("matched", Matched()),
    ],
)
def test_a_question_about_histories_equals_the_query_in_code(text: str, query: Query) -> None:
    asked = ask(text)
    assert asked == query
    assert hash(asked) == hash(query)
    assert ask(asked.name) == asked


def test_a_query_made_from_text_is_named_by_its_canonical_text() -> None:
    texts = [
        'count("b","a")<=1 of 3',
        'run("b")>=2of 3',
        'now in("b")and lag1 in("a")',
        "events>=3",
        "events==3",
        "spell>=6",
    ]
    assert [ask(text).name for text in texts] == [
        'count("b", "a") <= 1 of 3',
        'run("b") >= 2 of 3',
        'lag1 in ("a") and now in ("b")',
        "events >= 3",
        "events == 3",
        "spell >= 6",
    ]
    assert AtLeast(3).name == "atleast:3"


def test_queries_about_histories_have_short_names() -> None:
    assert [EventCount(2).name, InSpell(3).name, Matched().name] == ["events==2", "spell:3", "matched"]
    assert in_spell(3) == InSpell(3) != InSpell(4)
    assert matched() == Matched()
    assert ask("events == 3") != ask("events >= 3")


@pytest.mark.parametrize(
    "make", [lambda: EventCount(-1), lambda: EventCount(10_001), lambda: InSpell(0), lambda: InSpell(True)]
)
def test_numbers_of_events_and_periods_out_of_range_are_refused(make: Callable[[], Query]) -> None:
    with pytest.raises(UnsupportedQuery, match=r"^(EventCount: b|InSpell: length) must be a whole number"):
        make()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("count(1) >= 2 of 3", "at character 7: got '1', expected a symbol in double quotes"),
        ('count("1") >= 4 of 3', "at character 15: got 4, expected a whole number from 0 to 3"),
        (7, "question: got 7, expected text"),
    ],
)
def test_a_text_that_asks_nothing_is_an_unsupported_query(text: Any, message: str) -> None:
    with pytest.raises(UnsupportedQuery) as refused:
        ask(text)
    assert str(refused.value) == message


def test_a_symbol_that_a_release_does_not_have_is_refused_in_text_too() -> None:
    with pytest.raises(UnsupportedQuery, match="'d' is not a symbol of release w"):
        CONTRACT.query_weights(ask('lag1 in ("a", "d")'), Period(3))
