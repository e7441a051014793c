"""What steers a study: the secret key of its hashes, and the cuts that close its periods."""

from __future__ import annotations

from dataclasses import dataclass, field

from streamproc.privacy.quantities import Period
from streamproc.wire.checks import MAX_OFFSET, MAX_PARTITIONS, check_bytes, check_period, check_whole
from streamproc.wire.malformed import Malformed
from streamproc.wire.message import pack, unpack

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
