"""What became of a report that was not counted: where it lies and why, never what it said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from streamproc.errors import Malformed
from streamproc.protocol.codec import pack, unpack
from streamproc.protocol.field_checks import MAX_OFFSET, check_choice, check_partition, check_whole
from streamproc.protocol.reports import MAX_BATCH


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
    TOO_EARLY = "too-early"
    """Its period is further ahead of the last one closed before it than the study allows."""


@dataclass(frozen=True)
class Reject:
    """One record of which a report was not counted, or several."""

    partition: int
    offset: int
    """Of the record in the reports topic."""
    reason: Reason
    """Of most of its reports that were not counted; of several such reasons the one that stands first in `Reason`."""
    counts: tuple[tuple[Reason, int], ...] = ()
    """If several reports of the record were not counted: how many for each reason, in the order of `Reason`."""

    def __post_init__(self) -> None:
        check_partition(self.partition)
        check_whole("offset", self.offset, 0, MAX_OFFSET)
        check_choice("reason", self.reason, list(Reason))
        for reason, count in self.counts:
            check_choice("counts", reason, list(Reason))
            check_whole("counts", count, 1, MAX_BATCH)
        if self.counts and (self.count < 2 or self.reason != _most_frequent(self.by_reason)):
            raise Malformed("counts: expected 2 reports or more, most of them with the given reason")

    @classmethod
    def of(cls, partition: int, offset: int, counts: Mapping[Reason, int]) -> Reject:
        """The reject of a record of which so many reports were not counted for each reason."""
        ordered = tuple((reason, counts[reason]) for reason in Reason if reason in counts)
        return cls(partition, offset, _most_frequent(counts), ordered if sum(counts.values()) > 1 else ())

    @property
    def by_reason(self) -> dict[Reason, int]:
        """How many of the record's reports were not counted for each reason."""
        return dict(self.counts) or {self.reason: 1}

    @property
    def count(self) -> int:
        """How many of the record's reports were not counted."""
        return sum(self.by_reason.values())

    def encode(self) -> bytes:
        """The record's value."""
        fields = {"partition": self.partition, "offset": self.offset, "reason": str(self.reason)}
        counts = {"counts": {str(reason): count for reason, count in self.counts}} if self.counts else {}
        return pack("reject", fields | counts)


def decode_reject(value: bytes | None) -> Reject:
    """A record of the rejects topic."""
    fields = unpack(value, "reject")
    counts = fields.table("counts") if "counts" in fields else {}
    for reason in (fields["reason"], *counts):
        check_choice("reason", reason, list(Reason))
    ordered = tuple((reason, counts[reason]) for reason in Reason if reason in counts)
    return Reject(fields["partition"], fields["offset"], Reason(fields["reason"]), ordered)


def _most_frequent(counts: Mapping[Reason, int]) -> Reason:
    """Of several such reasons the one that stands first."""
    return max(Reason, key=lambda reason: counts.get(reason, 0))
