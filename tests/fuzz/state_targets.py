"""The state files: their envelope, their arrays, and what the two roles make of them."""

from __future__ import annotations

from streamproc.errors import Malformed, Refused
from streamproc.gatherer.logic import GathererLogic, PartitionContext
from streamproc.gatherer.worker import Gatherer, GathererPorts
from streamproc.protocol.state_file import pack_arrays, unpack_arrays, unseal
from streamproc.synthesizer.checkpoint import STATE_FILE, local_state, read_checkpoint
from streamproc.testing import ManualClock, SimulatedBroker, SimulatedLog
from tests.fuzz import mutators, seeds
from tests.fuzz.trial import MIB, Bound, Target
from tests.stream_model.memory_folder import MemoryStateFolder
from tests.stream_model.simulated_study import RecordingObserver

STATE = Bound(32, 80 * MIB)
"""A state file is not scanned first, which would take as much memory again: lists in lists are allocated as announced."""


def _envelope(data: bytes) -> None:
    body = unseal(data, data[mutators.FINGERPRINT] if data[:1] == b"S" else seeds.left().fingerprint)
    assert bytes(body) == data[mutators.SEALED :]


def _arrays(data: bytes) -> None:
    values = unpack_arrays(data)
    assert unpack_arrays(pack_arrays(values)).keys() == values.keys()


def _synthesizer(data: bytes) -> None:
    state_folder = MemoryStateFolder({STATE_FILE: data})
    stored = read_checkpoint(state_folder, seeds.left().fingerprint)
    local_state(state_folder, seeds.left().fingerprint, stored)


def _gatherer(data: bytes) -> None:
    left = seeds.left()
    clock = ManualClock()
    ports = GathererPorts(
        SimulatedLog(SimulatedBroker(clock), name="gatherer"), MemoryStateFolder({"gather-0.state": data}), clock
    )
    gatherer = Gatherer(left.study, 0, None, ports, RecordingObserver())
    gatherer._resume(PartitionContext(left.study, 0, left.key), left.fingerprint)


def _states() -> list[bytes]:
    return [seeds.left().synthesizer_state, *seeds.left().gatherer_states]


STATE_TARGETS = (
    Target("envelope", (unseal,), _envelope, _states, mutators.of_bytes, (Malformed,), Bound(1, MIB)),
    Target(
        "arrays",
        (unpack_arrays,),
        _arrays,
        lambda: [state[mutators.SEALED :] for state in _states()],
        mutators.of_message,
        (Malformed,),
        STATE,
    ),
    Target(
        "synthesizer-state",
        (read_checkpoint,),
        _synthesizer,
        lambda: [seeds.left().synthesizer_state],
        mutators.of_state,
        (Refused,),
        STATE,
    ),
    Target(
        "gatherer-state",
        (GathererLogic.restored,),
        _gatherer,
        lambda: list(seeds.left().gatherer_states),
        mutators.of_state,
        (Refused,),
        STATE,
    ),
)
