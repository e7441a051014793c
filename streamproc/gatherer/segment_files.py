"""The files with the hashes of people who have left: full segments of `Departed`, which are written once and never change.

A segment is written and synced before the checkpoint that names it by its digest. After a crash in between, the file is an
orphan: the next checkpoint that needs it writes the same bytes again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from streamproc.errors import Malformed, StateFileUnusable
from streamproc.gatherer.departed import Departed
from streamproc.protocol.state_file import pack_arrays, seal, unpack_arrays, unseal
from streamproc.storage.state_folder import StateFolder


def segment_name(partition: int, number: int) -> str:
    """The name of the file of a segment; segments are numbered from 1."""
    return f"departed-{partition}-{number:06}.state"


def write_segments(state_folder: StateFolder, partition: int, fingerprint: bytes, departed: Departed) -> int:
    """Write the full segments that are not stored yet, and note that they are stored. Returns their size in bytes."""
    digests, size = [], 0
    for number, segment in enumerate(departed.new_segments(), start=departed.stored_segments + 1):
        content = seal(fingerprint, pack_arrays({"segment": number, "arrays": segment}))
        state_folder.write(segment_name(partition, number), content)
        digests.append(hashlib.sha256(content).digest())
        size += len(content)
    departed.note_stored(digests)
    return size


def read_segments(
    state_folder: StateFolder, partition: int, fingerprint: bytes, digests: Sequence[bytes]
) -> Iterator[Mapping[str, npt.NDArray[np.generic]]]:
    """Read the segments with these digests. Raises StateFileUnusable if one is missing or has another digest."""
    for number, digest in enumerate(digests, start=1):
        name = segment_name(partition, number)
        content = state_folder.read(name)
        if content is None or hashlib.sha256(content).digest() != digest:
            found = "missing" if content is None else "not the file that the checkpoint names"
            raise StateFileUnusable(name, f"{found}; delete gather-{partition}.state, and the gatherer replays the log")
        try:
            segment = unpack_arrays(unseal(content, fingerprint))["arrays"]
        except (Malformed, LookupError):
            raise ValueError from None
        yield segment
