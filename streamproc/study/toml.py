"""Parses the text of a study file into a `Study`. This module checks the keys; the constructors check the values."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal, DecimalException
from difflib import get_close_matches
from fractions import Fraction
from typing import Any

from streamproc.errors import StudyError
from streamproc.privacy.adjacency import Adjacency
from streamproc.privacy.types import Rho
from streamproc.privacy.zcdp import rho_of_epsilon
from streamproc.study.releases import (
    EQUAL_SHARE,
    RELEASE_KINDS,
    REMOVED_CUMULATIVE_KEYS,
    Release,
    check_release_name,
    study_check,
)
from streamproc.study.schedule import Schedule, span_of
from streamproc.study.study import DELTA, Broker, Missing, Population, Privacy, Question, Study, canonical_question
from streamproc.validation import format_value

_OF_EVERY_RELEASE = ("name", "kind", "share")


def parse_study(text: str, source: str = "study file") -> Study:
    """The study that `text`, in TOML, describes. Raises StudyError, whose one-line message names the key.

    If the text is not TOML, the message names the `source` instead.
    """
    file = Table("", _toml(text, source))
    file.only(("study", "population", "privacy", "release", "question", "broker", "schedule"))
    head = file.table("study")
    head.only(("name", "alphabet", "horizon"))
    # Defaults below depend on these two, so they are checked first.
    name, alphabet = head.get("name"), head.words("alphabet")
    study_check.name(head.key("name"), name)
    study_check.alphabet(head.key("alphabet"), alphabet)
    return Study(
        name=name,
        alphabet=alphabet,
        horizon=head.get("horizon"),
        population=_population(file.table("population"), alphabet),
        privacy=_privacy(file.table("privacy")),
        releases=_releases(file.get("release")),
        broker=_broker(file.table("broker"), name),
        schedule=_schedule(file.table("schedule")) if "schedule" in file.items else None,
        questions=_questions(file.get("question", [])),
    )


_MOST_DOTS = 1_000
"""Maximum per line. Python's TOML parser is quadratic in the parts of a dotted key: minutes for a file of 100 kB."""


_PLACE = re.compile(r"\((at [a-z0-9 ,]+)\)$")
"""The place in Python's message about an invalid TOML text. The rest may quote the text, which may be a panel file."""


def _toml(text: str, source: str) -> dict[str, Any]:
    for number, line in enumerate(text.split("\n"), start=1):
        if line.count(".") > _MOST_DOTS:
            raise StudyError(source, f"more than {_MOST_DOTS} dots at line {number}", f"at most {_MOST_DOTS} in a line")
    try:
        return tomllib.loads(text, parse_float=Decimal)
    except tomllib.TOMLDecodeError as error:
        place = _PLACE.search(str(error))
        got = f"text that is not TOML {place[1]}" if place else "text that is not TOML"
        raise StudyError(source, got, "a file in TOML") from None
    except (ValueError, DecimalException, RecursionError):
        # TOML allows integers of over 4300 digits, huge exponents and deep nesting; Python does not.
        raise StudyError(source, "a number that is too long, or nesting that is too deep", "ordinary values") from None


def _population(table: Table, alphabet: tuple[str, ...]) -> Population:
    table.only(("size", "roster", "missing", "initial", "duplicates", "ahead", "open", "tenure", "sample", "absent_after"))
    return Population(
        size=table.get("size"),
        roster=table.get("roster"),
        missing=_missing(table.key("missing"), table.get("missing", "carry")),
        initial=table.get("initial", alphabet[0]),
        duplicates=table.get("duplicates", "first"),
        ahead=table.get("ahead", None),
        open=table.get("open", False),
        tenure=table.get("tenure", None),
        sample=table.real("sample"),
        absent_after=table.get("absent_after", None),
    )


def _missing(key: str, text: object) -> Missing:
    if text == "carry":
        return Missing()
    if isinstance(text, str) and text.startswith("fill:"):
        return Missing(fill=text.removeprefix("fill:"))
    raise StudyError(key, format_value(text), '"carry", "fill:SYMBOL"')


def _privacy(table: Table) -> Privacy:
    table.only(("rho", "epsilon", "delta", "adjacency"))
    adjacency = table.get("adjacency", Adjacency.REPLACE_ONE.value)
    study_check.choice(table.key("adjacency"), adjacency, [relation.value for relation in Adjacency], joiner=", ", quote='"')
    stated = Privacy(
        rho=table.real("rho"),
        epsilon=table.real("epsilon"),
        delta=table.real("delta", DELTA),
        adjacency=Adjacency(adjacency),
    )
    if stated.rho is not None:
        return replace(stated, limit=Rho(table.real_down("rho", stated.rho)))
    assert stated.epsilon is not None
    epsilon, delta = table.real_down("epsilon", stated.epsilon), table.real_down("delta", stated.delta)
    return replace(stated, limit=rho_of_epsilon(epsilon, delta))


def _releases(found: object) -> tuple[Release, ...]:
    if not (isinstance(found, list) and found and all(isinstance(items, dict) for items in found)):
        raise StudyError("release", format_value(found), "one or more tables, [[release]]")
    return tuple(_release(_release_table(items, place)) for place, items in enumerate(found, start=1))


def _release_table(items: dict[str, Any], place: int) -> Table:
    """The table of a release. Errors give the release's name, or its position in the file, from 1, if the name is wrong."""
    nameless = Table(f"release[{place}]", items)
    check_release_name(nameless.key("name"), nameless.get("name"))
    return Table(f"release.{items['name']}", items)


def _release(table: Table) -> Release:
    # Without a known kind, the keys of all kinds are allowed: a misspelt `kind` is then unknown, not missing.
    kind = table.get("kind")
    if not isinstance(kind, str) or kind not in RELEASE_KINDS:
        keys = dict.fromkeys(key for known in RELEASE_KINDS.values() for key in known.keys)
        table.only((*_OF_EVERY_RELEASE, *keys), hidden=REMOVED_CUMULATIVE_KEYS)
    study_check.choice(table.key("kind"), kind, RELEASE_KINDS, joiner=", ", quote='"')
    table.only((*_OF_EVERY_RELEASE, *RELEASE_KINDS[kind].keys), f" in a {kind} release", REMOVED_CUMULATIVE_KEYS)
    share = table.exact("share") if "share" in table.items else EQUAL_SHARE
    if "share" in table.items and share == EQUAL_SHARE:
        raise StudyError(table.key("share"), format_value(share), "a fraction above 0 and at most 1")
    return RELEASE_KINDS[kind].from_table(table, share)


def _questions(found: object) -> tuple[Question, ...]:
    if not (isinstance(found, list) and all(isinstance(items, dict) for items in found)):
        raise StudyError("question", format_value(found), "tables, [[question]]")
    return tuple(_question(Table(f"question[{place}]", items)) for place, items in enumerate(found, start=1))


def _question(table: Table) -> Question:
    table.only(("release", "ask"))
    release = table.get("release")
    # Checked here with the position in the file, which the constructor does not know.
    return Question(release, canonical_question(table.path, release, table.get("ask")))


def _broker(table: Table, study: str) -> Broker:
    table.only(("url", "partitions"))
    return Broker(url=table.get("url", f"embedded:{study}"), partitions=table.get("partitions", 4))


def _schedule(table: Table) -> Schedule:
    table.only(("start", "every", "grace", "release_after"))
    start, every = table.get("start"), table.get("every")
    release_after = table.get("release_after") if "release_after" in table.items else None
    if isinstance(start, datetime) and start.tzinfo is not None:
        try:
            start = start.astimezone(UTC)
        except OverflowError:
            raise StudyError(table.key("start"), start.isoformat(), "a time within the years 1 to 9999") from None
    return Schedule(
        start=start,
        every=every if every == "month" else span_of(table.key("every"), every),
        grace=span_of(table.key("grace"), table.get("grace", "0s")),
        release_after=None if release_after is None else span_of(table.key("release_after"), release_after),
    )


_BARE = re.compile(r"[A-Za-z0-9_-]{1,40}")
_MOST_DECIMALS = 30


@dataclass(frozen=True)
class Table:
    """One TOML table and its key in the file; "" is the file itself."""

    path: str
    items: dict[str, Any]

    def key(self, name: str) -> str:
        """The full key of an entry, on one line."""
        bare = name if _BARE.fullmatch(name) else format_value(name)
        return f"{self.path}.{bare}" if self.path else bare

    def only(self, allowed: Sequence[str], where: str = "", hidden: Sequence[str] = ()) -> None:
        """Raise StudyError for a key that is not `allowed`. The message suggests a similar key, but no `hidden` one."""
        shown = [name for name in allowed if name not in hidden]
        for name in self.items:
            if name not in allowed:
                near = get_close_matches(name, shown, n=1)
                hint = f'; did you mean "{near[0]}"?' if near else ""
                raise StudyError(self.key(name), "an unknown key", ", ".join(shown) + where + hint)

    def table(self, name: str) -> Table:
        """A sub-table; empty if it is left out, so that an error names the key that is missing in it."""
        value = self.items.get(name, {})
        if not isinstance(value, dict):
            raise StudyError(self.key(name), format_value(value), f"a table, [{name}]")
        return Table(self.key(name), value)

    def get(self, name: str, default: Any = None) -> Any:
        """The value as TOML has it. A missing required key gives None, which the constructors of the study refuse."""
        return self.items.get(name, default)

    def words(self, name: str) -> Any:
        """A list as a tuple; anything else unchanged, for the constructors of the study to refuse."""
        value = self.items.get(name)
        return tuple(value) if isinstance(value, list) else value

    def real(self, name: str, default: float | None = None) -> Any:
        """A number as a float; anything else, also a number beyond a float's range, unchanged, to be refused later."""
        value = self.items.get(name, default)
        if isinstance(value, Decimal):
            return float(value)
        if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() < 64:
            return float(value)
        return value

    def real_down(self, name: str, default: float) -> float:
        """The largest float not above the number, or `default` if it is left out. Call it after `real` has been accepted."""
        value = self.items.get(name, default)
        # Compared as decimals, because 1e-300000 as a fraction would have 300,000 digits.
        nearest = float(value)
        return math.nextafter(nearest, -math.inf) if isinstance(value, Decimal) and Decimal(nearest) > value else nearest

    def exact(self, name: str) -> Any:
        """A number as exactly the fraction that is written; anything else unchanged, to be refused later."""
        value = self.items.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return Fraction(value) if value.bit_length() < 64 else value
        if not (isinstance(value, Decimal) and value.is_finite()):
            return value
        # 1e-999999999 is a short text, but its fraction has a billion digits.
        places = value.as_tuple().exponent
        if not (isinstance(places, int) and abs(places) <= _MOST_DECIMALS):
            raise StudyError(self.key(name), format_value(value), f"at most {_MOST_DECIMALS} decimals")
        return Fraction(value)
