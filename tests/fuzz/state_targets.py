"""The state files: their envelope, their arrays, and what the two roles make of them."""

from __future__ import annotations

from streamproc.errors import Malformed, Refused
from streamproc.gatherer.logic import Gathering, Place
from streamproc.gatherer.worker import Gatherer, Ports
from streamproc.protocol.state_file import pack_arrays, unpack_arrays, unseal
from streamproc.synthesizer.checkpoint import STATE_FILE, on_disk, read_stored
from streamproc.testing.simulated import SimulatedBroker, SimulatedLog
from tests.fuzz import mutators, seeds
from tests.fuzz.trial import MIB, Bound, Target
from tests.world.disk import MemoryDisk
from tests.world.study_world import Diary
from tests.world.virtual_time import ManualClock

STATE = Bound(32, 80 * MIB)
"""A state file is not scanned first, which would take as much memory again: lists in lists are allocated as announced."""


def _envelope(data: bytes) -> None:
    body = unseal(data, data[mutators.FINGERPRINT] if data[:1] == b"S" else seeds.left().fingerprint)
    assert bytes(body) == data[mutators.SEALED :]


def _arrays(data: bytes) -> None:
    values = unpack_arrays(data)
    assert unpack_arrays(pack_arrays(values)).keys() == values.keys()


def _synthesizer(data: bytes) -> None:
    disk = MemoryDisk({STATE_FILE: data})
    stored = read_stored(disk, seeds.left().fingerprint)
    on_disk(disk, seeds.left().fingerprint, stored)


def _gatherer(data: bytes) -> None:
    left = seeds.left()
    clock = ManualClock()
    ports = Ports(SimulatedLog(SimulatedBroker(clock), name="gatherer"), MemoryDisk({"gather-0.state": data}), clock)
    gatherer = Gatherer(left.study, 0, None, ports, Diary())
    gatherer._resume(Place(left.study, 0, left.key), left.fingerprint)


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
        (read_stored,),
        _synthesizer,
        lambda: [seeds.left().synthesizer_state],
        mutators.of_state,
        (Refused,),
        STATE,
    ),
    Target(
        "gatherer-state",
        (Gathering.restored,),
        _gatherer,
        lambda: list(seeds.left().gatherer_states),
        mutators.of_state,
        (Refused,),
        STATE,
    ),
)
