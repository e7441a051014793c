"""A table of a study file: which keys it may have, and how its values become plain Python values."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from difflib import get_close_matches
from fractions import Fraction
from typing import Any

from streamproc.errors import StudyError
from streamproc.study.checks import shown

_BARE = re.compile(r"[A-Za-z0-9_-]{1,40}")
_MOST_DECIMALS = 30


@dataclass(frozen=True)
class Table:
    """One TOML table and the key under which a steward finds it; "" is the file itself."""

    path: str
    items: dict[str, Any]

    def key(self, name: str) -> str:
        """The full key of an entry, on one line."""
        bare = name if _BARE.fullmatch(name) else shown(name)
        return f"{self.path}.{bare}" if self.path else bare

    def only(self, allowed: Sequence[str], where: str = "") -> None:
        """Refuse a key that is not `allowed`, and suggest the one that was meant."""
        for name in self.items:
            if name not in allowed:
                near = get_close_matches(name, allowed, n=1)
                hint = f'; did you mean "{near[0]}"?' if near else ""
                raise StudyError(self.key(name), "an unknown key", ", ".join(allowed) + where + hint)

    def table(self, name: str) -> Table:
        """A sub-table; empty if it is left out, so that what is missing in it is named."""
        value = self.items.get(name, {})
        if not isinstance(value, dict):
            raise StudyError(self.key(name), shown(value), f"a table, [{name}]")
        return Table(self.key(name), value)

    def get(self, name: str, default: Any = None) -> Any:
        """The value as TOML has it. A required key that is missing gives None, which the study's values refuse."""
        return self.items.get(name, default)

    def words(self, name: str) -> Any:
        """A list as a tuple; anything else as it is, for the study's values to refuse."""
        value = self.items.get(name)
        return tuple(value) if isinstance(value, list) else value

    def real(self, name: str, default: float | None = None) -> Any:
        """A number as a float; anything else, also what no float holds, as it is, to be refused."""
        value = self.items.get(name, default)
        if isinstance(value, Decimal):
            return float(value)
        if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() < 64:
            return float(value)
        return value

    def real_down(self, name: str, default: float) -> float:
        """The largest float that is not above the number, once `real` has been accepted; `default` if it is left out."""
        value = self.items.get(name, default)
        # Compared as decimals: the fraction of 1e-300000 would have as many digits.
        nearest = float(value)
        return math.nextafter(nearest, -math.inf) if isinstance(value, Decimal) and Decimal(nearest) > value else nearest

    def exact(self, name: str) -> Any:
        """A number as the exact fraction that is written; anything else as it is, to be refused."""
        value = self.items.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return Fraction(value) if value.bit_length() < 64 else value
        if not (isinstance(value, Decimal) and value.is_finite()):
            return value
        # 1e-999999999 is a short text and a fraction of a billion digits.
        places = value.as_tuple().exponent
        if not (isinstance(places, int) and abs(places) <= _MOST_DECIMALS):
            raise StudyError(self.key(name), shown(value), f"at most {_MOST_DECIMALS} decimals")
        return Fraction(value)
