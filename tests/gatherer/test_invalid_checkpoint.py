"""A checkpoint whose checksum is right and whose content is not is refused in one line."""

from __future__ import annotations

from typing import Any

import msgpack
import numpy as np
import pytest

from streamproc.errors import Refused
from streamproc.protocol.state_file import pack_arrays, seal
from tests.fuzz.mutators import SEALED
from tests.fuzz.seeds import left
from tests.fuzz.targets import TARGETS

EMPTY = msgpack.unpackb(pack_arrays({"a": np.zeros(0, dtype=np.int64)}))["a"]


@pytest.mark.parametrize(
    "change",
    [
        {"arrays": []},
        {"arrays": EMPTY},
        {"arrays": {"period": EMPTY}},
        {"arrays": {"period": None}},
        {"arrays": {"period": {"a": 1}}},
        {"position": [[]], "arrays": 7},
    ],
    ids=str,
)
def test_content_that_does_not_fit_is_refused(change: dict[str, Any]) -> None:
    body = msgpack.unpackb(left().gatherer_states[0][SEALED:]) | change
    with pytest.raises(Refused, match="gather-0.state: its content does not fit together; delete it"):
        TARGETS["gatherer-state"].feed(seal(left().fingerprint, msgpack.packb(body)))
