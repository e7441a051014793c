"""State files: trees of plain values and NumPy arrays, with the fingerprint of the study and a checksum."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from msgpack import packb

from streamproc.errors import Malformed
from streamproc.protocol.codec import DIGEST_BYTES, Fields, tree

MAGIC = b"SPST"
STATE_VERSION = 4
"""The version that is written and read. Versions 1 to 3 are those of streamproc 0.1, which finishes their studies."""

_VERSION_BYTES = 2
_HEAD = len(MAGIC) + _VERSION_BYTES + DIGEST_BYTES
_MAX_LIST = 10_000
_MAX_DIMENSIONS = 4

_DTYPES = {
    np.dtype(code).str: np.dtype(code) for code in ("?", "<u1", "<u2", "<u4", "<u8", "<i1", "<i2", "<i4", "<i8", "<f8")
}
"""The element types of arrays. They are little-endian on every machine."""


class OldStateFile(Malformed):
    """A state file was written by version 0.1 of streamproc. It is not damaged, but only version 0.1 goes on with it."""

    def __init__(self) -> None:
        super().__init__("a study that was begun with version 0.1 of streamproc is finished with version 0.1")


def pack_arrays(values: Mapping[str, Any]) -> bytes:
    """Maps with text for keys, lists, text, bytes, numbers, None and arrays, as deep as they come.

    An array is a map of `dtype`, `shape` and `data`; no other map may have a key `dtype`.
    """
    return cast(bytes, packb(_plain(values), use_bin_type=True))


def unpack_arrays(body: bytes | memoryview) -> dict[str, Any]:
    """Decode what `pack_arrays` encoded. Arrays are read-only, and tuples have become lists. Raises Malformed."""
    values = tree(body, max_list=_MAX_LIST)
    if not isinstance(values, Fields) or "dtype" in values:
        raise Malformed("state: expected one MessagePack map, each key once, of usual size and depth")
    return cast(dict[str, Any], _with_arrays(values))


def seal(fingerprint: bytes, body: bytes) -> bytes:
    """Encode a state file: magic, version, the study's fingerprint, SHA-256 of everything else, body."""
    if len(fingerprint) != DIGEST_BYTES:
        raise Malformed(f"fingerprint: expected {DIGEST_BYTES} bytes")
    head = MAGIC + STATE_VERSION.to_bytes(_VERSION_BYTES) + fingerprint
    return head + _checksum(head, body) + body


def unseal(file: bytes, fingerprint: bytes) -> memoryview:
    """The body of a state file. Raises Malformed if it is damaged or of another study, OldStateFile if of version 0.1."""
    if file[: len(MAGIC)] != MAGIC:
        raise Malformed("state: not a state file (bad magic)")
    version = int.from_bytes(file[len(MAGIC) : len(MAGIC) + _VERSION_BYTES])
    if not 1 <= version <= STATE_VERSION:
        raise Malformed(f"state: version {version} is unknown; this program knows {STATE_VERSION}")
    head, rest = file[:_HEAD], memoryview(file)[_HEAD:]
    if len(rest) < DIGEST_BYTES or rest[:DIGEST_BYTES] != _checksum(head, rest[DIGEST_BYTES:]):
        raise Malformed("state: damaged (its checksum does not match)")
    if version < STATE_VERSION:
        raise OldStateFile
    if head[-DIGEST_BYTES:] != fingerprint:
        raise Malformed("state: belongs to another study (other fingerprint)")
    return rest[DIGEST_BYTES:]


def _checksum(head: bytes, body: bytes | memoryview) -> bytes:
    checksum = hashlib.sha256(head)
    checksum.update(body)
    return checksum.digest()


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        dtype = value.dtype.newbyteorder("<")
        if dtype.str not in _DTYPES or value.ndim > _MAX_DIMENSIONS:
            raise Malformed("state: an array of a type that a state file cannot hold")
        return {"dtype": dtype.str, "shape": list(value.shape), "data": value.astype(dtype, copy=False).tobytes()}
    if isinstance(value, Mapping):
        if "dtype" in value:
            raise Malformed("state: a map with a key `dtype`, which marks an array")
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def _with_arrays(value: Any) -> Any:
    if isinstance(value, Fields):
        return _array(value) if "dtype" in value else {key: _with_arrays(item) for key, item in value.items()}
    return [_with_arrays(item) for item in value] if isinstance(value, list) else value


def _array(fields: Fields) -> npt.NDArray[Any]:
    name, shape, data = fields["dtype"], fields.sequence("shape"), fields["data"]
    dtype = _DTYPES.get(name) if isinstance(name, str) else None
    if dtype is None:
        raise Malformed("dtype: expected one that a state file can hold")
    if len(shape) > _MAX_DIMENSIONS or not all(type(length) is int and length >= 0 for length in shape):
        raise Malformed(f"shape: expected at most {_MAX_DIMENSIONS} lengths")
    if not isinstance(data, bytes) or len(data) != math.prod(shape) * dtype.itemsize:
        raise Malformed("data: expected as many bytes as the array has")
    array: npt.NDArray[Any] = np.frombuffer(data, dtype=dtype).reshape(shape)
    return array
