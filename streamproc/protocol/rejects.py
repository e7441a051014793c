"""Records of the rejects topic: the offset of a report that was not counted and the reason, but never its content."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from streamproc.errors import Malformed
from streamproc.protocol.codec import MAX_OFFSET, check_choice, check_partition, check_whole, pack, unpack
from streamproc.protocol.reports import MAX_BATCH


class Reason(StrEnum):
    """Why a report was not counted."""

    UNDECODABLE = "undecodable"
    """The record is not a report."""
    UNKNOWN_SYMBOL = "unknown-symbol"
    UNKNOWN_PERSON = "unknown-person"
    """The id is not on the roster; or, in a closed study without one, no report of this id claims period 1 below its cut."""
    PERIOD_OUT_OF_RANGE = "period-out-of-range"
    LATE = "late"
    """Its period was closed before the report was sent."""
    DUPLICATE = "duplicate"
    """Another report of the person for this period counts."""
    FOREIGN_PARTITION = "foreign-partition"
    """The report is not in its home partition: the producer does not use Java's default partitioner."""
    NOT_ADMITTED = "not-admitted"
    """The partition has the maximum number of people."""
    TOO_EARLY = "too-early"
    """Its period is further ahead of the last closed period than the study allows."""
    TENURE_OVER = "tenure-over"
    """The person of an open study has been present for as many periods as a person may be."""
    LEFT = "left"
    """The person of an open study has left after too many missing reports in a row, and nobody comes back."""
    NOT_SAMPLED = "not-sampled"
    """The id is outside of the share of ids that may enter the open study."""


@dataclass(frozen=True)
class Reject:
    """One record of the reports topic, of which one or more reports were not counted."""

    partition: int
    offset: int
    """Offset of the record in the reports topic."""
    reason: Reason
    """The most frequent reason. Of several equally frequent ones, the first in the order of `Reason`."""
    counts: tuple[tuple[Reason, int], ...] = ()
    """If several reports of the record were not counted: the number for each reason, in the order of `Reason`."""

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
        """The reject of a record, from the number of reports that were not counted for each reason."""
        ordered = tuple((reason, counts[reason]) for reason in Reason if reason in counts)
        return cls(partition, offset, _most_frequent(counts), ordered if sum(counts.values()) > 1 else ())

    @property
    def by_reason(self) -> dict[Reason, int]:
        """Number of the record's reports that were not counted, for each reason."""
        return dict(self.counts) or {self.reason: 1}

    @property
    def count(self) -> int:
        """Number of the record's reports that were not counted."""
        return sum(self.by_reason.values())

    def encode(self) -> bytes:
        """The record's value."""
        fields = {"partition": self.partition, "offset": self.offset, "reason": str(self.reason)}
        counts = {"counts": {str(reason): count for reason, count in self.counts}} if self.counts else {}
        return pack("reject", fields | counts)


def decode_reject(value: bytes | None) -> Reject:
    """Decode a record of the rejects topic. Raises Malformed."""
    fields = unpack(value, "reject")
    counts = fields.table("counts") if "counts" in fields else {}
    for reason in (fields["reason"], *counts):
        check_choice("reason", reason, list(Reason))
    ordered = tuple((reason, counts[reason]) for reason in Reason if reason in counts)
    return Reject(fields["partition"], fields["offset"], Reason(fields["reason"]), ordered)


def _most_frequent(counts: Mapping[Reason, int]) -> Reason:
    """The most frequent reason. Of several equally frequent ones, the first in the order of `Reason`."""
    return max(Reason, key=lambda reason: counts.get(reason, 0))
