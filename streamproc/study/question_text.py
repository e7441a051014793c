"""Questions as text: the grammar of `sp.ask`, of `[[question]]` tables in study files and of the status page.

    question = compare | place | run | events | spell | "matched"
    compare  = "count(" symbols ")" (">=" | "==" | "<=") integer "of" integer
    place    = ("now" | "lag" integer) "in (" symbols ")" { "and" place }
    run      = "run(" symbols ")" ">=" integer "of" integer
    events   = "events" (">=" | "==") integer
    spell    = "spell" ">=" integer
    symbols  = string { "," string }

A string stands in double quotes, with `\\"` and `\\\\` inside. White space between tokens has no meaning. The `str` of a
parsed question is its canonical text, which is the same for all texts that differ only in white space, leading zeros,
repeated symbols or the order of places. `streamproc.releases.query.ask` turns a parsed question into a query.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast, get_args

from streamproc.study.releases import MAX_HORIZON
from streamproc.validation import Validator, describe_value, format_value

MAX_QUESTION = 10_000
"""Maximum characters of a question, as written and in its canonical form."""

MAX_LAG = MAX_HORIZON - 1
"""Maximum number of periods before now that a question can look at."""

Relation: TypeAlias = Literal[">=", "==", "<="]
EventsRelation: TypeAlias = Literal[">=", "=="]


class QuestionError(ValueError):
    """A text is not a question, or a value cannot be part of one.

    `where` is `at character N`, counted from 1, for a text, and the name of a field for a value made in code. `got` says
    what is there, `expected` what can be there.
    """

    def __init__(self, where: str, got: str, expected: str) -> None:
        self.where, self.got, self.expected = where, got, expected
        super().__init__(where, got, expected)

    def __str__(self) -> str:
        return f"{self.where}: got {self.got}, expected {self.expected}"


question_check = Validator(
    lambda where, got, expected: QuestionError(
        where, format_value(got) if isinstance(got, tuple) else describe_value(got), expected
    )
)
"""Checks parts of questions; an error names the part, the value and what is expected."""


@dataclass(frozen=True)
class CountQuestion:
    """Whether the number of the last `of` symbols that are among `symbols` is in `relation` to `count`."""

    symbols: tuple[str, ...]
    relation: Relation
    count: int
    of: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "symbols", _checked_symbols(self.symbols))
        question_check.choice("relation", self.relation, get_args(Relation))
        question_check.whole("of", self.of, 1, MAX_HORIZON)
        question_check.whole("count", self.count, 0, self.of)

    def __str__(self) -> str:
        return f"count({_quoted(self.symbols)}) {self.relation} {self.count} of {self.of}"


@dataclass(frozen=True)
class Place:
    """Whether the symbol `lag` periods before now is among `symbols`; lag 0 is now."""

    lag: int
    symbols: tuple[str, ...]

    def __post_init__(self) -> None:
        question_check.whole("lag", self.lag, 0, MAX_LAG)
        object.__setattr__(self, "symbols", _checked_symbols(self.symbols))

    @property
    def name(self) -> str:
        """`now`, or `lag1` for the period before it."""
        return f"lag{self.lag}" if self.lag else "now"

    def __str__(self) -> str:
        return f"{self.name} in ({_quoted(self.symbols)})"


@dataclass(frozen=True)
class PlacesQuestion:
    """Whether all `places` hold. They are kept oldest first, and none occurs twice."""

    places: tuple[Place, ...]

    def __post_init__(self) -> None:
        _check_places(self.places)
        lags: set[int] = set()
        for place in self.places:
            _check_new_place("places", place, lags)
            lags.add(place.lag)
        object.__setattr__(self, "places", tuple(sorted(self.places, key=lambda place: -place.lag)))

    def __str__(self) -> str:
        return " and ".join(map(str, self.places))


@dataclass(frozen=True)
class RunQuestion:
    """Whether `length` consecutive symbols of the last `of` are among `symbols`."""

    symbols: tuple[str, ...]
    length: int
    of: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "symbols", _checked_symbols(self.symbols))
        question_check.whole("of", self.of, 1, MAX_HORIZON)
        question_check.whole("length", self.length, 1, self.of)

    def __str__(self) -> str:
        return f"run({_quoted(self.symbols)}) >= {self.length} of {self.of}"


@dataclass(frozen=True)
class EventsQuestion:
    """Whether the number of events so far is at least `count`, or exactly `count`."""

    relation: EventsRelation
    count: int

    def __post_init__(self) -> None:
        question_check.choice("relation", self.relation, get_args(EventsRelation))
        question_check.whole("count", self.count, 1 if self.relation == ">=" else 0, MAX_HORIZON)

    def __str__(self) -> str:
        return f"events {self.relation} {self.count}"


@dataclass(frozen=True)
class SpellQuestion:
    """Whether the current run of events has lasted at least `length` periods."""

    length: int

    def __post_init__(self) -> None:
        question_check.whole("length", self.length, 1, MAX_HORIZON)

    def __str__(self) -> str:
        return f"spell >= {self.length}"


@dataclass(frozen=True)
class MatchedQuestion:
    """Whether the history so far has matched the release's pattern."""

    def __str__(self) -> str:
        return "matched"


ParsedQuestion: TypeAlias = CountQuestion | PlacesQuestion | RunQuestion | EventsQuestion | SpellQuestion | MatchedQuestion


def parse_question(text: str) -> ParsedQuestion:
    """The question that a text asks. Raises QuestionError, whose one line names the character and what is expected there."""
    _check_text(text)
    parser = _Parser(text)
    try:
        question = parser.question()
    except QuestionError as error:
        if error.where not in parser.positions:
            raise
        refused = _refusal(parser.positions[error.where], error.got, error.expected)
    else:
        length = len(str(question))
        if length <= MAX_QUESTION:
            return question
        refused = _refusal(0, f"a question of {length} characters in canonical form", f"at most {MAX_QUESTION}")
    raise refused


def _check_text(text: object) -> None:
    question_check.require("question", text, isinstance(text, str), "text")
    if len(cast(str, text)) > MAX_QUESTION:
        raise _refusal(MAX_QUESTION, "more text", f"at most {MAX_QUESTION} characters")


def _checked_symbols(value: object) -> tuple[str, ...]:
    """The different symbols, in the order of their first occurrence."""
    question_check.require("symbols", value, isinstance(value, tuple) and value != (), "a tuple of at least one symbol")
    symbols = cast(tuple[str, ...], value)
    for symbol in symbols:
        question_check.symbol("symbols", symbol)
    return tuple(dict.fromkeys(symbols))


def _check_places(value: object) -> None:
    holds = isinstance(value, tuple) and value != () and all(isinstance(place, Place) for place in value)
    question_check.require("places", value, holds, "a tuple of at least one Place")


def _check_new_place(where: str, place: Place, lags: Collection[int]) -> None:
    if place.lag in lags:
        raise QuestionError(where, f"{place.name} twice", "every place once")


def _quoted(symbols: Sequence[str]) -> str:
    escaped = (symbol.replace("\\", "\\\\").replace('"', '\\"') for symbol in symbols)
    return ", ".join(f'"{symbol}"' for symbol in escaped)


def _at(index: int) -> str:
    """The position of an error, for people, who count characters from 1."""
    return f"at character {index + 1}"


def _refusal(index: int, got: str, expected: str) -> QuestionError:
    return QuestionError(_at(index), got, expected)


_SPACES = " \t\r\n"
_SIGNS = ("(", ")", ",", ">=", "==", "<=")
_MOST_DIGITS = 9
"""Python refuses to convert a number of more than 4300 digits. No number of a question needs more than 5."""


@dataclass(frozen=True)
class _Token:
    kind: Literal["word", "number", "string", "sign", "end"]
    text: str
    """The characters, or the content of a string, without its quotes and escapes."""
    start: int
    stop: int
    """Index of the first character after the token."""

    def __str__(self) -> str:
        if self.kind == "end":
            return "the end of the text"
        return f"the string {format_value(self.text)}" if self.kind == "string" else format_value(self.text)


def _scan(text: str, index: int) -> _Token:
    """The first token at `index` or after it."""
    while index < len(text) and text[index] in _SPACES:
        index += 1
    if index == len(text):
        return _Token("end", "", index, index)
    if text[index] == '"':
        return _scan_string(text, index)
    if _is_digit(text[index]):
        stop = _stop_of_run(text, index, _is_digit)
        return _Token("number", text[index:stop], index, stop)
    if _is_letter(text[index]):
        stop = _stop_of_run(text, index, _is_letter)
        return _Token("word", text[index:stop], index, stop)
    for sign in _SIGNS:
        if text.startswith(sign, index):
            return _Token("sign", sign, index, index + len(sign))
    raise _refusal(index, format_value(text[index]), f"a word, a number, a string in double quotes, or {_either(_SIGNS)}")


def _scan_string(text: str, start: int) -> _Token:
    content: list[str] = []
    index = start + 1
    while index < len(text):
        if text[index] == '"':
            return _Token("string", "".join(content), start, index + 1)
        if text[index] == "\\":
            index += 1
            if text[index : index + 1] not in ('"', "\\"):
                got = format_value(text[index]) if index < len(text) else "the end of the text"
                raise _refusal(index, got, 'a double quote or a backslash after "\\"')
        content.append(text[index])
        index += 1
    raise _refusal(index, "the end of the text", "a double quote that ends the string")


def _is_letter(character: str) -> bool:
    return character.isascii() and character.isalpha()


def _is_digit(character: str) -> bool:
    return character.isascii() and character.isdigit()


def _stop_of_run(text: str, index: int, belongs: Callable[[str], bool]) -> int:
    return next((place for place in range(index, len(text)) if not belongs(text[place])), len(text))


def _either(words: Sequence[str]) -> str:
    *others, last = (f"'{word}'" for word in words)
    return f"{', '.join(others)} or {last}" if others else last


class _Parser:
    """Recursive descent over the tokens of one text, one token ahead."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._next = _scan(text, 0)
        self.positions: dict[str, int] = {}
        """Where the newest number of each field stands. The constructors, which know the ranges, name only the field."""

    def question(self) -> ParsedQuestion:
        """The whole text as a question."""
        question = self._form()
        if self._next.kind != "end":
            more = "'and' or " if isinstance(question, PlacesQuestion) else ""
            raise self._unexpected(f"{more}the end of the text")
        return question

    def _form(self) -> ParsedQuestion:
        match self._next.text if self._next.kind == "word" else "":
            case "count":
                return self._count()
            case "now" | "lag":
                return self._places()
            case "run":
                return self._run()
            case "events":
                return self._events()
            case "spell":
                return self._spell()
            case _:
                self._take("matched", beside=("count", "now", "lag", "run", "events", "spell"))
                return MatchedQuestion()

    def _count(self) -> CountQuestion:
        self._take("count")
        symbols = self._symbols()
        relation = cast(Relation, self._take(*get_args(Relation)))
        count, of = self._share("count")
        return CountQuestion(symbols, relation, count, of)

    def _places(self) -> PlacesQuestion:
        places: dict[int, Place] = {}
        while True:
            start = self._next.start
            place = self._place()
            _check_new_place(_at(start), place, places)
            places[place.lag] = place
            if not self._comes("and"):
                return PlacesQuestion(tuple(places.values()))
            self._take("and")

    def _place(self) -> Place:
        lag = self._number("lag") if self._take("now", "lag") == "lag" else 0
        self._take("in")
        return Place(lag, self._symbols())

    def _run(self) -> RunQuestion:
        self._take("run")
        symbols = self._symbols()
        self._take(">=")
        length, of = self._share("length")
        return RunQuestion(symbols, length, of)

    def _events(self) -> EventsQuestion:
        self._take("events")
        relation = cast(EventsRelation, self._take(*get_args(EventsRelation)))
        return EventsQuestion(relation, self._number("count"))

    def _spell(self) -> SpellQuestion:
        self._take("spell")
        self._take(">=")
        return SpellQuestion(self._number("length"))

    def _share(self, field: str) -> tuple[int, int]:
        part = self._number(field)
        self._take("of")
        return part, self._number("of")

    def _symbols(self) -> tuple[str, ...]:
        self._take("(")
        symbols = [self._symbol()]
        while self._take(",", ")") == ",":
            symbols.append(self._symbol())
        return tuple(symbols)

    def _symbol(self) -> str:
        token = self._next
        if token.kind != "string":
            raise self._unexpected("a symbol in double quotes")
        question_check.symbol(_at(token.start), token.text)
        self._advance()
        return token.text

    def _number(self, field: str) -> int:
        token = self._next
        if token.kind != "number":
            raise self._unexpected("a whole number")
        if len(token.text) > _MOST_DIGITS:
            raise _refusal(token.start, f"a number of {len(token.text)} digits", f"at most {MAX_HORIZON}")
        self.positions[field] = token.start
        self._advance()
        return int(token.text)

    def _take(self, *allowed: str, beside: Sequence[str] = ()) -> str:
        """Step over a word or a sign that is `allowed`. The error also names the words `beside` it, tried before."""
        if not self._comes(*allowed):
            raise self._unexpected(_either((*beside, *allowed)))
        taken = self._next.text
        self._advance()
        return taken

    def _comes(self, *allowed: str) -> bool:
        return self._next.kind in ("word", "sign") and self._next.text in allowed

    def _advance(self) -> None:
        self._next = _scan(self._text, self._next.stop)

    def _unexpected(self, expected: str) -> QuestionError:
        return _refusal(self._next.start, str(self._next), expected)
