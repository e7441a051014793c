"""A pattern compiles to the smallest automaton that finds what Python's `re` finds, or is refused in one line."""

from __future__ import annotations

import pickle
import re
from itertools import product

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from streamproc.study.pattern import MAX_DEPTH, MAX_LENGTH, MAX_POSITIONS, MAX_STATES, PatternError, compile_pattern

Table = npt.NDArray[np.int64]

BITS = ("0", "1")
LETTERS = ("a", "b", "c")
WORK = ("in work", "out of work", "x", "*", "<", ">", "a>b", "a")
WORK_CODES = "ABCDEFGH"
"""A letter for each symbol of WORK, for `re`."""

BIT_PATTERNS = [
    "1", "01", "1{3}", "1{2,4}0", "1{2,}0", "1+0", "10*1", "1.1", "1.{2}1", "1.*1.*1", "(10|01){2}", "0?1", "(1|00)+01",
    "((1?)*0){2}", "(0*1*)*110", "[1]0[0]", "[^1]{3}", "[^1][^0]", "(1{0,2}0){2,3}1", "(0|1)(0|1)(0|1)", "1{0}0",
    "(1?){2}0{2}", "((11)*0)+1", "1(0{2}|1(0|1)?){2}1", "11|00", "0{1}1{01}", "(1|1|1)", "(1{2,}|0{3}){2}", "1(0?){0,3}1",
    "1|[^01]", "(1?0?){3}11",
]  # fmt: skip
LETTER_PATTERNS = [
    "ab|ca",
    "a[bc]*a",
    "[^a]{2}a",
    "(ab?c|ba)+",
    "a.c",
    "(a|b)*c{2}",
    "([ab]c){2}",
    "a(b*c)*a",
    "[^ab]a?[^c]",
]


def final_states(table: Table, longest: int, start: int = 0) -> dict[tuple[int, ...], int]:
    """The state after every history of at most this length."""
    rows = table.tolist()
    states: dict[tuple[int, ...], int] = {(): start}
    for length in range(1, longest + 1):
        for history in product(range(table.shape[1]), repeat=length):
            states[history] = rows[states[history[:-1]]][history[-1]]
    return states


def assert_finds_the_same(table: Table, expression: str, letters: str, longest: int) -> None:
    found = re.compile(expression)
    for history, state in final_states(table, longest).items():
        text = "".join(letters[symbol] for symbol in history)
        assert (state == len(table) - 1) == (found.search(text) is not None), text


def assert_canonical(table: Table) -> None:
    """The last state is never left, and the others are in the order in which a breadth-first search meets them."""
    last = len(table) - 1
    assert (table[last] == last).all()
    met = [0]
    for state in met:
        met += [after for after in dict.fromkeys(table[state].tolist()) if after not in met and after != last]
    assert met == list(range(last))


def assert_minimal(table: Table, longest: int) -> None:
    """Brute force: some history of at most this length tells every two states apart."""
    last = len(table) - 1
    answers = {tuple(after == last for after in final_states(table, longest, state).values()) for state in range(len(table))}
    assert len(answers) == len(table)


@st.composite
def expressions(draw: st.DrawFn, symbols: str, depth: int = 3) -> str:
    """A random pattern that means the same to `re`."""
    if depth == 0:
        named = "".join(draw(st.lists(st.sampled_from(symbols), min_size=1, max_size=2)))
        return draw(st.sampled_from([named[0], ".", f"[{named}]", f"[^{named}]"]))
    parts = [draw(expressions(symbols, depth - 1)) for _ in range(draw(st.integers(1, 3)))]
    joined = draw(st.sampled_from(["", "|"])).join(parts)
    low, more = draw(st.integers(0, 2)), draw(st.integers(0, 2))
    bounds = [f"{{{low}}}", f"{{{low},}}", f"{{{low},{low + more}}}"]
    quantifier = draw(st.sampled_from(["", "*", "+", "?", *bounds]))
    return draw(st.sampled_from([joined, f"({joined}){quantifier}"]))


def compiled_or_discarded(pattern: str, alphabet: tuple[str, ...]) -> Table:
    """The table, unless the pattern is one of those that are refused whatever their form."""
    try:
        return compile_pattern(pattern, alphabet)
    except PatternError as error:
        if error.problem == "matches the empty history":
            assert re.search(f"^({pattern})$", "") is not None
        elif error.problem == "can never match":
            assert not any(re.search(pattern, "".join(text)) for text in product(alphabet, repeat=6))
        else:
            assert "states" in error.problem
        assume(False)
        raise


def refusal(pattern: str, alphabet: tuple[str, ...] = BITS) -> PatternError:
    with pytest.raises(PatternError) as caught:
        compile_pattern(pattern, alphabet)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400
    return caught.value


@pytest.mark.parametrize("pattern", BIT_PATTERNS)
def test_a_pattern_over_two_symbols_finds_what_re_finds(pattern: str) -> None:
    assert_finds_the_same(compile_pattern(pattern, BITS), pattern, "01", 8)


@pytest.mark.parametrize("pattern", LETTER_PATTERNS)
def test_a_pattern_over_three_symbols_finds_what_re_finds(pattern: str) -> None:
    assert_finds_the_same(compile_pattern(pattern, LETTERS), pattern, "abc", 8)


@given(expressions("01"))
def test_a_random_pattern_over_two_symbols_finds_what_re_finds(pattern: str) -> None:
    table = compiled_or_discarded(pattern, BITS)
    assert_finds_the_same(table, pattern, "01", 8)
    assert_canonical(table)


@given(expressions("abc", depth=2))
def test_a_random_pattern_over_three_symbols_finds_what_re_finds(pattern: str) -> None:
    table = compiled_or_discarded(pattern, LETTERS)
    assert_finds_the_same(table, pattern, "abc", 6)
    assert_canonical(table)


@pytest.mark.parametrize(
    ("pattern", "expression"),
    [
        ("<out of work>{2}", "B{2}"),
        ("<out of work>x", "BC"),
        ("[<out of work>x]{2}<in work>", "[BC]{2}A"),
        ("[^<in work>x<*>]+<in work>", "[^ACD]+A"),
        ("<*>*<<>", "D*E"),
        ("<>><<>", "FE"),
        ("[<>><<>]<x>", "[FE]C"),
        ("<a>b>a<a>", "GHH"),
        ("(<in work>|<a>b>)?<>>", "(A|G)?F"),
    ],
)
def test_a_symbol_of_several_characters_or_a_sign_stands_in_brackets(pattern: str, expression: str) -> None:
    assert_finds_the_same(compile_pattern(pattern, WORK), expression, WORK_CODES, 4)


@pytest.mark.parametrize("sign", list("|()[]{}.*+?^$\\<>"))
def test_every_sign_can_be_a_symbol(sign: str) -> None:
    table = [[1, 0], [1, 1]]
    assert compile_pattern(f"<{sign}>", (sign, "x")).tolist() == table
    assert compile_pattern(f"[<{sign}>]", (sign, "x")).tolist() == table
    assert compile_pattern(f"[^<{sign}>]", ("x", sign)).tolist() == table


@pytest.mark.parametrize("symbol", list("-,;:#é/3"))
def test_any_other_character_stands_for_itself(symbol: str) -> None:
    assert compile_pattern(f"[{symbol}x]{symbol}{{1}}", (symbol, "x")).tolist() == [[1, 1], [2, 1], [2, 2]]


def test_six_in_a_row_take_seven_states() -> None:
    table = compile_pattern("1{6}", BITS)
    assert table.dtype == np.int64
    assert table.tolist() == [[0, 1], [0, 2], [0, 3], [0, 4], [0, 5], [0, 6], [6, 6]]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1", "1+"),
        ("1", "(0|1)*1"),
        ("1", "1(0|1)*"),
        ("1{2,}", "11"),
        ("1{2,5}0", "110"),
        ("[01]", "."),
        ("(0|1){3}", "..."),
        ("[^0]", "1"),
        ("10|11", "1."),
        ("1|01|001", "1"),
        ("(1?0?){3}11", "11"),
        ("1.*1", "10*1"),
        ("1[^01]|0", "0"),
        ("(01)*1", "1"),
    ],
)
def test_patterns_that_match_the_same_histories_have_the_same_table(one: str, other: str) -> None:
    np.testing.assert_array_equal(compile_pattern(one, BITS), compile_pattern(other, BITS))


@given(expressions("01", depth=2))
def test_what_surrounds_a_random_match_does_not_change_its_table(pattern: str) -> None:
    table = compiled_or_discarded(pattern, BITS)
    for same in (f".*({pattern})", f"({pattern}).*", f"({pattern})+", f"({pattern})|0({pattern})", f"({pattern}){{1,2}}"):
        np.testing.assert_array_equal(compiled_or_discarded(same, BITS), table)


@pytest.mark.parametrize("pattern", BIT_PATTERNS)
def test_no_two_states_are_equivalent_and_their_order_is_canonical(pattern: str) -> None:
    table = compile_pattern(pattern, BITS)
    assert_minimal(table, 8)
    assert_canonical(table)


def test_the_order_of_the_alphabet_is_the_order_of_the_columns() -> None:
    assert compile_pattern("ab", ("a", "b")).tolist() == [[1, 0], [1, 2], [2, 2]]
    assert compile_pattern("ab", ("b", "a")).tolist() == [[0, 1], [2, 1], [2, 2]]


def test_a_pattern_may_have_512_states_and_no_more() -> None:
    table = compile_pattern(f"1{{{MAX_STATES - 1}}}", BITS)
    assert MAX_STATES == len(table) == 512
    assert_canonical(table)
    assert str(refusal(f"1{{{MAX_STATES}}}")) == "more than 512 states while it is compiled; write a shorter pattern"


ALPHABET_64 = tuple(chr(0x100 + place) for place in range(64))


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("pattern", "alphabet", "problem"),
    [
        ("(0|1)*1(0|1){11}", BITS, "more than 512 states while it is compiled"),
        ("1.{11}1", BITS, "more than 512 states while it is compiled"),
        ("((1{1000}){1000})", BITS, "more than 4096 symbols when repetitions are written out"),
        ("1{99999999999}", BITS, "more than 4096 symbols when repetitions are written out"),
        ("1{" + "9" * 1990 + ",}", BITS, "more than 4096 symbols when repetitions are written out"),
        ("((((1{0}){999}){999}){999}){999}", BITS, "more than 4096 symbols when repetitions are written out"),
        ("1{4000}" * 200, BITS, "more than 4096 symbols when repetitions are written out"),
        ("|".join(["1{4000}"] * 200), BITS, "more than 4096 symbols when repetitions are written out"),
        (".{0,3500}.{510}[^" + ALPHABET_64[3] + "]", ALPHABET_64, "more than 512 states while it is compiled"),
        ("(" * 101 + "1" + ")" * 101, BITS, "more than 100 groups inside each other"),
        ("(" * 1999, BITS, "more than 100 groups inside each other"),
        ("1" * 2001, BITS, "pattern of 2001 characters"),
        ("(" * 1_000_000, BITS, "pattern of 1000000 characters"),
    ],
)
def test_hostile_text_is_refused_quickly(pattern: str, alphabet: tuple[str, ...], problem: str) -> None:
    assert refusal(pattern, alphabet).problem == problem


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("pattern", "alphabet", "states"),
    [
        ("(" * MAX_DEPTH + "1" + "|0)?1" * MAX_DEPTH, BITS, 2),
        ("(" * 99 + "1" + "*)" * 99 + f"{{{MAX_POSITIONS - 5}}}1{{5}}", BITS, 6),
        ("(1?){4000}0", BITS, 2),
        ("((1{0}){64}){63}1", BITS, 2),
        ("(.?){3580}" + ALPHABET_64[0] + "{510}", ALPHABET_64, 511),
        ("(" + "|".join("1" * (MAX_LENGTH // 2 - 1)) + ")", BITS, 2),
    ],
)
def test_text_at_the_limits_is_compiled_quickly(pattern: str, alphabet: tuple[str, ...], states: int) -> None:
    assert len(compile_pattern(pattern, alphabet)) == states


IN_BRACKETS = "a symbol that has several characters or is a sign stands in '<>', like '<out of work>' or '<*>'"
NO_ANCHORS = f"no anchors: the pattern is searched anywhere, and {IN_BRACKETS}"
ALPHABET = f"the alphabet is ['0', '1'], and {IN_BRACKETS}"
REPEATS = f"a quantifier follows a symbol, a class or a group, and {IN_BRACKETS}"
AMBIGUOUS = "this is ambiguous: no lazy or possessive quantifiers, and a repetition of a repetition needs '( )'"
BOUNDS = "{m}, {m,} and {m,n} with m at most n"
NOT_EMPTY = "it needs a symbol, and '?' marks what may be absent"


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("", "empty pattern; a pattern holds at least one symbol"),
        ("012", f"unknown symbol '2' at character 3; {ALPHABET}"),
        ("0 1", f"unknown symbol ' ' at character 2; {ALPHABET}; white space is not skipped"),
        ("01\n", f"unknown symbol '\\n' at character 3; {ALPHABET}; white space is not skipped"),
        ("[0-1]", f"unknown symbol '-' at character 3; {ALPHABET}; there are no ranges"),
        ("1<out of work>", f"unknown symbol 'out of work' at character 2; {ALPHABET}"),
        ("[0<x>]", f"unknown symbol 'x' at character 3; {ALPHABET}"),
        ("<>1", f"unknown symbol '' at character 1; {ALPHABET}"),
        ("<>>1", f"unknown symbol '>' at character 1; {ALPHABET}"),
        ("1<0", f"'<' without '>' at character 2; {IN_BRACKETS}"),
        ("1>", f"'>' without '<' at character 2; {IN_BRACKETS}"),
        ("0(1(0)", "'(' without ')' at character 2; every '(' needs its ')'"),
        ("1|(", "'(' without ')' at character 3; every '(' needs its ')'"),
        ("(1))0", "')' without '(' at character 4; every ')' closes a group"),
        (")", "')' without '(' at character 1; every ')' closes a group"),
        ("1()", f"empty group or alternative at character 3; {NOT_EMPTY}"),
        ("1|", f"empty group or alternative at character 3; {NOT_EMPTY}"),
        ("1||0", f"empty group or alternative at character 3; {NOT_EMPTY}"),
        ("(|1)0", f"empty group or alternative at character 2; {NOT_EMPTY}"),
        ("*1", f"nothing to repeat before '*' at character 1; {REPEATS}"),
        ("1(+0)", f"nothing to repeat before '+' at character 3; {REPEATS}"),
        ("1|?", f"nothing to repeat before '?' at character 3; {REPEATS}"),
        ("{2}1", f"nothing to repeat before '{{' at character 1; {REPEATS}"),
        ("1{3,2}", f"bad bounds '{{3,2}}' at character 2; {BOUNDS}"),
        ("01{}", f"bad bounds '{{}}' at character 3; {BOUNDS}"),
        ("1{,3}", f"bad bounds '{{,3}}' at character 2; {BOUNDS}"),
        ("1{2, 3}", f"bad bounds '{{2, 3}}' at character 2; {BOUNDS}"),
        ("1{-1}", f"bad bounds '{{-1}}' at character 2; {BOUNDS}"),
        ("1{²}", f"bad bounds '{{²}}' at character 2; {BOUNDS}"),
        ("1{2", f"bad bounds '{{2' at character 2; {BOUNDS}"),
        ("1}", f"'}}' without '{{' at character 2; {IN_BRACKETS}"),
        ("1[]", "empty class at character 2; a class names at least one symbol"),
        ("[^]1", "empty class at character 1; a class names at least one symbol"),
        ("1[01", "'[' without ']' at character 2; every '[' needs its ']'"),
        ("1]", f"']' without '[' at character 2; {IN_BRACKETS}"),
        ("[1.]", f"sign '.' in a class at character 3; {IN_BRACKETS}"),
        ("[1^]", f"sign '^' in a class at character 3; {IN_BRACKETS}"),
        ("[[01]]", f"sign '[' in a class at character 2; {IN_BRACKETS}"),
        ("[1\\]]", f"sign '\\\\' in a class at character 3; {IN_BRACKETS}"),
        ("^1", f"anchor '^' at character 1; {NO_ANCHORS}"),
        ("(1$)", f"anchor '$' at character 3; {NO_ANCHORS}"),
        ("1(?=0)", "'(?' at character 2; groups are plain '( )': no look-around, names or flags"),
        ("(?:1)", "'(?' at character 1; groups are plain '( )': no look-around, names or flags"),
        ("(1)\\1", f"escape '\\' at character 4; no escapes: {IN_BRACKETS}"),
        ("1*?", f"'?' after a quantifier at character 3; {AMBIGUOUS}"),
        ("1++", f"'+' after a quantifier at character 3; {AMBIGUOUS}"),
        ("1??", f"'?' after a quantifier at character 3; {AMBIGUOUS}"),
        ("1{2}{3}", f"'{{' after a quantifier at character 5; {AMBIGUOUS}"),
        ("1{2,3}*0", f"'*' after a quantifier at character 7; {AMBIGUOUS}"),
        (
            "0(1{4097})",
            "more than 4096 symbols when repetitions are written out at character 4; "
            "write a shorter pattern or smaller bounds",
        ),
        ("1" * 2001, "pattern of 2001 characters; a pattern has at most 2000 characters"),
        (
            "(" * 101 + "1" + ")" * 101,
            "more than 100 groups inside each other at character 101; write the pattern with fewer groups",
        ),
    ],
)
def test_a_refusal_says_what_is_wrong_where_and_what_is_allowed(pattern: str, message: str) -> None:
    assert str(refusal(pattern)) == message


@pytest.mark.parametrize("pattern", ["1*", "1?0?", "1|0*", "1{0}", "(1{0,3}){2}", "(1*)+", ".{0,}"])
def test_a_pattern_that_matches_the_empty_history_is_refused(pattern: str) -> None:
    assert str(refusal(pattern)) == (
        "matches the empty history; everybody would match before period 1: require at least one symbol"
    )


@pytest.mark.parametrize("pattern", ["[^01]", "1[^01]", "(1|0)[^10]+1", "[^01]|1*[^01]0"])
def test_a_pattern_that_can_never_match_is_refused(pattern: str) -> None:
    assert str(refusal(pattern)) == "can never match; a class like [^01] is empty if the alphabet is 0 and 1"


def test_a_long_text_in_a_refusal_is_shortened() -> None:
    assert refusal("<" + "y" * 1500 + ">", ALPHABET_64).problem.endswith("...")
    assert refusal("1{" + "y" * 1500 + "}").problem.endswith("...")


@given(st.text(st.sampled_from("01[]^()|.*+?{},2<>$\\- "), max_size=30))
def test_any_text_compiles_or_is_refused(pattern: str) -> None:
    try:
        assert_canonical(compile_pattern(pattern, BITS))
    except PatternError as error:
        assert "\n" not in str(error)
        assert error.character is None or 1 <= error.character <= len(pattern) + 1


def test_a_refusal_survives_pickling() -> None:
    error = refusal("1*?")
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.character) == (str(error), 3)
