"""The state files: their envelope, their arrays, and what the two roles make of them."""

from __future__ import annotations

import hashlib
from functools import cache
from typing import Any

import numpy as np

from streamproc.errors import Malformed, Refused
from streamproc.gatherer.departed import SEGMENT_HASHES
from streamproc.gatherer.hash_index import Hashes
from streamproc.gatherer.logic import GathererLogic, PartitionContext
from streamproc.gatherer.open_logic import OpenGathererLogic
from streamproc.gatherer.segment_files import read_segments, segment_name
from streamproc.gatherer.worker import Gatherer, GathererPorts
from streamproc.privacy.types import Period
from streamproc.protocol.control import Cut
from streamproc.protocol.reports import encode_report
from streamproc.protocol.state_file import pack_arrays, seal, unpack_arrays, unseal
from streamproc.study import Population, Study, WindowRelease
from streamproc.synthesizer.checkpoint import STATE_FILE, local_state, read_checkpoint
from streamproc.testing import ManualClock, SimulatedBroker, SimulatedLog
from tests.fuzz import mutators, seeds
from tests.fuzz.trial import MIB, Bound, Target
from tests.stream_model.memory_folder import MemoryStateFolder
from tests.stream_model.report_sequences import LogRecord
from tests.stream_model.simulated_study import RecordingObserver
from tests.studies import build_study

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


CHECKPOINT = "gather-0.state"


def _gatherer(data: bytes) -> None:
    left = seeds.left()
    _resume(PartitionContext(left.study, 0, left.key), left.fingerprint, {CHECKPOINT: data})


def _resume(context: PartitionContext, fingerprint: bytes, files: dict[str, bytes]) -> None:
    clock = ManualClock()
    ports = GathererPorts(SimulatedLog(SimulatedBroker(clock), name="gatherer"), MemoryStateFolder(files), clock)
    gatherer = Gatherer(context.study, 0, None, ports, RecordingObserver())
    gatherer._resume(context, fingerprint)


KEY = FINGERPRINT = bytes(32)


def _open_study() -> Study:
    population = Population(initial="a", open=True, tenure=1, ahead=2)
    return build_study(WindowRelease("w", 1), partitions=1, population=population, alphabet="abc")


@cache
def _open_state() -> tuple[dict[str, Any], bytes]:
    """The checkpoint of an open study with people who are present, have left, and will enter, and a segment."""
    context = PartitionContext(_open_study(), 0, KEY)
    logic = OpenGathererLogic(context)
    reports = [("p", 1, "a"), ("q", 2, "b"), ("r", 3, "c"), ("s", 4, "c")]
    logic.ingest([LogRecord(offset, encode_report(*report)) for offset, report in enumerate(reports)])
    for period in (1, 2):
        logic.add_cut(Cut(Period(period), (2,)))
    logic.close_periods(4)
    logic.departed.add(Hashes.of_bytes(np.random.default_rng(0).bytes(16 * (SEGMENT_HASHES - 1))), 2)
    [segment] = logic.departed.new_segments()
    content = seal(FINGERPRINT, pack_arrays({"segment": 1, "arrays": segment}))
    logic.departed.note_stored([hashlib.sha256(content).digest()])
    logic.departed.add(Hashes.of_bytes(bytes(range(32))), 1)
    state = {"key": context.key_fingerprint, "topic": bytes(16), "position": 4, "rejects": 0, "arrays": logic.arrays()}
    return state, content


def _open_gatherer(data: bytes) -> None:
    _resume_open(data, _open_state()[1])


def _segment(data: bytes) -> None:
    """The checkpoint names the segment as it is."""
    state = _open_state()[0]
    digest = np.frombuffer(hashlib.sha256(data).digest(), dtype=np.uint8)
    arrays = state["arrays"] | {"departed/segments": digest}
    _resume_open(seal(FINGERPRINT, pack_arrays(state | {"arrays": arrays})), data)


def _resume_open(checkpoint: bytes, segment: bytes) -> None:
    files = {CHECKPOINT: checkpoint, segment_name(0, 1): segment}
    _resume(PartitionContext(_open_study(), 0, KEY), FINGERPRINT, files)


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
    Target(
        "open-gatherer-state",
        (OpenGathererLogic.restored,),
        _open_gatherer,
        lambda: [seal(FINGERPRINT, pack_arrays(_open_state()[0]))],
        mutators.of_state,
        (Refused,),
        STATE,
    ),
    Target(
        "segment",
        (read_segments,),
        _segment,
        lambda: [_open_state()[1]],
        mutators.of_state,
        (Refused,),
        STATE,
    ),
)
