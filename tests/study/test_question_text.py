"""Questions as text: every form is read as the grammar says, has one canonical text, and is refused where it is wrong."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamproc.study.question_text import (
    CountQuestion,
    EventsQuestion,
    MatchedQuestion,
    ParsedQuestion,
    Place,
    PlacesQuestion,
    QuestionError,
    RunQuestion,
    SpellQuestion,
    parse_question,
)

SYMBOL = (
    st.text(st.characters(exclude_characters="|", exclude_categories=["Cs"]), min_size=1, max_size=5)
    .filter(str.isprintable)
    .filter(lambda symbol: symbol == symbol.strip())
) | st.sampled_from(['"', "\\", '\\"', "a, b", "now in (", "of"])
SYMBOLS = st.lists(SYMBOL, min_size=1, max_size=4).map(tuple)
UP_TO_THE_HORIZON = st.integers(1, 10_000)


@st.composite
def count_questions(draw: st.DrawFn) -> CountQuestion:
    of = draw(UP_TO_THE_HORIZON)
    return CountQuestion(draw(SYMBOLS), draw(st.sampled_from([">=", "==", "<="])), draw(st.integers(0, of)), of)


@st.composite
def run_questions(draw: st.DrawFn) -> RunQuestion:
    of = draw(UP_TO_THE_HORIZON)
    return RunQuestion(draw(SYMBOLS), draw(st.integers(1, of)), of)


PLACES = st.lists(
    st.builds(Place, st.integers(0, 9_999), SYMBOLS), min_size=1, max_size=5, unique_by=lambda place: place.lag
)

QUESTIONS: st.SearchStrategy[ParsedQuestion] = st.one_of(
    count_questions(),
    run_questions(),
    PLACES.map(lambda places: PlacesQuestion(tuple(places))),
    st.builds(EventsQuestion, st.just(">="), UP_TO_THE_HORIZON),
    st.builds(EventsQuestion, st.just("=="), st.integers(0, 10_000)),
    st.builds(SpellQuestion, UP_TO_THE_HORIZON),
    st.just(MatchedQuestion()),
)


@given(QUESTIONS)
def test_the_canonical_text_is_read_as_the_same_question(question: ParsedQuestion) -> None:
    assert parse_question(str(question)) == question
    assert str(parse_question(str(question))) == str(question)
    assert str(question).isprintable()


@given(st.text() | st.text('countlagnowspel()">=<, 0123\\andifr'))
def test_any_text_is_a_question_or_is_refused_in_one_line(text: str) -> None:
    try:
        parse_question(text)
    except QuestionError as error:
        assert str(error).isprintable()


@given(QUESTIONS, st.data())
def test_a_damaged_question_is_a_question_or_is_refused_at_one_of_its_characters(
    question: ParsedQuestion, data: st.DataObject
) -> None:
    text = str(question)
    place = data.draw(st.integers(0, len(text)))
    damaged = text[:place] + data.draw(st.text(max_size=2)) + text[place + data.draw(st.integers(0, 2)) :]
    try:
        parse_question(damaged)
    except QuestionError as error:
        assert error.where in {f"at character {number}" for number in range(1, len(damaged) + 2)}


READ: list[tuple[str, ParsedQuestion]] = [
    ('count("1") >= 2 of 3', CountQuestion(("1",), ">=", 2, 3)),
    ('count("a", "b") == 0 of 1', CountQuestion(("a", "b"), "==", 0, 1)),
    ('count("a") <= 10000 of 10000', CountQuestion(("a",), "<=", 10_000, 10_000)),
    ('lag1 in ("1") and now in ("0")', PlacesQuestion((Place(1, ("1",)), Place(0, ("0",))))),
    ('now in ("a", "b")', PlacesQuestion((Place(0, ("a", "b")),))),
    ('lag9999 in ("a")', PlacesQuestion((Place(9_999, ("a",)),))),
    ('run("1") >= 2 of 3', RunQuestion(("1",), 2, 3)),
    ("events >= 3", EventsQuestion(">=", 3)),
    ("events == 0", EventsQuestion("==", 0)),
    ("spell >= 6", SpellQuestion(6)),
    ("matched", MatchedQuestion()),
    (r'count("say \"no\"", "a\\b") >= 1 of 1', CountQuestion(('say "no"', "a\\b"), ">=", 1, 1)),
    ('count("größer 5 €") >= 1 of 1', CountQuestion(("größer 5 €",), ">=", 1, 1)),
]


@pytest.mark.parametrize(("text", "question"), READ)
def test_a_question_is_read_as_written(text: str, question: ParsedQuestion) -> None:
    assert parse_question(text) == question
    assert str(question) == text


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ('count("1")>=2of 3', 'count("1") >= 2 of 3'),
        (' count ( "1"\t,"2" )\n>= 02 of 0003\r\n', 'count("1", "2") >= 2 of 3'),
        ('run("1","0","1")>=2 of 3', 'run("1", "0") >= 2 of 3'),
        ('now in ("0") and lag 2 in ("1") and lag1 in ("0")', 'lag2 in ("1") and lag1 in ("0") and now in ("0")'),
        ('lag0 in ("0")', 'now in ("0")'),
        ("events==3", "events == 3"),
        ("spell>=3 ", "spell >= 3"),
        (" matched", "matched"),
    ],
)
def test_spelling_has_no_meaning(text: str, canonical: str) -> None:
    assert str(parse_question(text)) == canonical


START = "'count', 'now', 'lag', 'run', 'events', 'spell' or 'matched'"
SYMBOL_RULE = "symbols of 1 to 64 printable characters, without '|' and without spaces at the ends"
TOKENS = "a word, a number, a string in double quotes, or '(', ')', ',', '>=', '==' or '<='"

REFUSED = [
    ("", f"at character 1: got the end of the text, expected {START}"),
    ("  ", f"at character 3: got the end of the text, expected {START}"),
    ("poor", f"at character 1: got 'poor', expected {START}"),
    ("Count", f"at character 1: got 'Count', expected {START}"),
    ('"count"', f"at character 1: got the string 'count', expected {START}"),
    ("3", f"at character 1: got '3', expected {START}"),
    ("(", f"at character 1: got '(', expected {START}"),
    ("; drop", f"at character 1: got ';', expected {TOKENS}"),
    ("spell = 3", f"at character 7: got '=', expected {TOKENS}"),
    ("spell >= -3", f"at character 10: got '-', expected {TOKENS}"),
    ("spell >= 3.5", f"at character 11: got '.', expected {TOKENS}"),
    ("spell >= \u0663", f"at character 10: got '\u0663', expected {TOKENS}"),
    ("matched\u00a0", f"at character 8: got '\\xa0', expected {TOKENS}"),
    ("count('1') >= 1 of 1", f'at character 7: got "\'", expected {TOKENS}'),
    ("count", "at character 6: got the end of the text, expected '('"),
    ('count "1"', "at character 7: got the string '1', expected '('"),
    ("count(1) >= 2 of 3", "at character 7: got '1', expected a symbol in double quotes"),
    ("count() >= 2 of 3", "at character 7: got ')', expected a symbol in double quotes"),
    ('count("1",) >= 2 of 3', "at character 11: got ')', expected a symbol in double quotes"),
    ('count("1" "2") >= 2 of 3', "at character 11: got the string '2', expected ',' or ')'"),
    ('count("1"', "at character 10: got the end of the text, expected ',' or ')'"),
    ('count("1', "at character 9: got the end of the text, expected a double quote that ends the string"),
    ('count("\\n")', "at character 9: got 'n', expected a double quote or a backslash after \"\\\""),
    ('count("\\', 'at character 9: got the end of the text, expected a double quote or a backslash after "\\"'),
    ('count("") >= 1 of 1', f"at character 7: got '', expected {SYMBOL_RULE}"),
    ('count("a", " b") >= 1 of 1', f"at character 12: got ' b', expected {SYMBOL_RULE}"),
    ('count("a|b") >= 1 of 1', f"at character 7: got 'a|b', expected {SYMBOL_RULE}"),
    ('count("a\nb") >= 1 of 1', f"at character 7: got 'a\\nb', expected {SYMBOL_RULE}"),
    ('count("1") 2 of 3', "at character 12: got '2', expected '>=', '==' or '<='"),
    ('count("1") >= two of 3', "at character 15: got 'two', expected a whole number"),
    ('count("1") >= "2" of 3', "at character 15: got the string '2', expected a whole number"),
    ('count("1") >= 2', "at character 16: got the end of the text, expected 'of'"),
    ('count("1") >= 2 in 3', "at character 17: got 'in', expected 'of'"),
    ('count("1") >= 2 of', "at character 19: got the end of the text, expected a whole number"),
    ('count("1") >= 4 of 3', "at character 15: got 4, expected a whole number from 0 to 3"),
    ('count("1") >= 0 of 0', "at character 20: got 0, expected a whole number from 1 to 10000"),
    ('count("1") >= 1 of 10001', "at character 20: got 10001, expected a whole number from 1 to 10000"),
    (f'count("1") >= 1 of {"9" * 5000}', "at character 20: got a number of 5000 digits, expected at most 10000"),
    ('count("1") >= 2 of 3 of 4', "at character 22: got 'of', expected the end of the text"),
    ('count("1") >= 2 of 3 and matched', "at character 22: got 'and', expected the end of the text"),
    ('run("1") == 2 of 3', "at character 10: got '==', expected '>='"),
    ('run("1") >= 0 of 3', "at character 13: got 0, expected a whole number from 1 to 3"),
    ('run("1") >= 4 of 3', "at character 13: got 4, expected a whole number from 1 to 3"),
    ('run("1") >= 1 of 0', "at character 18: got 0, expected a whole number from 1 to 10000"),
    ('lag in ("1")', "at character 5: got 'in', expected a whole number"),
    ('lag10000 in ("1")', "at character 4: got 10000, expected a whole number from 0 to 9999"),
    ('now ("1")', "at character 5: got '(', expected 'in'"),
    ('now in "1"', "at character 8: got the string '1', expected '('"),
    ('now in ("1") or', "at character 14: got 'or', expected 'and' or the end of the text"),
    ('now in ("1") "and" lag1 in ("1")', "at character 14: got the string 'and', expected 'and' or the end of the text"),
    ('now in ("1") and', "at character 17: got the end of the text, expected 'now' or 'lag'"),
    ('now in ("1") and matched', "at character 18: got 'matched', expected 'now' or 'lag'"),
    ('now in ("1") and now in ("0")', "at character 18: got now twice, expected every place once"),
    ('lag2 in ("1") and now in ("0") and lag02 in ("1")', "at character 36: got lag2 twice, expected every place once"),
    ('lag0 in ("1") and now in ("0")', "at character 19: got now twice, expected every place once"),
    ("events <= 3", "at character 8: got '<=', expected '>=' or '=='"),
    ("events >= 0", "at character 11: got 0, expected a whole number from 1 to 10000"),
    ("events == 10001", "at character 11: got 10001, expected a whole number from 0 to 10000"),
    ("spell == 3", "at character 7: got '==', expected '>='"),
    ("spell >= 0", "at character 10: got 0, expected a whole number from 1 to 10000"),
    ("spell >= 10001", "at character 10: got 10001, expected a whole number from 1 to 10000"),
    ("matched 3", "at character 9: got '3', expected the end of the text"),
    (" " * 10_001, "at character 10001: got more text, expected at most 10000 characters"),
]


@pytest.mark.parametrize(("text", "message"), REFUSED, ids=[text[:40] for text, _ in REFUSED])
def test_what_is_no_question_is_refused_with_its_character(text: str, message: str) -> None:
    with pytest.raises(QuestionError) as refused:
        parse_question(text)
    assert str(refused.value) == message


def test_a_text_of_the_maximum_length_is_read() -> None:
    assert parse_question("matched".ljust(10_000)) == MatchedQuestion()


def test_a_question_whose_canonical_text_is_too_long_is_refused() -> None:
    """It fits only because it has no spaces, so its canonical text could not be read again."""
    text = "and ".join(f'lag{lag}in("1")' for lag in range(1, 550))
    assert len(text) < 10_000
    with pytest.raises(
        QuestionError, match=r"^at character 1: got a question of \d+ characters in canonical form, expected"
    ):
        parse_question(text)


@pytest.mark.parametrize("text", [None, 3, b"matched", ["matched"]])
def test_only_text_is_a_question(text: Any) -> None:
    with pytest.raises(QuestionError, match="^question: got .*, expected text$"):
        parse_question(text)


UNTYPED: Any = CountQuestion

MADE_WRONG: list[tuple[str, Callable[[], object]]] = [
    ("symbols", lambda: UNTYPED("1", ">=", 1, 1)),
    ("symbols", lambda: CountQuestion((), ">=", 1, 1)),
    ("symbols", lambda: Place(0, ("",))),
    ("symbols", lambda: RunQuestion(("a|b",), 1, 1)),
    ("relation", lambda: UNTYPED(("1",), ">", 1, 1)),
    ("relation", lambda: EventsQuestion("<=", 1)),  # type: ignore[arg-type]
    ("count", lambda: CountQuestion(("1",), ">=", 2, 1)),
    ("count", lambda: CountQuestion(("1",), ">=", -1, 1)),
    ("count", lambda: EventsQuestion(">=", 0)),
    ("of", lambda: CountQuestion(("1",), ">=", 1, 10_001)),
    ("of", lambda: RunQuestion(("1",), 1, True)),
    ("length", lambda: RunQuestion(("1",), 3, 2)),
    ("length", lambda: SpellQuestion(0)),
    ("lag", lambda: Place(10_000, ("1",))),
    ("places", lambda: PlacesQuestion(())),
    ("places", lambda: PlacesQuestion(("now",))),  # type: ignore[arg-type]
    ("places", lambda: PlacesQuestion((Place(1, ("1",)), Place(1, ("0",))))),
]


@pytest.mark.parametrize(("field", "make"), MADE_WRONG)
def test_a_question_made_in_code_refuses_nonsense_too(field: str, make: Callable[[], object]) -> None:
    with pytest.raises(QuestionError, match=f"^{field}: got .*, expected ") as refused:
        make()
    assert refused.value.where == field


def test_a_refusal_can_be_sent_to_another_process() -> None:
    refusal = QuestionError("at character 3", "'x'", "'('")
    assert str(pickle.loads(pickle.dumps(refusal))) == str(refusal)
