"""A state file whose checksum is right and whose content is not: refused in one line, in little memory."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest

from streamproc.errors import Refused
from streamproc.protocol.state_file import seal
from streamproc.synthesizer.checkpoint import STATE_FILE, read_checkpoint
from tests.fuzz.mutators import SEALED
from tests.fuzz.seeds import left
from tests.memory import memory_taken
from tests.stream_model.memory_folder import MemoryStateFolder


def written_with(change: dict[str, Any]) -> MemoryStateFolder:
    body = msgpack.unpackb(left().synthesizer_state[SEALED:]) | change
    return MemoryStateFolder({STATE_FILE: seal(left().fingerprint, msgpack.packb(body))})


def contracts_with(change: dict[str, Any]) -> dict[str, Any]:
    contracts = msgpack.unpackb(left().synthesizer_state[SEALED:])["contracts"]
    return {"contracts": {name: values | change for name, values in contracts.items()}}


@pytest.mark.parametrize(
    "change",
    [
        {"contracts": b"none"},
        {"contracts": {"w": []}},
        {"contracts": {"w": {"dtype": "<i8", "shape": [0], "data": b""}}},
        {"arrays": []},
        {"arrays": {"w/windows": 3}},
        {"outgoing": [[]]},
        {"period": None},
        {"period": -1},
        {"period": 4},
        {"period": True},
        {"redrawn": 7},
        contracts_with({"horizon": 0}),
        contracts_with({"horizon": True}),
        contracts_with({"rho": float("nan")}),
        contracts_with({"alphabet": "01"}),
    ],
    ids=str,
)
def test_content_that_does_not_fit_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(Refused, match=f"state file {STATE_FILE}: .*put back the newest copy") as refused:
        read_checkpoint(written_with(change), left().fingerprint)
    assert refused.value.__suppress_context__


def test_a_horizon_that_would_be_a_matrix_of_terabytes_is_refused_before_it_is_made() -> None:
    state_folder = written_with(contracts_with({"horizon": 10**6, "sigmas": [1.0] * 3}))
    with memory_taken() as memory, pytest.raises(Refused, match="horizon: expected a whole number from 1 to"):
        read_checkpoint(state_folder, left().fingerprint)
    assert memory.peak < 1 << 20
