"""One partition of a simulated topic: what Kafka keeps, with its transaction markers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from streamproc.testing.simulated.waiting import Changes


class Status(Enum):
    """How a transaction stands."""

    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"


@dataclass(eq=False)
class Transaction:
    """What one transactor of one epoch appends between `begin` and the end."""

    transactional_id: str
    epoch: int
    deadline: float
    status: Status = Status.OPEN
    touched: list[Partition] = field(default_factory=list)

    def mark(self, partition: Partition) -> None:
        """It has ended: a marker says so in this partition, once."""
        if partition.opened.pop(self, None) is not None:
            partition.append(None, None, self, marker=True)


@dataclass(frozen=True)
class Stored:
    """What stands at one offset."""

    offset: int
    key: bytes | None
    value: bytes | None
    transaction: Transaction | None = None
    marker: bool = False
    timestamp: int = 0
    arrived: float = 0.0
    """Seconds since 1970 by the broker's clock. Readers of a log are not told; tests are."""


@dataclass(eq=False)
class Partition:
    """Records in order; `start` is the offset of the first."""

    number: int = 0
    """No other partition of the broker has it, also of a topic that is gone."""
    start: int = 0
    stored: list[Stored] = field(default_factory=list)
    opened: dict[Transaction, int] = field(default_factory=dict)
    """Where each open transaction begins here."""
    changes: Changes = field(default_factory=Changes)
    """Whatever a reader may have to look at."""

    @property
    def end(self) -> int:
        """The high watermark."""
        return self.start + len(self.stored)

    @property
    def stable(self) -> int:
        """Where the oldest open transaction begins, or the end."""
        return min(self.opened.values(), default=self.end)

    def append(
        self,
        key: bytes | None,
        value: bytes | None,
        transaction: Transaction | None = None,
        *,
        marker: bool = False,
        timestamp: int = 0,
        arrived: float = 0.0,
    ) -> int:
        """Add one at the end; returns its offset."""
        offset = self.end
        self.stored.append(Stored(offset, key, value, transaction, marker, timestamp, arrived))
        if transaction is not None and not marker and transaction not in self.opened:
            self.opened[transaction] = offset
            transaction.touched.append(self)
        self.changes.wake()
        return offset

    def read(self, offset: int, count: int, *, committed: bool) -> tuple[Sequence[Stored], int]:
        """Up to `count` readable records from `offset` on, and the offset after what was looked at."""
        end = self.stable if committed else self.end
        found: list[Stored] = []
        while offset < end and len(found) < count:
            each = self.stored[offset - self.start]
            aborted = each.transaction is not None and each.transaction.status is Status.ABORTED
            if not each.marker and not (committed and aborted):
                found.append(each)
            offset += 1
        return found, offset

    def trim(self, before: int) -> None:
        """Forget what is below an offset, as retention does."""
        del self.stored[: max(0, before - self.start)]
        self.start = max(self.start, before)
        self.changes.wake()
