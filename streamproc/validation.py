"""What every value of a study is checked with: one line per mistake, naming the key, what came and what is allowed."""

from __future__ import annotations

import re
from collections.abc import Collection
from decimal import Decimal
from fractions import Fraction

from streamproc.errors import StudyError

MAX_NAME = 100
"""Characters: `<study>.synthetic.<release>` then stays below Kafka's 249 for a topic."""

MAX_SYMBOLS = 64
MAX_SYMBOL = 64
"""Characters of one symbol."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*")
_WIDEST = 60


def format_value(value: object) -> str:
    """`value` as a steward wrote it, on one line of at most 60 characters."""
    text = _text(value)
    return text if len(text) <= _WIDEST else text[: _WIDEST - 3] + "..."


def _text(value: object) -> str:
    if value is None:
        return "nothing"
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
        # Not those inside: a file may nest them deeper than Python's stack.
        inside = ("a list" if isinstance(item, list | tuple) else format_value(item) for item in value[:_WIDEST])
        return "[" + ", ".join(inside) + "]"
    return repr(value)


def check_name(key: str, value: object) -> None:
    """A name is part of topics and of file names."""
    if not (isinstance(value, str) and len(value) <= MAX_NAME and _NAME.fullmatch(value)):
        allowed = f"1 to {MAX_NAME} letters, digits and '-', not beginning with '-'"
        raise StudyError(key, format_value(value), allowed)


def check_symbol(key: str, value: object) -> None:
    """A symbol is a cell of a CSV file and a part of a bin label, where `|` separates symbols."""
    if not (
        isinstance(value, str)
        and 1 <= len(value) <= MAX_SYMBOL
        and value.isprintable()
        and "|" not in value
        and value == value.strip()
    ):
        allowed = f"symbols of 1 to {MAX_SYMBOL} printable characters, without '|' and without spaces at the ends"
        raise StudyError(key, format_value(value), allowed)


def check_alphabet(key: str, value: object) -> None:
    """An alphabet is a tuple of 2 to 64 different symbols."""
    if not (isinstance(value, tuple) and 2 <= len(value) <= MAX_SYMBOLS):
        raise StudyError(key, format_value(value), f"a list of 2 to {MAX_SYMBOLS} different symbols")
    for symbol in value:
        check_symbol(key, symbol)
    check_no_repeat(key, value)


def check_no_repeat(key: str, value: tuple[str, ...]) -> None:
    """Each symbol comes once."""
    for place, symbol in enumerate(value):
        if symbol in value[:place]:
            raise StudyError(key, f"{format_value(symbol)} twice", "every symbol once")


def is_path(value: object) -> bool:
    """Whether this can name a file or a folder."""
    return isinstance(value, str) and value != "" and value.isprintable()


def check_path(key: str, value: object) -> None:
    """The name of a file."""
    if not is_path(value):
        raise StudyError(key, format_value(value), "the name of a file, in printable characters")


def check_whole(key: str, value: object, low: int, high: int, why: str = "") -> None:
    """An integer (`true` is none) within `low..high`."""
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise StudyError(key, format_value(value), f"a whole number from {low} to {high}{why}")


def check_positive(key: str, value: object, limit: float, *, below: bool = False) -> None:
    """A number above 0 and at most `limit`, or below it; NaN is neither."""
    number = value if isinstance(value, int | float) and not isinstance(value, bool) else 0
    if not 0 < number <= limit or (below and number == limit):
        raise StudyError(key, format_value(value), f"a number above 0 and {'below' if below else 'at most'} {limit}")


def check_choice(key: str, value: object, allowed: Collection[str]) -> None:
    """One of a few words."""
    if not (isinstance(value, str) and value in allowed):
        raise StudyError(key, format_value(value), ", ".join(f'"{word}"' for word in allowed))


def check_in_alphabet(key: str, value: str, alphabet: tuple[str, ...]) -> None:
    """A symbol of this study."""
    if value not in alphabet:
        raise StudyError(key, format_value(value), f"a symbol of the alphabet {format_value(alphabet)}")
