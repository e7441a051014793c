"""The one check of a contract that was read: from a topic, a state file, or a file's metadata.

Every field is checked before anything is computed from it, because a huge horizon would be a huge matrix.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from typing import Any, get_args

from streamproc.errors import StudyError
from streamproc.privacy.adjacency import Adjacency
from streamproc.privacy.counters import CounterName
from streamproc.privacy.window import Measure
from streamproc.releases.contract import MAX_ROWS, ONES, Contract, contract_from_dict, max_rows
from streamproc.study.releases import MAX_HORIZON
from streamproc.study.study import MAX_BINS, MAX_CUMULATIVE_HORIZON, MAX_RHO
from streamproc.validation import check_alphabet, check_name

Refuse = Callable[[str, object, str], Exception]
"""The error for a field, given its name, what came and what was expected."""

_KINDS = ("window", "cumulative")


def contract_from_fields(values: Mapping[str, Any], refuse: Refuse) -> Contract:
    """The contract whose `contract_to_dict` these are; further fields are ignored.

    Raises what `refuse` makes of the first field that is wrong, and what `values` raises for one that is missing.
    """
    check = _Check(values, refuse)
    check.choice("kind", _KINDS)
    window = values["kind"] == "window"
    check.named("release", check_name, "letters, digits and '-'")
    alphabet = check.sequence("alphabet")
    check.named("alphabet", check_alphabet, "2 to 64 different symbols", alphabet)
    # A study of nobody is refused before its first period, so no contract has n = 0.
    check.whole("n", 1, MAX_ROWS)
    check.real("rho", MAX_RHO)
    check.choice("adjacency", [adjacency.value for adjacency in Adjacency])
    check.whole("horizon", 1, MAX_HORIZON if window else MAX_CUMULATIVE_HORIZON)
    check.holds("insecure", type(values["insecure"]) is bool, "true or false")
    plain = {**values, "alphabet": alphabet}
    if window:
        _check_window(check, len(alphabet))
    else:
        check.holds("alphabet", alphabet == ONES, "0 and 1")
        plain |= _checked_lists(check)
    try:
        return contract_from_dict(plain)
    except ValueError:
        pass
    raise refuse("contract", "values that do not fit together", "one that can be kept")


def _check_window(check: _Check, q: int) -> None:
    values = check.values
    check.choice("measure", get_args(Measure))
    check.whole("k", 1, min(values["horizon"], MAX_BINS.bit_length()))
    bins = q ** values["k"]
    check.holds("k", bins <= MAX_BINS, f"at most {MAX_BINS} windows")
    check.whole("n_pad", 0, MAX_ROWS)
    rows = values["n"] + bins * values["n_pad"]
    check.holds("n_pad", rows <= max_rows(bins), f"padding for at most {max_rows(bins)} synthetic people")
    check.real("sigma_first")
    check.real("sigma_later")


def _checked_lists(check: _Check) -> dict[str, tuple[Any, ...]]:
    check.choice("counter", get_args(CounterName))
    event, sigmas = check.sequence("event"), check.sequence("sigmas")
    check.holds("event", bool(event) and all(isinstance(symbol, str) for symbol in event), "a list of symbols")
    check.holds("sigmas", len(sigmas) == check.values["horizon"], "one for each period")
    for sigma in sigmas:
        check.real("sigmas", value=sigma)
    return {"event": event, "sigmas": sigmas}


class _Check:
    def __init__(self, values: Mapping[str, Any], refuse: Refuse) -> None:
        self.values = values
        self._refuse = refuse

    def holds(self, field: str, holds: bool, expected: str) -> None:
        if not holds:
            raise self._refuse(field, self.values[field], expected)

    def whole(self, field: str, low: int, high: int) -> None:
        value = self.values[field]
        self.holds(field, type(value) is int and low <= value <= high, f"a whole number from {low} to {high}")

    def real(self, field: str, most: float = math.inf, *, value: object = None) -> None:
        number = self.values[field] if value is None else value
        expected = "a finite number above 0" + (f" and at most {most}" if math.isfinite(most) else "")
        self.holds(field, type(number) is float and math.isfinite(number) and 0 < number <= most, expected)

    def choice(self, field: str, allowed: Collection[str]) -> None:
        value = self.values[field]
        self.holds(field, isinstance(value, str) and value in allowed, " or ".join(allowed))

    def sequence(self, field: str) -> tuple[Any, ...]:
        value = self.values[field]
        self.holds(field, isinstance(value, list | tuple), "a list")
        return tuple(value)

    def named(self, field: str, check: Callable[[str, object], None], expected: str, value: object = None) -> None:
        """By a check of the study's own values."""
        try:
            check(field, self.values[field] if value is None else value)
        except StudyError:
            pass
        else:
            return
        raise self._refuse(field, self.values[field], expected)
