"""Checks of the fields of messages. They run when a message is created, and so also when it is decoded."""

from __future__ import annotations

import math
from collections.abc import Collection

import numpy as np

from streamproc.errors import Malformed, StudyError
from streamproc.privacy.types import IntArray
from streamproc.study.releases import MAX_HORIZON
from streamproc.validation import check_name as check_study_name

MAX_PARTITIONS = 1_024
MAX_RELEASES = 1_024
MAX_OFFSET = 2**63 - 1
MAX_PEOPLE = 2**31 - 1
DIGEST_BYTES = 32


def check_whole(field: str, value: object, low: int, high: int) -> None:
    """Raise Malformed unless the value is an integer from `low` to `high`. A bool is not an integer."""
    if type(value) is not int or not low <= value <= high:
        raise Malformed(f"{field}: expected a whole number from {low} to {high}")


def check_period(value: object) -> None:
    """Raise Malformed unless the value can be a period of a study."""
    check_whole("period", value, 1, MAX_HORIZON)


def check_partition(value: object) -> None:
    """Raise Malformed unless the value can be a partition of the reports topic."""
    check_whole("partition", value, 0, MAX_PARTITIONS - 1)


def check_flag(field: str, value: object) -> None:
    """Raise Malformed unless the value is a bool."""
    if type(value) is not bool:
        raise Malformed(f"{field}: expected true or false")


def check_bytes(field: str, value: object, size: int) -> None:
    """Raise Malformed unless the value is a byte string of exactly `size` bytes."""
    if type(value) is not bytes or len(value) != size:
        raise Malformed(f"{field}: expected {size} bytes")


def check_digest(field: str, value: object) -> None:
    """Raise Malformed unless the value has the size of a SHA-256 digest."""
    check_bytes(field, value, DIGEST_BYTES)


def check_real(field: str, value: object) -> None:
    """Raise Malformed unless the value is a finite float that is not negative."""
    if type(value) is not float or not math.isfinite(value) or value < 0:
        raise Malformed(f"{field}: expected a finite number of at least 0")


def check_choice(field: str, value: object, allowed: Collection[str]) -> None:
    """Raise Malformed unless the value is one of the allowed words."""
    if not (isinstance(value, str) and value in allowed):
        raise Malformed(f"{field}: expected {' or '.join(allowed)}")


def check_release(value: object) -> None:
    """Raise Malformed unless the value is a valid name of a release."""
    try:
        return check_study_name("release", value)
    except StudyError:
        pass
    raise Malformed("release: expected letters, digits and '-'")


def check_integers(field: str, value: object, size: int) -> None:
    """Raise Malformed unless the value is an array of `size` 64-bit integers."""
    if not (isinstance(value, np.ndarray) and value.dtype == np.int64 and value.shape == (size,)):
        raise Malformed(f"{field}: expected {size} numbers of 64 bits")


def check_part(first: object, total: object, numbers: IntArray, field: str, *, longest: int, most: int) -> None:
    """Raise Malformed unless `numbers` is the part from `first` on of `total` numbers, split at multiples of `longest`.

    At most `most` numbers are allowed. Because the start of a part determines its end, parts of two writers can be compared
    one by one.
    """
    check_whole("total", total, 0, most)
    assert isinstance(total, int)
    check_whole("first", first, 0, max(total - 1, 0))
    assert isinstance(first, int)
    if first % longest:
        raise Malformed(f"first: expected a multiple of {longest}")
    check_integers(field, numbers, min(longest, total - first))
