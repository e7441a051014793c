"""What a measurement says."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Result:
    """One number, and the most or the least it may be."""

    name: str
    value: float
    unit: str
    limit: float | None = None
    """In the same unit; None if the number is for information."""
    at_least: bool = False
    """Whether more is better, so that the limit is the least it may be."""
    ratio_of: str | None = None
    """What `value` is a multiple of, if it is a ratio."""

    @property
    def within(self) -> bool | None:
        """Whether the limit is kept; None without one."""
        if self.limit is None:
            return None
        return self.value >= self.limit if self.at_least else self.value <= self.limit

    def document(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self) | {"within": self.within}
