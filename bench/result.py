"""What a measurement says."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Result:
    """One number, and the most it may be."""

    name: str
    value: float
    unit: str
    limit: float | None = None
    """In the same unit; None if the number is for information."""
    ratio_of: str | None = None
    """What `value` is a multiple of, if it is a ratio."""

    @property
    def within(self) -> bool | None:
        """Whether the limit is kept; None without one."""
        return None if self.limit is None else self.value <= self.limit

    def document(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self) | {"within": self.within}
