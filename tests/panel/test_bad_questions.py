"""Whatever an analyst puts into a question, there is an answer or one line that says what is wrong with it."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streamproc.errors import InvalidInput, UnsupportedQuery
from streamproc.panel import Answer, AtLeast, LastSymbols, Panel, count_of, exactly, in_a_row
from streamproc.releases.query import EventCount, InSpell
from streamproc.releases.query import ask as ask_in_words
from streamproc.study import CumulativeRelease, WindowRelease
from tests.panel.released import released
from tests.releases.random_studies import KINDS, release_of

WINDOW = released(WindowRelease("w", 3), ("0", "1"), 5, 4, 20, seed=1)
CUMULATIVE = released(CumulativeRelease("c", event=("1",), weights="rule"), ("0", "1"), 5, 4, 20, seed=1)
OTHERS = [released(release_of(kind), ("0", "1"), 5, 4, 20, seed=1) for kind in KINDS if not kind.endswith("-flow")]
"""Panels of the other kinds and measures, to which every question is put too."""
COLUMNS_ONLY = Panel(CUMULATIVE.contract, CUMULATIVE.columns, None)
HUGE = 10**5000
"""Python refuses to print it."""

LAST_ONE, TWICE = exactly("1"), AtLeast(2)

Ask = Callable[..., Any]


def last(predicate: Any = bool, *, name: Any = "any", width: Any = 1, symbols: Any = frozenset()) -> LastSymbols:
    return LastSymbols(name, width, predicate, symbols)


def poor(symbols: Any = ("1",), at_least: Any = 2, of: Any = 3) -> LastSymbols:
    return count_of(symbols, at_least=at_least, of=of)


def poor_in_a_row(symbols: Any = ("1",), length: Any = 2, of: Any = 3) -> LastSymbols:
    return in_a_row(symbols, length=length, of=of)


def ask_of_window(query: Any = LAST_ONE, period: Any = None, level: Any = 0.95) -> Answer:
    return WINDOW.fraction(query, period, level=level)


def ask_of_cumulative(query: Any = TWICE, period: Any = None, level: Any = 0.95) -> Answer:
    return CUMULATIVE.fraction(query, period, level=level)


def broken(window: object) -> bool:
    raise KeyError(window)


BAD: list[tuple[Ask, dict[str, Any] | tuple[Any, ...], str]] = [
    (exactly, (0, 1), "exactly: symbols are text, as in the study's alphabet, got 0"),
    (exactly, (), "exactly: expected at least one symbol, got none"),
    (exactly, (None,), "symbols are text, .* got nothing"),
    (exactly, (["0", "1"],), "symbols are text, .* got a value of type list"),
    (exactly, ("0\n1",), r"symbols are text, .* got '0\\n1'"),
    (poor, {"symbols": [1]}, "count_of: symbols are text, as in the study's alphabet, got 1"),
    (poor, {"symbols": [["1"]]}, "symbols are text, .* got a value of type list"),
    (poor, {"symbols": range(3)}, "symbols are text, .* got 0"),
    (poor, {"symbols": b"1"}, "symbols are text, .* got 49"),
    (poor, {"symbols": None}, "count_of: expected a list of symbols, got nothing"),
    (poor, {"symbols": 1}, "count_of: expected a list of symbols, got 1"),
    (poor, {"symbols": np.array("1")}, "count_of: expected a list of symbols, got a value of type ndarray"),
    (poor, {"symbols": []}, "count_of: expected at least one symbol, got none"),
    (poor, {"at_least": 2.5}, "count_of: at_least must be a whole number, got 2.5"),
    (poor, {"at_least": "2"}, "at_least must be a whole number, got '2'"),
    (poor, {"at_least": True}, "at_least must be a whole number, got true"),
    (poor, {"at_least": None}, "at_least must be a whole number, got nothing"),
    (poor, {"at_least": math.nan}, "at_least must be a whole number, got nan"),
    (poor, {"at_least": 5}, "count_of: at_least must be a whole number from 0 to 3, got 5"),
    (poor, {"at_least": np.int8(5)}, "at_least must be a whole number from 0 to 3, got 5"),
    (poor, {"at_least": -1}, "at_least must be a whole number from 0 to 3, got -1"),
    (poor, {"at_least": HUGE}, "from 0 to 3, got an integer of 16610 bits"),
    (poor, {"of": 3.0}, "count_of: of must be a whole number, got 3.0"),
    (poor, {"of": np.bool_(True)}, "count_of: of must be a whole number, got np.True_"),
    (poor, {"of": 0}, "count_of: of must be a whole number from 1 to 10000, got 0"),
    (poor, {"of": HUGE}, "of must be a whole number from 1 to 10000, got an integer"),
    (poor_in_a_row, {"symbols": []}, "in_a_row: expected at least one symbol, got none"),
    (poor_in_a_row, {"symbols": [1]}, "in_a_row: symbols are text"),
    (poor_in_a_row, {"length": 4}, "in_a_row: length must be a whole number from 1 to 3, got 4"),
    (poor_in_a_row, {"length": 0}, "in_a_row: length must be a whole number from 1 to 3, got 0"),
    (poor_in_a_row, {"length": "2"}, "in_a_row: length must be a whole number, got '2'"),
    (poor_in_a_row, {"of": -1}, "in_a_row: of must be a whole number from 1 to 10000, got -1"),
    (poor_in_a_row, {"of": None}, "in_a_row: of must be a whole number, got nothing"),
    (AtLeast, ("3",), "AtLeast: b must be a whole number, got '3'"),
    (AtLeast, (2.5,), "AtLeast: b must be a whole number, got 2.5"),
    (AtLeast, (True,), "AtLeast: b must be a whole number, got true"),
    (AtLeast, (None,), "AtLeast: b must be a whole number, got nothing"),
    (AtLeast, (0,), "AtLeast: b must be a whole number from 1 to 10000, got 0"),
    (AtLeast, (HUGE,), "AtLeast: b must be a whole number from 1 to 10000, got an integer"),
    (EventCount, (-1,), "EventCount: b must be a whole number from 0 to 10000, got -1"),
    (EventCount, ("3",), "EventCount: b must be a whole number, got '3'"),
    (InSpell, (0,), "InSpell: length must be a whole number from 1 to 10000, got 0"),
    (InSpell, (HUGE,), "InSpell: length must be a whole number from 1 to 10000, got an integer"),
    (last, {"name": None}, "LastSymbols: name must be one line of text, got nothing"),
    (last, {"name": "two\nlines"}, r"LastSymbols: name must be one line of text, got 'two\\nlines'"),
    (last, {"width": -1}, "LastSymbols: width must be a whole number from 1 to 10000, got -1"),
    (last, {"width": "1"}, "LastSymbols: width must be a whole number, got '1'"),
    (last, {"predicate": "1"}, "LastSymbols: predicate must be a function, got '1'"),
    (last, {"symbols": None}, "LastSymbols: symbols: expected a list of symbols, got nothing"),
    (last, {"symbols": {1}}, "LastSymbols: symbols: symbols are text"),
    (ask_of_window, {"query": last(broken)}, r"any: its predicate failed with KeyError on \('0',\)"),
    (ask_of_window, {"query": last(lambda window: None)}, "any: its predicate must return True or False, got nothing"),
    (ask_of_window, {"query": last(lambda window: 2)}, "must return True or False, got 2"),
    (ask_of_window, {"query": last(lambda window: math.nan)}, "must return True or False, got nan"),
    (ask_of_window, {"query": last(lambda window: "1")}, "must return True or False, got '1'"),
    (ask_of_window, {"query": last(lambda window: np.ones(2))}, "must return True or False, got a value of type ndarray"),
    (ask_of_window, {"query": "poor"}, "a question must be made by ask, exactly, count_of, .* or LastSymbols, got 'poor'"),
    (ask_of_window, {"query": None}, "a question must be made by .* got nothing"),
    (ask_of_window, {"query": exactly}, "a question must be made by .* got a value of type function"),
    (ask_of_window, {"query": "poor", "level": 2}, "a question must be made by"),
    (ask_of_window, {"period": "6"}, "release w: period must be a whole number, got '6'"),
    (ask_of_window, {"period": 6.0}, "release w: period must be a whole number, got 6.0"),
    (ask_of_window, {"period": True}, "release w: period must be a whole number, got true"),
    (ask_of_window, {"period": math.nan}, "release w: period must be a whole number, got nan"),
    (ask_of_window, {"period": HUGE}, "period an integer of 16610 bits was asked for, but periods 1..4 are released"),
    (ask_of_window, {"period": np.uint8(5)}, "period 5 was asked for, but periods 1..4 are released"),
    (ask_of_window, {"level": "0.95"}, "last:1: a confidence level must lie between 0 and 1, got '0.95'"),
    (ask_of_window, {"level": None}, "a confidence level must lie between 0 and 1, got nothing"),
    (ask_of_window, {"level": True}, "a confidence level must lie between 0 and 1, got true"),
    (ask_of_window, {"level": HUGE}, "a confidence level must lie between 0 and 1, got an integer"),
    (ask_of_window, {"level": 0.5j}, "a confidence level must lie between 0 and 1, got a value of type complex"),
    (ask_of_window, {"level": Decimal("0.95")}, "a confidence level must lie between 0 and 1, got a value of type Decimal"),
    (
        ask_of_window,
        {"level": 1 - Fraction(1, HUGE)},
        "a confidence level must lie .* got a value of type Fraction",
    ),
    (ask_of_window, {"level": np.array([0.9, 0.95])}, "a confidence level must lie .* got a value of type ndarray"),
    (ask_of_cumulative, {"period": "4"}, "release c: period must be a whole number, got '4'"),
    (ask_of_cumulative, {"level": 1}, "atleast:2: a confidence level must lie between 0 and 1, got 1"),
    (WINDOW.counts, (2.0,), "release w: period must be a whole number, got 2.0"),
    (WINDOW.bins, (0,), "release w: period 0 was asked for"),
    (CUMULATIVE.counts, (False,), "release c: period must be a whole number, got false"),
    (CUMULATIVE.bins, ("1",), "release c: period must be a whole number, got '1'"),
]


@pytest.mark.parametrize(("ask", "arguments", "reason"), BAD, ids=[reason for _, _, reason in BAD])
def test_a_bad_question_is_refused_in_one_line_that_says_why(
    ask: Ask, arguments: dict[str, Any] | tuple[Any, ...], reason: str
) -> None:
    with pytest.raises(UnsupportedQuery, match=reason) as refused:
        _ = ask(**arguments) if isinstance(arguments, dict) else ask(*arguments)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int64, np.uint64])
def test_integers_of_numpy_ask_what_those_of_python_do(kind: Callable[[int], Any]) -> None:
    """NumPy's would wrap around or overflow in what is computed from them."""
    for panel, query, same in (
        (WINDOW, poor(at_least=kind(2), of=kind(3)), poor()),
        (WINDOW, poor_in_a_row(length=kind(2), of=kind(3)), poor_in_a_row()),
        (CUMULATIVE, AtLeast(kind(2)), AtLeast(2)),
        (COLUMNS_ONLY, AtLeast(kind(2)), AtLeast(2)),
    ):
        answer = panel.fraction(query, kind(3), level=np.float64(0.9))
        assert answer == panel.fraction(same, 3, level=0.9)
        assert (type(answer.period), type(answer.level)) == (int, float)
    assert WINDOW.counts(kind(1)).tolist() == WINDOW.counts(1).tolist()
    assert CUMULATIVE.bins(kind(2)) == CUMULATIVE.bins(2)


@pytest.mark.parametrize("kind", [int, float, np.bool_, np.int64])
def test_a_predicate_may_say_one_or_zero(kind: Callable[[bool], Any]) -> None:
    assert ask_of_window(last(lambda window: kind(window == ("1",)))).value == ask_of_window().value


@pytest.mark.parametrize("ask", [ask_of_window, ask_of_cumulative, partial(COLUMNS_ONLY.fraction, TWICE)])
def test_every_level_below_one_has_an_interval(ask: Ask) -> None:
    """The nearest to 1 that a float can say too, where one minus the tail is rounded to 1."""
    levels = [math.nextafter(0, 1), 0.5, Fraction(19, 20), 1 - 1e-12, math.nextafter(1, 0)]
    widths = [answer.high - answer.low for answer in (ask(level=level) for level in levels)]
    assert widths == sorted(widths)
    assert all(math.isfinite(width) for width in widths)


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-1, 6),
    st.floats(),
    st.floats(0, 1),
    st.complex_numbers(),
    st.fractions(),
    st.decimals(allow_nan=True),
    st.text(max_size=3),
    st.sampled_from(["0", "1"]),
    st.binary(max_size=3),
    st.dates(),
    st.sampled_from([np.int8(3), np.uint64(3), np.float32(0.5), np.bool_(True), np.str_("1"), np.array(1), np.ones(2)]),
    st.sampled_from(['count("1") >= 2 of 3', "events >= 2", "events == 5", "spell >= 2", "matched", "spell >= 10001"]),
    st.sampled_from([object(), int, len, bool, broken, exactly, exactly("1"), AtLeast(1), WINDOW, WINDOW.contract]),
)
ANYTHING = st.recursive(
    SCALARS,
    lambda inside: st.one_of(
        st.lists(inside, max_size=3),
        st.lists(inside, max_size=3).map(tuple),
        st.lists(inside, max_size=3).map(iter),
        st.dictionaries(st.text(max_size=2), inside, max_size=2),
        inside.map(lambda value: lambda window: value),
    ),
    max_leaves=5,
)
"""Values of Python and NumPy, among them those that a question takes, and functions that return any of them."""

TABLE, FRAME = CUMULATIVE.to_arrow(), CUMULATIVE.to_pandas()


def from_arrow(table: Any = TABLE, contract: Any = None) -> Panel:
    return Panel.from_arrow(table, contract)


def from_pandas(frame: Any = FRAME, contract: Any = CUMULATIVE.contract, measurements: Any = None) -> Panel:
    return Panel.from_pandas(frame, contract, measurements)


QUESTIONS: dict[Ask, list[str]] = {
    poor: ["symbols", "at_least", "of"],
    poor_in_a_row: ["symbols", "length", "of"],
    last: ["predicate", "name", "width", "symbols"],
    AtLeast: ["b"],
    EventCount: ["b"],
    InSpell: ["length"],
    ask_in_words: ["text"],
}
METHODS: dict[Ask, list[str]] = {
    ask_of_window: ["query", "period", "level"],
    ask_of_cumulative: ["query", "period", "level"],
    WINDOW.counts: ["period"],
    WINDOW.bins: ["period"],
    CUMULATIVE.counts: ["period"],
    CUMULATIVE.bins: ["period"],
}
TABLES: dict[Ask, list[str]] = {
    from_arrow: ["table", "contract"],
    from_pandas: ["frame", "contract", "measurements"],
}


def answered(ask: Ask, *arguments: Any, **named: Any) -> Any:
    """What it says, or None if it refuses in one line; any other error is the test's failure."""
    try:
        return ask(*arguments, **named)
    except UnsupportedQuery as refused:
        assert "\n" not in str(refused)
        return None


def check_answer(answer: Answer | None) -> None:
    if answer is not None:
        assert "\n" not in answer.query
        assert 0 < answer.level < 1
        assert answer.low <= answer.value <= answer.high
        assert math.isfinite(answer.high - answer.low)


@given(st.data())
def test_any_value_in_any_question_is_answered_or_refused(data: st.DataObject) -> None:
    ask = data.draw(st.sampled_from(list(QUESTIONS)))
    named = {name: data.draw(ANYTHING) for name in data.draw(st.sets(st.sampled_from(QUESTIONS[ask]), min_size=1))}
    query = answered(ask, **named)
    if query is not None:
        for panel in (WINDOW, CUMULATIVE, *OTHERS):
            check_answer(answered(panel.fraction, query))


@given(st.lists(ANYTHING, max_size=4))
@example(["1"] * 10_001)
def test_any_values_as_the_last_symbols_are_answered_or_refused(symbols: list[Any]) -> None:
    query = answered(exactly, *symbols)
    if query is not None:
        check_answer(answered(WINDOW.fraction, query))


@given(st.data())
def test_any_value_in_any_method_that_asks_is_answered_or_refused(data: st.DataObject) -> None:
    ask = data.draw(st.sampled_from(list(METHODS)))
    named = {name: data.draw(ANYTHING) for name in data.draw(st.sets(st.sampled_from(METHODS[ask]), min_size=1))}
    found = answered(ask, **named)
    if isinstance(found, Answer):
        check_answer(found)


@given(st.data())
def test_any_value_in_place_of_a_table_is_taken_or_refused(data: st.DataObject) -> None:
    make = data.draw(st.sampled_from(list(TABLES)))
    named = {name: data.draw(ANYTHING) for name in data.draw(st.sets(st.sampled_from(TABLES[make]), min_size=1))}
    try:
        panel = make(**named)
    except InvalidInput as refused:
        assert "\n" not in str(refused)
    else:
        check_answer(panel.fraction(TWICE))
