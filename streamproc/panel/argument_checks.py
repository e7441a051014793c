"""What every argument of a question is checked with: one line per mistake, saying what came and what is allowed."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from streamproc.errors import UnsupportedQuery
from streamproc.validation import format_value


def describe_value(value: object) -> str:
    """`value` on one line: a number or a text as it is written, anything else by its type, since its text may take many."""
    if value is None or isinstance(value, int | float | str | np.generic):
        return format_value(value)
    return f"a value of type {type(value).__name__}"


def check_is(what: str, value: object, kinds: type | tuple[type, ...], allowed: str) -> None:
    """A value of one of these types."""
    if not isinstance(value, kinds):
        raise UnsupportedQuery(f"{what} is {allowed}, got {describe_value(value)}")


def check_function(what: str, value: object) -> None:
    """Something that can be called."""
    if not callable(value):
        raise UnsupportedQuery(f"{what} is a function, got {describe_value(value)}")


def integer(what: str, value: object) -> int:
    """An integer of Python's or NumPy's (`True` is none), as Python's: NumPy's wrap around or overflow."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool):
        raise UnsupportedQuery(f"{what} is a whole number, got {describe_value(value)}")
    return int(value)


def whole(what: str, value: object, low: int, high: int) -> int:
    """An integer within `low..high`."""
    number = integer(what, value)
    if not low <= number <= high:
        raise UnsupportedQuery(f"{what} is a whole number from {low} to {high}, got {describe_value(number)}")
    return number


def chance(what: str, value: object) -> float:
    """A number above 0 and below 1, as a float too; NaN is neither."""
    # Compared before it is converted too: a fraction may be beyond a float's range.
    number = float(value) if isinstance(value, float | np.floating | Fraction) and 0 < value < 1 else 0.0
    if not 0 < number < 1:
        raise UnsupportedQuery(f"{what} lies between 0 and 1, got {describe_value(value)}")
    return number


def check_line(what: str, value: object) -> None:
    """A text that can stand in an answer and in an error."""
    if not (isinstance(value, str) and value.isprintable()):
        raise UnsupportedQuery(f"{what} is one line of text, got {describe_value(value)}")


def text_symbols(what: str, values: Any) -> frozenset[str]:
    """The symbols in any iterable of them."""
    try:
        return frozenset(_symbol(what, value) for value in values)
    except TypeError:
        raise UnsupportedQuery(f"{what}: expected a list of symbols, got {describe_value(values)}") from None


def _symbol(what: str, value: object) -> str:
    if not (isinstance(value, str) and value.isprintable()):
        raise UnsupportedQuery(f"{what}: symbols are text, as in the study's alphabet, got {describe_value(value)}")
    return value
