"""Logs of open studies, and a gatherer that reads them in parts, is stopped and resumed, and may learn of cuts late."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from unittest.mock import patch

import numpy as np
from hypothesis import strategies as st

import streamproc.gatherer.departed as departed_module
from streamproc.errors import Malformed
from streamproc.gatherer.departed import stored_digests
from streamproc.gatherer.open_logic import OpenGathererLogic
from streamproc.gatherer.partition_logic import PartitionContext
from streamproc.gatherer.segment_files import read_segments, write_segments
from streamproc.privacy.types import Period
from streamproc.protocol.control import Cut
from streamproc.protocol.rejects import Reject
from streamproc.protocol.reports import ReportBatch, decode_any, encode_report
from streamproc.protocol.state_file import pack_arrays, unpack_arrays
from streamproc.protocol.tallies import Tally
from streamproc.study import CumulativeRelease, Missing, Population, Release, SpellRelease, Study, WindowRelease
from tests.stream_model.memory_folder import MemoryStateFolder
from tests.stream_model.open_model import OpenModel
from tests.stream_model.report_sequences import ALPHABET, IDS, WRONG_SYMBOLS, Action, LogRecord
from tests.studies import build_study

KEY = bytes(range(32))
FINGERPRINT = bytes(32)
SEGMENT = 2
"""Number of hashes in a segment, so that there are several after a few people have left."""


@dataclass(frozen=True)
class OpenSequence:
    study: Study
    partition: int
    roster: Sequence[str] | None
    records: Sequence[LogRecord]
    ends: Sequence[int]
    position: int
    """Where a reader stands that has read everything."""
    ended: bool
    """Whether the last cut says that the study ends with it."""
    actions: Sequence[tuple[Action, int]] = ()

    @property
    def is_over(self) -> bool:
        return self.ended or len(self.ends) == self.study.last_period

    def model(self) -> OpenModel:
        records = [(record.offset, record.value) for record in self.records]
        return OpenModel(self.study, self.partition, KEY, self.roster, records, self.ends, ended=self.ended)

    def without(self, individual: str) -> OpenSequence:
        """The same log, where the reports of one person are reports of an unknown symbol."""
        return replace(self, records=[_muted(record, lambda each: each == individual) for record in self.records])

    def only(self, individual: str) -> OpenSequence:
        """The same log, where the reports of everybody else are reports of an unknown symbol."""
        return replace(self, records=[_muted(record, lambda each: each != individual) for record in self.records])


class OpenRunner:
    """Runs the logic on a sequence. Segments are written to `folder` and read from it as a gatherer does."""

    def __init__(self, sequence: OpenSequence) -> None:
        self.sequence = sequence
        self.context = PartitionContext(sequence.study, sequence.partition, KEY, sequence.roster)
        self.logic = OpenGathererLogic(self.context)
        self.folder = MemoryStateFolder()
        self.tallies: list[Tally] = []
        self.rejects: list[Reject] = []
        self._read = 0
        self._known = 0

    @property
    def _position(self) -> int:
        done = self._read == len(self.sequence.records)
        return self.sequence.position if done else self.sequence.records[self._read].offset

    def run(self) -> OpenRunner:
        final: list[tuple[Action, int]] = [("learn", len(self.sequence.ends)), ("ingest", len(self.sequence.records))]
        with patch.object(departed_module, "SEGMENT_HASHES", SEGMENT):
            for action, amount in (*self.sequence.actions, *final, ("settle", 0)):
                match action:
                    case "ingest":
                        self.logic.ingest(self.sequence.records[self._read : self._read + amount])
                        self._read = min(self._read + amount, len(self.sequence.records))
                    case "learn":
                        self._learn(amount)
                    case "settle":
                        self.tallies += self.logic.close_periods(self._position)
                    case "resume":
                        self._resume(known=amount % 2 == 0)
                self.rejects += self.logic.drain_rejects()
        return self

    def _learn(self, amount: int) -> None:
        ends = self.sequence.ends
        for end in ends[self._known : self._known + amount]:
            self._known += 1
            at = [0] * self.sequence.study.broker.partitions
            at[self.sequence.partition] = end
            self.logic.add_cut(Cut(Period(self._known), tuple(at), self.sequence.ended and self._known == len(ends)))

    def _resume(self, *, known: bool) -> None:
        write_segments(self.folder, self.sequence.partition, FINGERPRINT, self.logic.departed)
        state = unpack_arrays(pack_arrays(self.logic.arrays()))
        segments = read_segments(self.folder, self.sequence.partition, FINGERPRINT, stored_digests(state))
        self.logic = OpenGathererLogic.restored(self.context, state, segments)
        amount, self._known = self._known - self.logic.period, int(self.logic.period)
        self._learn(amount if known else 0)


def _muted(record: LogRecord, is_muted: Callable[[str], bool]) -> LogRecord:
    try:
        report = decode_any(record.value)
    except Malformed:
        return record
    if isinstance(report, ReportBatch):
        muted = [is_muted(each) for each in report.ids]
        symbols = np.where(muted, 200, report.symbols).astype(np.uint8)
        return replace(record, value=ReportBatch(report.ids, report.periods, symbols).encode())
    individual, period, _ = report
    return replace(record, value=encode_report(individual, period, "?")) if is_muted(individual) else record


RELEASES: tuple[Release, ...] = (
    WindowRelease("w1", 1),
    WindowRelease("w3", 3),
    SpellRelease("s", event=("b", "c"), length=2),
    CumulativeRelease("c", event=("b",), most=2),
)


def open_study(
    population: Population, *, horizon: int | None = None, partitions: int = 1, releases: Sequence[Release]
) -> Study:
    return build_study(
        *releases,
        horizon=horizon,
        partitions=partitions,
        population=population,
        alphabet=ALPHABET,
    )


@st.composite
def open_studies(draw: st.DrawFn) -> Study:
    tenure = draw(st.integers(1, 4))
    population = Population(
        initial="a",
        size=draw(st.none() | st.just(1)),
        missing=Missing(draw(st.none() | st.sampled_from(ALPHABET))),
        duplicates=draw(st.sampled_from(["first", "last"])),
        ahead=draw(st.none() | st.integers(1, 3)),
        open=True,
        tenure=tenure,
        sample=draw(st.none() | st.sampled_from([0.5, 1e-9, 1])),
        absent_after=draw(st.none() | st.integers(1, 3)),
    )
    fitting = [release for release in RELEASES if _fits(release, tenure)]
    return open_study(
        population,
        horizon=draw(st.none() | st.integers(1, 8)),
        partitions=draw(st.integers(1, 2)),
        releases=draw(st.lists(st.sampled_from(fitting), unique=True, min_size=1)),
    )


def _fits(release: Release, tenure: int) -> bool:
    return (release.name, tenure) in {
        *((name, length) for name in ("w1",) for length in range(1, 5)),
        *((name, length) for name in ("s", "c") for length in range(2, 5)),
        *(("w3", length) for length in range(3, 5)),
    }


@st.composite
def _values(draw: st.DrawFn, near: int) -> bytes | None:
    """The value of a record about the time when period `near` is open."""
    ids = st.sampled_from(IDS)
    periods = st.sampled_from([near] * 6 + [near + 1, near + 1, near + 2, max(near - 1, 1)])
    kind = draw(st.sampled_from(["good"] * 8 + ["odd", "batch", "batch", "broken"]))
    if kind == "good":
        return encode_report(draw(ids), draw(periods), draw(st.sampled_from(ALPHABET)))
    if kind == "odd":
        strange = st.sampled_from([0, -1, 9, 70_000, 1_000_000, 1_000_001, 2**63 - 1])
        return encode_report(draw(ids), draw(periods | strange), draw(st.sampled_from(ALPHABET + WRONG_SYMBOLS)))
    if kind == "batch":
        packed = st.tuples(ids, periods | st.sampled_from([0, 65_535]), st.sampled_from([0, 1, 2, 0, 1, 2, 3, 255]))
        names, times, symbols = zip(*draw(st.lists(packed, min_size=1, max_size=6)), strict=True)
        return ReportBatch(names, np.array(times, dtype=np.uint16), np.array(symbols, dtype=np.uint8)).encode()
    return draw(st.none() | st.binary(max_size=8))


@st.composite
def open_sequences(draw: st.DrawFn) -> OpenSequence:
    study = draw(open_studies())
    closed = draw(st.integers(1, min(8, study.last_period)))
    ended = closed < study.last_period and draw(st.booleans())
    values: list[bytes | None] = []
    ends: list[int] = []
    for period in range(1, closed + 2):
        values += draw(st.lists(_values(period), max_size=8))
        ends.append(len(values) + 1)
    gaps = draw(st.lists(st.sampled_from([0, 0, 0, 1]), min_size=len(values) + 1, max_size=len(values) + 1))
    offsets = np.cumsum(np.array(gaps) + 1)
    shift = draw(st.integers(0, 2))
    cuts = [int(offsets[min(max(end - 1 - shift, 0), len(offsets) - 1)]) for end in ends[:closed]]
    records = [LogRecord(offset, value) for offset, value in zip(offsets[:-1].tolist(), values, strict=True)]
    roster = draw(st.none() | st.permutations(IDS).map(lambda ids: tuple(ids[:6])))
    partition = draw(st.integers(0, study.broker.partitions - 1))
    return OpenSequence(
        study, partition, roster, records, cuts, int(offsets[-1]), ended, draw(st.lists(_ACTIONS, max_size=25))
    )


_KINDS: list[Action] = ["ingest", "ingest", "learn", "settle", "resume"]
_ACTIONS = st.tuples(st.sampled_from(_KINDS), st.integers(0, 9))


def _round(records: int, cuts: int, resume: int) -> list[tuple[Action, int]]:
    """Read on, close what can be closed, and perhaps stop and resume."""
    actions: list[tuple[Action, int]] = [("ingest", records), ("learn", cuts), ("settle", 0), ("resume", resume)]
    return actions[: 3 if resume > 2 else 4]


_ROUNDS = st.builds(_round, st.integers(2, 10), st.integers(0, 2), st.integers(0, 4))


def large_open_sequence(seed: int) -> OpenSequence:
    """Hundreds of people who come and go over a dozen periods; quick to make, and the same for a seed."""
    rng = np.random.default_rng(seed)
    periods, partitions = int(rng.integers(3, 13)), int(rng.integers(1, 3))
    tenure = int(rng.integers(3, 7))
    people = [f"person-{number}" for number in range(int(rng.integers(5, 200)))]
    population = Population(
        initial="b",
        missing=Missing(None if rng.random() < 0.5 else "c"),
        duplicates="first" if rng.random() < 0.5 else "last",
        ahead=None if seed % 2 else int(rng.integers(1, 4)),
        open=True,
        tenure=tenure,
        sample=None if rng.random() < 0.7 else 0.6,
        absent_after=None if rng.random() < 0.4 else int(rng.integers(1, 4)),
    )
    study = open_study(population, partitions=partitions, releases=RELEASES)
    values: list[bytes | None] = []
    ends = []
    for period in range(1, periods + 2):
        active = [each for place, each in enumerate(people) if abs(place * periods / len(people) - period) < 1 + tenure / 2]

        def report(near: int = period, among: Sequence[str] = tuple(active or people)) -> tuple[str, int, int]:
            far = int(rng.integers(-1, 4)) if rng.random() < 0.2 else 0
            return (
                str(rng.choice(np.array(among))),
                max(near + far, 0),
                int(rng.integers(0, 4 if rng.random() < 0.05 else 3)),
            )

        for _ in range(int(rng.integers(0, 60))):
            if rng.random() < 0.1:
                names, times, symbols = zip(*[report() for _ in range(int(rng.integers(1, 20)))], strict=True)
                batch = ReportBatch(names, np.array(times, dtype=np.uint16), np.array(symbols, dtype=np.uint8))
                values.append(batch.encode())
            else:
                individual, claimed, symbol = report()
                values.append(encode_report(individual, claimed, "abc?"[symbol]))
        ends.append(len(values))
    offsets = np.cumsum(rng.integers(1, 3, size=len(values) + 1)).tolist()
    records = [LogRecord(offset, value) for offset, value in zip(offsets[:-1], values, strict=True)]
    actions: list[tuple[Action, int]] = []
    for length in np.diff(ends, prepend=0).tolist():
        actions += _round(max(length + int(rng.integers(-9, 20)), 0), int(rng.integers(0, 3)), int(rng.integers(0, 5)))
    return OpenSequence(
        study,
        int(rng.integers(partitions)),
        tuple(people[::2]) if rng.random() < 0.3 else None,
        records,
        [int(offsets[end]) for end in ends[:periods]],
        offsets[-1],
        bool(rng.random() < 0.7),
        actions,
    )
