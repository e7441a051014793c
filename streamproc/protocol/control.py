"""Records of the control topic: the secret key of a study, and the cuts that close its periods."""

from __future__ import annotations

from dataclasses import dataclass, field

from streamproc.errors import Malformed
from streamproc.privacy.types import Period
from streamproc.protocol.codec import (
    MAX_OFFSET,
    MAX_PARTITIONS,
    check_bytes,
    check_flag,
    check_period,
    check_whole,
    pack,
    unpack,
)

KEY_BYTES = 32


@dataclass(frozen=True)
class Key:
    """The study's secret key, with which ids are hashed. It is the first record of the control topic."""

    key: bytes = field(repr=False)

    def __post_init__(self) -> None:
        check_bytes("key", self.key, KEY_BYTES)

    def encode(self) -> bytes:
        """The record's value."""
        return pack("key", {"key": self.key})


@dataclass(frozen=True)
class Cut:
    """Closes a period. A report belongs to the period if it claims it and lies below the end of its partition."""

    period: Period
    ends: tuple[int, ...] = field(repr=False)
    """The offset at which the period ends, for each partition of the reports topic. Secret, because offsets are counts."""
    last: bool = False
    """Whether an open study ends with this period."""

    def __post_init__(self) -> None:
        check_period(self.period)
        check_flag("last", self.last)
        if not 1 <= len(self.ends) <= MAX_PARTITIONS:
            raise Malformed(f"ends: expected 1 to {MAX_PARTITIONS} offsets")
        for end in self.ends:
            check_whole("ends", end, 0, MAX_OFFSET)

    def encode(self) -> bytes:
        """The record's value."""
        return pack("cut", {"period": self.period, "ends": list(self.ends)} | ({"last": True} if self.last else {}))


def decode_control(value: bytes | None) -> Key | Cut:
    """Decode a record of the control topic. Raises Malformed."""
    fields = unpack(value, "key", "cut")
    if fields["type"] == "key":
        return Key(fields["key"])
    return Cut(fields["period"], fields.sequence("ends"), fields.get("last", False))


class CutSequence:
    """The valid cuts of a study, in order.

    The first valid cut of a period is accepted. A cut is ignored if it is not of the next period, has another number of
    partitions, has an offset below that of the previous cut, follows a last cut, or says that a closed study ends with it.
    """

    def __init__(self, partitions: int, horizon: int, *, is_open: bool = False) -> None:
        """`horizon` is the last period that the study can have; an open study may end before with a last cut."""
        self._partitions = partitions
        self._horizon = horizon
        self._is_open = is_open
        self._cuts: list[Cut] = []

    @property
    def period(self) -> Period:
        """The last closed period."""
        return Period(len(self._cuts))

    @property
    def is_over(self) -> bool:
        """Whether the last period of the study is closed."""
        return bool(self._cuts) and (self._cuts[-1].last or self.period == self._horizon)

    @property
    def cuts(self) -> tuple[Cut, ...]:
        """The accepted cuts of periods 1, 2, ..."""
        return tuple(self._cuts)

    def offer(self, cut: Cut) -> bool:
        """Accept a cut if it is valid. Returns whether it was accepted."""
        before = self._cuts[-1].ends if self._cuts else (0,) * self._partitions
        accepted = (
            cut.period == self.period + 1
            and not self.is_over
            and (self._is_open or not cut.last)
            and len(cut.ends) == self._partitions
            and all(end >= start for start, end in zip(before, cut.ends, strict=True))
        )
        if accepted:
            self._cuts.append(cut)
        return accepted
