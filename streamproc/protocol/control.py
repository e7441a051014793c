"""What steers a study: the secret key of its hashes, and the cuts that close its periods."""

from __future__ import annotations

from dataclasses import dataclass, field

from streamproc.errors import Malformed
from streamproc.privacy.types import Period
from streamproc.protocol.codec import pack, unpack
from streamproc.protocol.field_checks import MAX_OFFSET, MAX_PARTITIONS, check_bytes, check_period, check_whole

KEY_BYTES = 32


@dataclass(frozen=True)
class Key:
    """The study's secret, with which ids are hashed: the first record of the control topic."""

    key: bytes = field(repr=False)

    def __post_init__(self) -> None:
        check_bytes("key", self.key, KEY_BYTES)

    def encode(self) -> bytes:
        """The record's value."""
        return pack("key", {"key": self.key})


@dataclass(frozen=True)
class Cut:
    """Closes a period: a report belongs to it if it claims it and lies below its partition's end."""

    period: Period
    ends: tuple[int, ...] = field(repr=False)
    """For each partition of the reports topic, the offset at which the period ends. Secret: offsets are counts."""

    def __post_init__(self) -> None:
        check_period(self.period)
        if not 1 <= len(self.ends) <= MAX_PARTITIONS:
            raise Malformed(f"ends: expected 1 to {MAX_PARTITIONS} offsets")
        for end in self.ends:
            check_whole("ends", end, 0, MAX_OFFSET)

    def encode(self) -> bytes:
        """The record's value."""
        return pack("cut", {"period": self.period, "ends": list(self.ends)})


def decode_control(value: bytes | None) -> Key | Cut:
    """A record of the control topic."""
    fields = unpack(value, "key", "cut")
    if fields["type"] == "key":
        return Key(fields["key"])
    return Cut(fields["period"], fields.sequence("ends"))


class CutSequence:
    """The valid cuts of a study, in order.

    The first cut of a period counts. One that is not of the next period, lacks a partition, or ends a period before the one
    before it ended, is ignored.
    """

    def __init__(self, partitions: int, horizon: int) -> None:
        self._partitions = partitions
        self._horizon = horizon
        self._cuts: list[Cut] = []

    @property
    def period(self) -> Period:
        """The last period closed."""
        return Period(len(self._cuts))

    @property
    def cuts(self) -> tuple[Cut, ...]:
        """All of them, of periods 1, 2, ..."""
        return tuple(self._cuts)

    def offer(self, cut: Cut) -> bool:
        """Take the cut if it counts; whether it does."""
        before = self._cuts[-1].ends if self._cuts else (0,) * self._partitions
        counts = (
            cut.period == self.period + 1
            and cut.period <= self._horizon
            and len(cut.ends) == self._partitions
            and all(end >= start for start, end in zip(before, cut.ends, strict=True))
        )
        if counts:
            self._cuts.append(cut)
        return counts
