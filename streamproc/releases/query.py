"""Queries as values, and the intervals of their answers.

A query is a predicate on a person's last symbols, on the number of events so far, on the length of the current spell, or on
whether the history has matched a pattern. It does not know which releases can answer it. A release turns it into weights on
its counts (`Contract.query_weights`), or refuses it with the reason. `ask` makes a query from text.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from numbers import Real
from statistics import NormalDist
from typing import ClassVar, TypeAlias, TypeVar, assert_never, cast

import numpy as np

from streamproc.errors import StudyError, UnsupportedQuery
from streamproc.privacy.types import FloatArray
from streamproc.study import Release, Study
from streamproc.study.question_text import (
    CountQuestion,
    EventsQuestion,
    MatchedQuestion,
    ParsedQuestion,
    PlacesQuestion,
    QuestionError,
    Relation,
    RunQuestion,
    SpellQuestion,
    parse_question,
)
from streamproc.study.releases import MAX_HORIZON
from streamproc.validation import Validator, describe_value, format_value

Window: TypeAlias = tuple[str, ...]
"""Consecutive symbols, oldest first."""

argument_check = Validator(
    lambda what, got, allowed: UnsupportedQuery(f"{what} must be {allowed}, got {describe_value(got)}")
)
"""Checks arguments of queries; an error names the argument, what is allowed and the value."""


class Query:
    """A question to a release about a share of the people.

    >>> isinstance(sp.count_of("1", at_least=2, of=3), sp.Query)
    True
    """

    name: str
    """Name of the query in answers and errors."""
    asks_number: ClassVar[bool] = False
    """Whether it asks for a number of people that is no share of others, such as how many are present."""


@dataclass(frozen=True)
class LastSymbols(Query):
    """The share of people whose last `width` symbols satisfy `predicate`.

    >>> got_poor = sp.LastSymbols("became poor", 2, lambda window: window == ("0", "1"))
    >>> result["quarterly"].fraction(got_poor, period=6).query
    'became poor'
    """

    name: str
    width: int
    predicate: Callable[[Window], bool]
    symbols: frozenset[str] = frozenset()
    """Symbols that the query names. A release without one of them refuses the query, because it is probably misspelt."""

    def __post_init__(self) -> None:
        argument_check.require("LastSymbols: name", self.name, _is_line(self.name), "one line of text")
        object.__setattr__(self, "width", whole_argument("LastSymbols: width", self.width, 1, MAX_HORIZON))
        argument_check.require("LastSymbols: predicate", self.predicate, callable(self.predicate), "a function")
        object.__setattr__(self, "symbols", _symbols("LastSymbols: symbols", self.symbols))

    def holds(self, window: Window) -> bool:
        """Whether the predicate is true of a window; raises UnsupportedQuery if it fails or does not return a bool."""
        try:
            holds: object = self.predicate(window)
        except Exception as error:
            raise UnsupportedQuery(f"{self.name}: its predicate failed with {type(error).__name__} on {window}") from error
        if not (isinstance(holds, Real | np.bool_) and holds in (0, 1)):
            raise UnsupportedQuery(f"{self.name}: its predicate must return True or False, got {describe_value(holds)}")
        return bool(holds)


@dataclass(frozen=True)
class AtLeast(Query):
    """The share of people who have had at least `b` events so far.

    >>> result["months-poor"].fraction(sp.AtLeast(3), period=6).query
    'atleast:3'
    """

    b: int
    name: str = field(init=False, compare=False)
    """`atleast:b`, as in `errors.csv`; the text, if `ask` made the query."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "b", whole_argument("AtLeast: b", self.b, 1, MAX_HORIZON))
        object.__setattr__(self, "name", f"atleast:{self.b}")


@dataclass(frozen=True)
class EventCount(Query):
    """The share of people who have had exactly `b` events so far.

    >>> sp.EventCount(3).name
    'events==3'
    """

    b: int
    name: str = field(init=False, compare=False)
    """`events==b`; the text, if `ask` made the query."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "b", whole_argument("EventCount: b", self.b, 0, MAX_HORIZON))
        object.__setattr__(self, "name", f"events=={self.b}")


@dataclass(frozen=True)
class InSpell(Query):
    """The share of people who are now in a spell, a run of events without a gap, of at least `length` periods.

    >>> sp.InSpell(3).name
    'spell:3'
    """

    length: int
    name: str = field(init=False, compare=False)
    """`spell:length`, as in `errors.csv`; the text, if `ask` made the query."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "length", whole_argument("InSpell: length", self.length, 1, MAX_HORIZON))
        object.__setattr__(self, "name", f"spell:{self.length}")


@dataclass(frozen=True)
class Matched(Query):
    """The share of people whose history so far has matched the pattern of the release.

    >>> sp.Matched().name
    'matched'
    """

    name: str = field(default="matched", init=False, compare=False)


@dataclass(frozen=True)
class Present(Query):
    """The people who are present after a period of an open study.

    >>> sp.Present().name
    'present'
    """

    asks_number: ClassVar[bool] = True
    name: str = field(default="present", init=False, compare=False)


@dataclass(frozen=True)
class SinceEntry(Query):
    """The people of an open study whose whole history since they entered are these symbols, oldest first.

    >>> sp.SinceEntry(("0", "1")).name
    'since entry:0, 1'
    """

    symbols: tuple[str, ...]
    name: str = field(init=False, compare=False)

    def __post_init__(self) -> None:
        argument_check.require("SinceEntry: symbols", self.symbols, isinstance(self.symbols, tuple), "a tuple of symbols")
        _wanted("SinceEntry", self.symbols)
        object.__setattr__(self, "name", f"since entry:{', '.join(self.symbols)}")


@dataclass(frozen=True)
class Entered(Query):
    """The people who entered an open study in a period.

    >>> sp.Entered().name
    'entered'
    """

    asks_number: ClassVar[bool] = True
    name: str = field(default="entered", init=False, compare=False)


@dataclass(frozen=True)
class Left(Query):
    """The people who left an open study in a period.

    >>> sp.Left().name
    'left'
    """

    asks_number: ClassVar[bool] = True
    name: str = field(default="left", init=False, compare=False)


def exactly(*symbols: str) -> LastSymbols:
    """Asks whether the last symbols are these, oldest first: one bin of a window release, or several for fewer than `k`.

    >>> sp.exactly("0", "1").name
    'last:01'
    """
    wanted = _wanted("exactly", symbols)
    label = ("" if all(len(symbol) == 1 for symbol in symbols) else "|").join(symbols)
    return LastSymbols(f"last:{label}", len(symbols), lambda window: window == symbols, wanted)


def count_of(symbols: str | Collection[str], *, at_least: int, of: int) -> LastSymbols:
    """Asks whether at least `at_least` of the last `of` symbols are among `symbols` (one symbol or a list).

    >>> sp.count_of("1", at_least=2, of=3).name
    '1 in at least 2 of the last 3'
    """
    wanted = _wanted("count_of", symbols)
    of = whole_argument("count_of: of", of, 1, MAX_HORIZON)
    at_least = whole_argument("count_of: at_least", at_least, 0, of)
    name = f"{_listed(wanted)} in at least {at_least} of the last {of}"
    return _count_query(name, wanted, ">=", at_least, of)


def in_a_row(symbols: str | Collection[str], *, length: int, of: int) -> LastSymbols:
    """Asks whether `length` consecutive symbols of the last `of` are among `symbols` (one symbol or a list).

    >>> sp.in_a_row(["1"], length=2, of=3).name
    '1 in 2 in a row of the last 3'
    """
    wanted = _wanted("in_a_row", symbols)
    of = whole_argument("in_a_row: of", of, 1, MAX_HORIZON)
    length = whole_argument("in_a_row: length", length, 1, of)

    def holds(window: Window) -> bool:
        runs = (len(list(run)) for hit, run in itertools.groupby(window, wanted.__contains__) if hit)
        return max(runs, default=0) >= length

    return LastSymbols(f"{_listed(wanted)} in {length} in a row of the last {of}", of, holds, wanted)


def at_least(b: int) -> AtLeast:
    """Asks whether a person has had at least `events` events so far, for cumulative releases.

    >>> sp.at_least(3).name
    'atleast:3'
    """
    return AtLeast(b)


def in_spell(length: int) -> InSpell:
    """Asks whether a person is now in a spell of at least `length` periods, for spell releases.

    >>> sp.in_spell(6).name
    'spell:6'
    """
    return InSpell(length)


def matched() -> Matched:
    """Asks whether a person's history so far has matched the pattern, for pattern releases.

    >>> sp.matched().name
    'matched'
    """
    return Matched()


def present() -> Present:
    """Asks how many people are present after a period of an open study.

    >>> sp.present().name
    'present'
    """
    return Present()


def entered() -> Entered:
    """Asks how many people entered an open study in a period.

    >>> sp.entered().name
    'entered'
    """
    return Entered()


def left() -> Left:
    """Asks how many people left an open study in a period.

    >>> sp.left().name
    'left'
    """
    return Left()


def since_entry(*symbols: str) -> SinceEntry:
    """Asks whether the whole history since the entry is these symbols, oldest first, for window releases of open studies.

    >>> sp.since_entry("0", "1").name
    'since entry:0, 1'
    """
    return SinceEntry(symbols)


def ask(text: str) -> Query:
    """The query that a text asks, named by its canonical text. Raises UnsupportedQuery, which names the wrong character.

    >>> sp.ask('count("1")>=2 of 3').name
    'count("1") >= 2 of 3'
    """
    try:
        question = parse_question(text)
    except QuestionError as error:
        raise UnsupportedQuery(str(error)) from None
    return _query_of(question)


def _query_of(question: ParsedQuestion) -> Query:
    match question:
        case CountQuestion(symbols, relation, count, of):
            return _count_query(str(question), frozenset(symbols), relation, count, of)
        case PlacesQuestion():
            return _places_query(question)
        case RunQuestion(symbols, length, of):
            return replace(in_a_row(symbols, length=length, of=of), name=str(question))
        case EventsQuestion(relation, count):
            return _renamed(AtLeast(count) if relation == ">=" else EventCount(count), str(question))
        case SpellQuestion(length):
            return _renamed(InSpell(length), str(question))
        case MatchedQuestion():
            return Matched()
        case _:
            assert_never(question)


_HOLDS: Mapping[Relation, Callable[[int, int], bool]] = {">=": operator.ge, "==": operator.eq, "<=": operator.le}


def _count_query(name: str, wanted: frozenset[str], relation: Relation, count: int, of: int) -> LastSymbols:
    holds = _HOLDS[relation]
    return LastSymbols(name, of, lambda window: holds(sum(symbol in wanted for symbol in window), count), wanted)


def _places_query(question: PlacesQuestion) -> LastSymbols:
    wanted = {place.lag: frozenset(place.symbols) for place in question.places}

    def holds(window: Window) -> bool:
        return all(window[-1 - lag] in symbols for lag, symbols in wanted.items())

    return LastSymbols(str(question), max(wanted) + 1, holds, frozenset().union(*wanted.values()))


Checked = TypeVar("Checked")


def declared(study: Study, release: Release, check: Callable[[Query], Checked]) -> list[Checked]:
    """What `check` returns for each question that the study declares for a release.

    Raises StudyError with the reason if `check` raises UnsupportedQuery.
    """
    found = []
    for place, question in enumerate(study.questions, start=1):
        if question.release != release.name:
            continue
        try:
            found.append(check(ask(question.ask)))
        except UnsupportedQuery as error:
            allowed = f"a question that the release can answer, but {error}"
            raise StudyError(f"question[{place}].ask", format_value(question.ask), allowed) from None
    return found


def kind_for(query: Query) -> str:
    """The kind of release that answers a query, in words."""
    match query:
        case LastSymbols():
            return "a window release"
        case AtLeast() | EventCount():
            return "a cumulative release"
        case InSpell():
            return "a spell release"
        case _:
            return "a pattern release"


def _renamed(query: AtLeast | EventCount | InSpell, name: str) -> Query:
    """Gives a query that was just made another name. Names are not compared, so it stays equal to others of its class."""
    object.__setattr__(query, "name", name)
    return query


def integer_argument(what: str, value: object) -> int:
    """A Python or NumPy integer as a Python integer, which cannot overflow; `True` is not accepted."""
    number = int(value) if isinstance(value, np.integer) else value
    argument_check.require(what, value, isinstance(number, int) and not isinstance(number, bool), "a whole number")
    return cast(int, number)


def whole_argument(what: str, value: object, low: int, high: int) -> int:
    """An integer within `low..high`."""
    return argument_check.whole(what, integer_argument(what, value), low, high)


def level_argument(what: str, value: object) -> float:
    """A number that is above 0 and below 1 as a float too; NaN is refused."""
    # It is also compared before it is converted, because a fraction may be beyond a float's range.
    number = float(value) if isinstance(value, float | np.floating | Fraction) and 0 < value < 1 else 0.0
    if not 0 < number < 1:
        raise UnsupportedQuery(f"{what} must lie between 0 and 1, got {describe_value(value)}")
    return number


def _is_line(value: object) -> bool:
    return isinstance(value, str) and value.isprintable()


def _wanted(asked: str, symbols: str | Iterable[str]) -> frozenset[str]:
    wanted = _symbols(asked, [symbols] if isinstance(symbols, str) and symbols else symbols)
    if not wanted:
        raise UnsupportedQuery(f"{asked}: expected at least one symbol, got none")
    return wanted


def _symbols(what: str, values: Iterable[str]) -> frozenset[str]:
    try:
        return frozenset(_symbol(what, value) for value in values)
    except TypeError:
        raise UnsupportedQuery(f"{what}: expected a list of symbols, got {describe_value(values)}") from None


def _symbol(what: str, value: object) -> str:
    if not (isinstance(value, str) and value.isprintable()):
        raise UnsupportedQuery(f"{what}: symbols are text, as in the study's alphabet, got {describe_value(value)}")
    return value


def _listed(symbols: frozenset[str]) -> str:
    return "/".join(sorted(symbols))


Number = TypeVar("Number", float, FloatArray)

LEVEL = 0.95
"""Confidence level of every interval in a plan, a series or a file."""


def quantile(level: float) -> float:
    """Half-width in standard errors of a two-sided normal interval of this level: 1.96 for 0.95."""
    return upper_quantile((1 - level) / 2)


def upper_quantile(tail: float) -> float:
    """The value that a standard normal variable exceeds with probability `tail`."""
    # Computed from the lower tail, because `1 - tail` may be rounded to 1, whose quantile is infinite.
    return -NormalDist().inv_cdf(tail)


def interval(value: Number, centre: Number, half: Number) -> tuple[Number, Number]:
    """The interval of half-width `half` around `centre`, extended to hold `value`.

    The value is the released one. The centre is the estimate before clamping: it is unbiased, so the interval around it
    covers the truth, whatever clamping did to the value.
    """
    return np.minimum(centre - half, value), np.maximum(centre + half, value)
