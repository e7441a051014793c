"""Encodes and decodes messages: MessagePack maps with a version, within limits that bound the cost of decoding.

The encoding is canonical: keys in the order of `docs/wire-format.md`, the shortest form of every number, `str` for text,
`bin` for bytes. The decoder accepts keys in any order and ignores unknown ones, so that a later minor version can add some.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from msgpack import OutOfData, Unpacker, packb, unpackb

from streamproc.errors import Malformed
from streamproc.privacy.types import IntArray
from streamproc.study.releases import MAX_PERIOD
from streamproc.validation import Validator

VERSION = 1

MAX_RECORD = 1_000_000
"""Maximum size of a record's value in bytes. It is below the default limits of Kafka and its clients."""

MAX_LIST = 65_536
MAX_MAP = 4_096
MAX_CONTAINERS = 32_768
"""Maximum number of maps and lists in one message. An empty one takes 1 byte on the wire and about 100 in memory."""
MAX_DEPTH = 16
"""Maximum nesting depth. MessagePack allows 1,024, at which a recursive function overflows the stack."""


class Fields(dict[str, Any]):
    """A decoded map. A missing key raises Malformed. The class of the message checks the values."""

    def __missing__(self, key: str) -> Any:
        raise Malformed(f"{key}: missing")

    def sequence(self, key: str) -> tuple[Any, ...]:
        """The list at `key`, as a tuple. Raises Malformed if the value is not a list."""
        value = self[key]
        if not isinstance(value, list):
            raise Malformed(f"{key}: expected a list")
        return tuple(value)

    def table(self, key: str) -> Fields:
        """The map with text keys at `key`. Raises Malformed if the value is anything else."""
        value = self[key]
        if not (isinstance(value, Fields) and all(isinstance(name, str) for name in value)):
            raise Malformed(f"{key}: expected a map with text for keys")
        return value

    def integers(self, key: str) -> IntArray:
        """The big-endian 64-bit integers at `key`. Raises Malformed if the value is anything else."""
        value = self[key]
        if not isinstance(value, bytes) or len(value) % 8:
            raise Malformed(f"{key}: expected 8 bytes for each number")
        numbers = np.frombuffer(value, dtype=">i8").astype(np.int64)
        numbers.flags.writeable = False
        return numbers


def pack(kind: str | None, fields: dict[str, Any]) -> bytes:
    """Encode a message. `kind` is its `type`; None for a single report. Raises Malformed if it is too large."""
    head: dict[str, Any] = {"v": VERSION} if kind is None else {"v": VERSION, "type": kind}
    value = cast(bytes, packb(head | fields, use_bin_type=True))
    if len(value) > MAX_RECORD:
        raise Malformed(f"a record of more than {MAX_RECORD} bytes")
    return value


def packed_integers(numbers: IntArray) -> bytes:
    """Encode integers as big-endian 64-bit integers."""
    return numbers.astype(">i8").tobytes()


def unpack(value: bytes | None, *kinds: str) -> Fields:
    """Decode a message whose `type` is one of `kinds`, or a single report without `kinds`. Raises Malformed."""
    fields = unpack_any(value)
    kind = fields.get("type")
    if kind not in kinds if kinds else "type" in fields:
        raise Malformed(f"type: expected {' or '.join(kinds) or 'none'}")
    return fields


def unpack_any(value: bytes | None) -> Fields:
    """Decode a message of any type. Raises Malformed."""
    if not isinstance(value, bytes) or len(value) > MAX_RECORD:
        raise Malformed(f"expected a value of at most {MAX_RECORD} bytes")
    fields = tree(value, max_list=MAX_LIST) if _is_complete(value) else None
    if not isinstance(fields, Fields):
        raise Malformed("expected one MessagePack map, each key once, of usual size and depth")
    if type(fields["v"]) is not int or fields["v"] != VERSION:
        raise Malformed(f"v: expected {VERSION}")
    return fields


def tree(value: bytes | memoryview, *, max_list: int) -> object:
    """Decode MessagePack, maps as Fields; None if it is not well-formed, has too many containers or is too deep."""
    containers = 0

    def listed(items: list[Any]) -> list[Any]:
        nonlocal containers
        containers += 1
        if containers > MAX_CONTAINERS:
            raise ValueError
        return items

    def mapped(pairs: list[tuple[str, Any]]) -> Fields:
        fields = Fields(listed(pairs))
        if len(fields) != len(pairs):
            raise ValueError
        return fields

    try:
        root = cast(
            object,
            unpackb(
                value,
                max_array_len=max_list,
                max_map_len=MAX_MAP,
                object_pairs_hook=mapped,
                list_hook=listed,
                ext_hook=_no_extension,
            ),
        )
    except ValueError:
        return None
    return root if containers <= MAX_DEPTH or _is_shallow(root) else None


def _is_shallow(root: object) -> bool:
    level = [root]
    for _ in range(MAX_DEPTH):
        inside = (item.values() if isinstance(item, Fields) else item for item in level if isinstance(item, Fields | list))
        level = [item for items in inside for item in items if isinstance(item, Fields | list)]
        if not level:
            return True
    return False


def _is_complete(value: bytes) -> bool:
    """Whether no container announces more items than follow: the decoder allocates a list before it reads the items."""
    unpacker = Unpacker(max_buffer_size=max(len(value), 1))
    unpacker.feed(value)
    try:
        unpacker.skip()
    except (ValueError, OutOfData):
        return False
    return True


def _no_extension(code: int, data: bytes) -> None:
    raise ValueError


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
    field_check.whole("period", value, 1, MAX_PERIOD)


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
