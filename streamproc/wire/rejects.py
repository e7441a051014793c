"""What became of a report that was not counted: where it lies and why, never what it said."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from streamproc.wire.checks import MAX_OFFSET, check_choice, check_partition, check_whole
from streamproc.wire.message import pack, unpack


class Reason(StrEnum):
    """Why a report was not counted."""

    UNDECODABLE = "undecodable"
    """The record is no report."""
    UNKNOWN_SYMBOL = "unknown-symbol"
    UNKNOWN_PERSON = "unknown-person"
    """Not on the roster; or, without one, no earlier report of this id claims period 1 below its cut."""
    PERIOD_OUT_OF_RANGE = "period-out-of-range"
    LATE = "late"
    """Its period was closed before it came."""
    DUPLICATE = "duplicate"
    """The person has another report for this period, which counts."""
    FOREIGN_PARTITION = "foreign-partition"
    """The person is at home elsewhere: the producer does not use Java's default partitioner."""
    NOT_ADMITTED = "not-admitted"
    """The partition has as many people as it may."""


@dataclass(frozen=True)
class Reject:
    """One report that was not counted."""

    partition: int
    offset: int
    """Of its record in the reports topic."""
    reason: Reason

    def __post_init__(self) -> None:
        check_partition(self.partition)
        check_whole("offset", self.offset, 0, MAX_OFFSET)
        check_choice("reason", self.reason, list(Reason))

    def encode(self) -> bytes:
        """The record's value."""
        return pack("reject", {"partition": self.partition, "offset": self.offset, "reason": str(self.reason)})


def decode_reject(value: bytes | None) -> Reject:
    """A record of the rejects topic."""
    fields = unpack(value, "reject")
    check_choice("reason", fields["reason"], list(Reason))
    return Reject(fields["partition"], fields["offset"], Reason(fields["reason"]))
