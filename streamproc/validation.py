"""Checks for values from outside: study files, fields of messages, arguments of queries.

A `Validator` is made with a function that builds the error, so that each caller raises its own class with its own wording:
`StudyError` names the key of a study file, `Malformed` names the field of a message and never its content, and
`UnsupportedQuery` names the argument of a query. Every check has the form `check(key, value, ...)`. It returns the value, or
raises the error for `key`, the value and a phrase that says what is expected.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeAlias, cast

import numpy as np

Refuse: TypeAlias = Callable[[str, object, str], Exception]
"""Builds the error for a key, a value, and a phrase that says what is expected."""

MAX_NAME = 100
"""Maximum characters of a name, so that `<study>.synthetic.<release>` is below Kafka's limit of 249 for a topic."""

MAX_SYMBOLS = 64
MAX_SYMBOL = 64
"""Maximum characters of one symbol."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*")
_MAX_SHOWN = 60


class Validator:
    """Checks values and raises the error that `refuse` builds.

    The error is built and raised outside of `except` blocks, because a chained error of a library could carry content.
    """

    def __init__(self, refuse: Refuse) -> None:
        self._refuse = refuse

    def require(self, key: str, value: object, holds: bool, expected: str) -> None:
        """Raise the error unless `holds`."""
        if not holds:
            raise self._refuse(key, value, expected)

    def whole(self, key: str, value: object, low: int, high: int, why: str = "") -> int:
        """An `int` within `low..high`; `True` is not accepted. `why` is added to the phrase that says what is expected."""
        holds = isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
        self.require(key, value, holds, f"a whole number from {low} to {high}{why}")
        return cast(int, value)

    def positive(self, key: str, value: object, limit: float, *, below: bool = False) -> None:
        """A number above 0 and at most `limit`, or less than it if `below`; NaN is refused."""
        number = value if isinstance(value, int | float) and not isinstance(value, bool) else 0
        holds = 0 < number <= limit and not (below and number == limit)
        self.require(key, value, holds, f"a number above 0 and {'below' if below else 'at most'} {limit}")

    def positive_float(self, key: str, value: object, limit: float = math.inf) -> None:
        """A finite `float` above 0 and at most `limit`."""
        expected = "a finite number above 0" + (f" and at most {limit}" if math.isfinite(limit) else "")
        self.require(key, value, type(value) is float and math.isfinite(value) and 0 < value <= limit, expected)

    def non_negative_float(self, key: str, value: object) -> None:
        """A finite `float` of at least 0."""
        holds = type(value) is float and math.isfinite(value) and value >= 0
        self.require(key, value, holds, "a finite number of at least 0")

    def flag(self, key: str, value: object) -> None:
        """`True` or `False`."""
        self.require(key, value, type(value) is bool, "true or false")

    def fixed_bytes(self, key: str, value: object, size: int) -> None:
        """`bytes` of exactly this size."""
        self.require(key, value, type(value) is bytes and len(value) == size, f"{size} bytes")

    def choice(self, key: str, value: object, allowed: Collection[str], *, joiner: str = " or ", quote: str = "") -> None:
        """One of a few words."""
        expected = joiner.join(f"{quote}{word}{quote}" for word in allowed)
        self.require(key, value, isinstance(value, str) and value in allowed, expected)

    def sequence(self, key: str, value: object) -> tuple[Any, ...]:
        """A list or a tuple, as a tuple."""
        self.require(key, value, isinstance(value, list | tuple), "a list")
        return tuple(cast(Any, value))

    def name(self, key: str, value: object, expected: str | None = None) -> None:
        """A name that can be part of topics and of file names."""
        allowed = f"1 to {MAX_NAME} letters, digits and '-', not beginning with '-'"
        holds = isinstance(value, str) and len(value) <= MAX_NAME and _NAME.fullmatch(value) is not None
        self.require(key, value, holds, expected or allowed)

    def symbol(self, key: str, value: object) -> None:
        """A symbol. It can be a cell of a CSV file and a part of a bin label, in which `|` separates symbols."""
        allowed = f"symbols of 1 to {MAX_SYMBOL} printable characters, without '|' and without spaces at the ends"
        self.require(key, value, _is_symbol(value), allowed)

    def alphabet(self, key: str, value: object) -> None:
        """A tuple of 2 to 64 different symbols."""
        holds = isinstance(value, tuple) and 2 <= len(value) <= MAX_SYMBOLS
        self.require(key, value, holds, f"a list of 2 to {MAX_SYMBOLS} different symbols")
        for symbol in cast(tuple[object, ...], value):
            self.symbol(key, symbol)
        self.no_repeat(key, cast(tuple[str, ...], value))

    def no_repeat(self, key: str, value: tuple[str, ...]) -> None:
        """A tuple in which every symbol occurs once."""
        for place, symbol in enumerate(value):
            self.require(key, _Repeated(symbol), symbol not in value[:place], "every symbol once")

    def in_alphabet(self, key: str, value: str, alphabet: tuple[str, ...]) -> None:
        """A symbol of this alphabet."""
        self.require(key, value, value in alphabet, f"a symbol of the alphabet {format_value(alphabet)}")

    def path(self, key: str, value: object) -> None:
        """The name of a file."""
        self.require(key, value, is_path(value), "the name of a file, in printable characters")


class _Repeated:
    """A symbol that occurs twice, for the message of an error."""

    def __init__(self, symbol: str) -> None:
        self.symbol = symbol


def _is_symbol(value: object) -> bool:
    return (
        isinstance(value, str)
        and 1 <= len(value) <= MAX_SYMBOL
        and value.isprintable()
        and "|" not in value
        and value == value.strip()
    )


def is_alphabet(value: tuple[object, ...]) -> bool:
    """Whether this is a tuple of 2 to 64 different symbols."""
    return 2 <= len(value) <= MAX_SYMBOLS and all(map(_is_symbol, value)) and len(set(value)) == len(value)


def is_path(value: object) -> bool:
    """Whether this can name a file or a folder."""
    return isinstance(value, str) and value != "" and value.isprintable()


def format_value(value: object) -> str:
    """`value` as a study file writes it, on one line of at most 60 characters."""
    text = _text(value)
    return text if len(text) <= _MAX_SHOWN else text[: _MAX_SHOWN - 3] + "..."


def describe_value(value: object) -> str:
    """`value` on one line: a number or a string as it is written, anything else by its type, because it may be long."""
    if value is None or isinstance(value, int | float | str | np.generic):
        return format_value(value)
    return f"a value of type {type(value).__name__}"


def _text(value: object) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, _Repeated):
        return f"{format_value(value.symbol)} twice"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and value.bit_length() > 128:
        # Python refuses to print an integer of more than 4300 digits.
        return f"an integer of {value.bit_length()} bits"
    if isinstance(value, Fraction):
        return str(float(value))
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list | tuple):
        # Lists inside a list are not shown: a file may nest them deeper than Python's stack.
        inside = ("a list" if isinstance(item, list | tuple) else format_value(item) for item in value[:_MAX_SHOWN])
        return "[" + ", ".join(inside) + "]"
    return repr(value)
