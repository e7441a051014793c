"""Which part of which study a gatherer works on, and whose reports count there."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from streamproc.study import Study
from streamproc.wire.partitioner import home_partition


@dataclass(frozen=True)
class Place:
    """Which part of which study a gatherer works on."""

    study: Study
    partition: int
    key: bytes
    """The study's secret key for hashing ids."""
    roster: Sequence[str] | None = None
    """All ids of the study, if it has a roster; only those at home here matter."""

    @property
    def partitions(self) -> int:
        """`P`, fixed for the study."""
        return self.study.broker.partitions

    @property
    def key_mark(self) -> bytes:
        """Tells this key from others, and nothing about it."""
        return hashlib.blake2b(self.study.name.encode(), key=self.key, digest_size=16, person=b"key mark").digest()

    def is_home(self, individual: str) -> bool:
        """Whether this is the one partition where this id's reports count."""
        return home_partition(individual, self.partitions) == self.partition
