"""The noisy integers behind the columns: they are paid for, so they are public, in chunks in the ledger."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from streamproc.privacy.quantities import IntArray, Period
from streamproc.wire.checks import check_part, check_period, check_release
from streamproc.wire.message import Fields, pack, packed_integers

CHUNK_MEASUREMENTS = 32_768
MAX_MEASUREMENTS = 2**22
"""Of one period of one release: well above `q^k` and above what any counter measures at once."""


@dataclass(frozen=True, eq=False)
class MeasurementChunk:
    """Noisy integers `first, first+1, ...` of the `total` that one release measured in one period."""

    release: str
    period: Period
    first: int
    total: int
    data: IntArray = field(repr=False)

    def __post_init__(self) -> None:
        check_release(self.release)
        check_period(self.period)
        check_part(self.first, self.total, self.data, "data", longest=CHUNK_MEASUREMENTS, most=MAX_MEASUREMENTS)

    def encode(self) -> bytes:
        """The record's value."""
        place = {"release": self.release, "period": self.period, "first": self.first, "total": self.total}
        return pack("measurement", place | {"data": packed_integers(self.data)})


def decode_measurement(fields: Fields) -> MeasurementChunk:
    """The chunk in a message's fields."""
    place = (fields["release"], fields["period"], fields["first"], fields["total"])
    return MeasurementChunk(*place, fields.integers("data"))


def measurement_chunks(release: str, period: Period, measurements: Sequence[IntArray]) -> list[MeasurementChunk]:
    """What a release measured in one period, one array after the other; none if it measured nothing."""
    flat = _flat(measurements)
    return [
        MeasurementChunk(release, period, first, len(flat), flat[first : first + CHUNK_MEASUREMENTS])
        for first in range(0, len(flat), CHUNK_MEASUREMENTS)
    ]


def measurements_digest(measurements: Sequence[IntArray]) -> bytes:
    """SHA-256 of all of them as 64-bit integers, big-endian."""
    return hashlib.sha256(packed_integers(_flat(measurements))).digest()


def _flat(measurements: Sequence[IntArray]) -> IntArray:
    return np.concatenate([np.zeros(0, dtype=np.int64), *measurements])
