"""Checks of the fields of messages, when a message is made and therefore also when it is decoded."""

from __future__ import annotations

import numpy as np

from streamproc.errors import Malformed
from streamproc.privacy.types import IntArray
from streamproc.study.releases import MAX_HORIZON
from streamproc.validation import Validator

MAX_PARTITIONS = 1_024
MAX_RELEASES = 1_024
MAX_OFFSET = 2**63 - 1
MAX_PEOPLE = 2**31 - 1
DIGEST_BYTES = 32

field_check = Validator(lambda field, got, expected: Malformed(f"{field}: expected {expected}"))
"""Checks fields of messages; an error names the field and what is expected, never the content."""

check_whole = field_check.whole
check_flag = field_check.flag
check_bytes = field_check.fixed_bytes
check_real = field_check.non_negative_float
check_choice = field_check.choice


def check_period(value: object) -> None:
    """A period of some study."""
    field_check.whole("period", value, 1, MAX_HORIZON)


def check_partition(value: object) -> None:
    """A partition of the reports topic."""
    field_check.whole("partition", value, 0, MAX_PARTITIONS - 1)


def check_digest(field: str, value: object) -> None:
    """A SHA-256 digest."""
    field_check.fixed_bytes(field, value, DIGEST_BYTES)


def check_release(value: object) -> None:
    """The name of a release."""
    field_check.name("release", value, "letters, digits and '-'")


def check_integers(field: str, value: object, size: int) -> None:
    """`size` integers of 64 bits."""
    holds = isinstance(value, np.ndarray) and value.dtype == np.int64 and value.shape == (size,)
    field_check.require(field, value, holds, f"{size} numbers of 64 bits")


def check_part(first: object, total: object, numbers: IntArray, field: str, *, longest: int, most: int) -> None:
    """`numbers` are those from `first` on, of `total <= most` that are cut at multiples of `longest`.

    The place of a part then says where it ends, so that parts of two writers can be compared one by one.
    """
    count = field_check.whole("total", total, 0, most)
    start = field_check.whole("first", first, 0, max(count - 1, 0))
    field_check.require("first", first, start % longest == 0, f"a multiple of {longest}")
    check_integers(field, numbers, min(longest, count - start))
