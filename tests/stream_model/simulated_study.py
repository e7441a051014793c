"""A study on a simulated broker: starts single roles with faults, and decodes what is in the topics."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count
from typing import Any

import numpy as np
import numpy.typing as npt

from streamproc.gatherer.worker import Gatherer, GathererPorts
from streamproc.log.control_topic import ControlFollower, append_cut
from streamproc.log.topic_setup import set_up_topics
from streamproc.offline.replay import tallies_of
from streamproc.privacy.noise import Entropy, NoiseSource
from streamproc.privacy.types import Period
from streamproc.protocol.columns import (
    ColumnAssembler,
    ColumnChunk,
    ContractRecord,
    DecodedColumn,
    LongContract,
    MatrixChunk,
    decode_synthetic,
)
from streamproc.protocol.control import Cut, decode_control
from streamproc.protocol.ledger import Intent, MeasurementChunk, PeriodRecord, decode_ledger
from streamproc.protocol.ledger_verifier import VerifiedLedger, verify_chain
from streamproc.protocol.rejects import Reason, Reject, decode_reject
from streamproc.protocol.snapshots import SnapshotChunk
from streamproc.protocol.tallies import Tally, TallyAssembler, decode_tally
from streamproc.protocol.topics import Topics
from streamproc.releases.step import Step
from streamproc.releases.synthesis import Synthesis
from streamproc.storage.entropy import SeededEntropy
from streamproc.storage.state_folder import StateFolder
from streamproc.study import Study
from streamproc.study.fingerprint import fingerprint, roster_digest
from streamproc.synthesizer.worker import Synthesizer, SynthesizerPorts
from streamproc.testing import Faults, ManualClock, SimulatedBroker, SimulatedLog
from tests.stream_model.memory_folder import MemoryStateFolder


async def inline(function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)


class FreshEntropy:
    """Returns a different draw at each call, so that a second draw of one period is noticed.

    Two instances draw different noise if their first numbers are far enough apart.
    """

    insecure = True

    def __init__(self, first: int = 0) -> None:
        self._asked = count(first)

    def draw(self, release: str, period: Period) -> NoiseSource:
        return SeededEntropy(next(self._asked)).draw(release, period)

    def salt(self, period: Period) -> bytes:
        return SeededEntropy(next(self._asked)).salt(period)


@dataclass
class RecordingObserver:
    """An observer of all roles that records its calls."""

    watermarks: list[Period] = field(default_factory=list)
    released_periods: list[Period] = field(default_factory=list)
    fencings: list[Period] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)
    events: list[str] = field(default_factory=list)

    def watermark(self, period: Period) -> None:
        self.watermarks.append(period)

    def persisted(self, period: Period, size: int) -> None:
        self.events.append(f"persisted {period}")

    def waiting(self, period: Period, until: datetime) -> None:
        self.events.append(f"waiting {period} until {until:%H:%M:%S}")

    def due(self, period: Period, *, late: bool) -> None:
        self.events.append(f"due {period}{', late' if late else ''}")

    def released(self, period: Period, synthesis: Synthesis, steps: Mapping[str, Step] | None) -> None:
        self.events.append(f"released {period}")
        self.released_periods.append(period)

    def fenced(self, period: Period) -> None:
        self.fencings.append(period)

    def mark_degraded(self, problem: str) -> None:
        self.troubles.append(problem)

    def resumed(self, partition: int, period: Period, people: int, lag: int, size: int | None) -> None:
        start = "the start" if size is None else "a checkpoint"
        self.events.append(f"resumed {partition} from {start}: {period}, {people}, {lag} to go")

    def read(self, partition: int, records: int, lag: int) -> None:
        self.events.append(f"read {partition}: {records}, {lag} to go")

    def rejected(self, partition: int, counts: Mapping[Reason, int]) -> None:
        self.events.append(f"rejected {partition}: {sum(counts.values())}")

    def tallied(self, partition: int, period: Period, people: int) -> None:
        self.events.append(f"tallied {partition}: {period}, {people}")

    def checkpointed(self, partition: int, size: int) -> None:
        self.events.append(f"checkpointed {partition}")

    def waits_for_study(self, partition: int) -> None:
        """Called too often to be recorded."""

    def caught_up(self, partition: int) -> None:
        """Called too often to be recorded."""

    def up_to_date(self, partition: int) -> None:
        """Called too often to be recorded."""


class SimulatedStudy:
    """One study on a simulated broker. Create it inside the virtual loop, then `await begin()`."""

    def __init__(self, study: Study, roster: Sequence[str] | None = None) -> None:
        self.study = study
        self.roster = roster
        self.topics = Topics(study.name)
        self.clock = ManualClock()
        self.broker = SimulatedBroker(self.clock)
        self.log = SimulatedLog(self.broker, name="operator")
        self.state_folder = MemoryStateFolder()
        """The synthesizer's."""
        self.gatherer_folder = MemoryStateFolder()
        self.observer = RecordingObserver()
        self.fingerprint = b""
        self.key = b""

    async def begin(self) -> SimulatedStudy:
        await set_up_topics(self.log, self.study)
        control = await ControlFollower.open(self.log, self.study)
        await control.poll(timeout=0)
        assert control.key is not None
        self.key = control.key
        digest = None if self.roster is None else roster_digest(self.roster, self.key)
        self.fingerprint = fingerprint(self.study, digest)
        return self

    # roles

    def connection(self, name: str, faults: Faults | None = None) -> SimulatedLog:
        return SimulatedLog(self.broker, faults, name=name)

    def synthesizer(
        self,
        *,
        state_folder: StateFolder | None = None,
        entropy: Entropy | None = None,
        log: SimulatedLog | None = None,
        study: Study | None = None,
        mark: bytes | None = None,
    ) -> Synthesizer:
        ports = SynthesizerPorts(
            log or self.connection("synthesizer"),
            state_folder or self.state_folder,
            entropy or SeededEntropy(7),
            self.clock,
            inline,
            lambda low, high: (low + high) / 2,
        )
        return Synthesizer(study or self.study, mark or self.fingerprint, ports, self.observer)

    def gatherer(
        self,
        partition: int,
        *,
        state_folder: StateFolder | None = None,
        log: SimulatedLog | None = None,
        study: Study | None = None,
    ) -> Gatherer:
        ports = GathererPorts(
            log or self.connection(f"gatherer-{partition}"), state_folder or self.gatherer_folder, self.clock, inline
        )
        return Gatherer(study or self.study, partition, self.roster, ports, self.observer)

    async def run_everything(self, entropy: Entropy | None = None) -> None:
        """All gatherers and the synthesizer, until period `T` is released."""
        gatherers = [self.gatherer(partition).run() for partition in range(self.study.broker.partitions)]
        await asyncio.gather(self.synthesizer(entropy=entropy).run(), *gatherers)

    async def feed(self, symbols: npt.NDArray[np.uint8]) -> None:
        """In place of gatherers: wait until the study has begun, then send the tallies of these histories, all periods."""
        while not self.committed(self.topics.ledger):
            await self.clock.sleep(0.1)
        partitions = self.study.broker.partitions
        for partition in range(partitions):
            part = symbols[partition::partitions]
            for period, counts in enumerate(tallies_of(self.study, part), start=1):
                await self.send_tally(Tally(partition, Period(period), len(part), counts))

    async def send_tally(self, tally: Tally) -> None:
        await self.log.append_many(self.topics.tallies, 0, [(tally.key, value) for value in tally.encode()])

    async def close_period(self, period: int) -> None:
        await append_cut(self.log, self.study, Period(period))

    # what is in the topics

    def committed(self, topic: str, partition: int = 0) -> list[bytes | None]:
        """What a read_committed consumer reads."""
        log = self.broker.partition(topic, partition)
        return [stored.value for stored in log.read(log.start, len(log.stored), committed=True)[0]]

    def uncommitted(self, topic: str) -> list[bytes | None]:
        """What a read_uncommitted consumer reads."""
        log = self.broker.partition(topic, 0)
        return [stored.value for stored in log.read(log.start, len(log.stored), committed=False)[0]]

    def snapshot(self) -> object:
        """The complete state: every record and marker of every topic, and the state folders."""
        topics = {
            (topic.name, place): [
                (each.offset, each.key, each.value, each.marker, each.transaction and each.transaction.status)
                for each in partition.stored
            ]
            for topic in self.broker.topics.values()
            for place, partition in enumerate(topic.partitions)
        }
        return topics, dict(self.state_folder.files), dict(self.gatherer_folder.files)

    def ledger(self) -> VerifiedLedger:
        ledger = verify_chain(self.committed(self.topics.ledger))
        assert ledger is not None
        return ledger

    def columns(self, release: str) -> list[DecodedColumn]:
        """A release's columns as an ordinary consumer reads them: each once, in order."""
        contract, chunks = split_release(self.committed(self.topics.synthetic(release)))
        assembler = ColumnAssembler(contract)
        return [column for column in map(assembler.add, chunks) if column is not None]

    def contract(self, release: str) -> ContractRecord:
        """A release's contract."""
        return split_release(self.committed(self.topics.synthetic(release)))[0]

    def tallies(self) -> dict[tuple[int, int], Tally]:
        """By partition and period; however often one was sent, it must be the same."""
        assembler, found = TallyAssembler(), {}
        for value in self.committed(self.topics.tallies):
            tally = assembler.add(decode_tally(value))
            assert tally is None or isinstance(tally, Tally), "two different tallies of one partition and period"
            if tally is not None:
                found[tally.partition, int(tally.period)] = tally
        return found

    def cuts(self) -> list[Cut]:
        """All that were appended, whether they count or not."""
        records = [decode_control(value) for value in self.committed(self.topics.control)]
        return [record for record in records if isinstance(record, Cut)]

    def rejects(self) -> list[Reject]:
        return [decode_reject(value) for value in self.committed(self.topics.rejects)]

    def released_bytes(self) -> dict[str, list[bytes | None]]:
        """Every record an analyst can read."""
        public = [self.topics.ledger, *(self.topics.synthetic(release.name) for release in self.study.releases)]
        return {topic: self.committed(topic) for topic in public}

    def visible_draws(self) -> dict[tuple[str, ...], set[bytes]]:
        """For each part of a period, every version of it that ever left the process, aborted ones too."""
        seen: dict[tuple[str, ...], set[bytes]] = defaultdict(set)
        for release in self.study.releases:
            for value in self.uncommitted(self.topics.synthetic(release.name)):
                match decode_synthetic(value):
                    case ColumnChunk() as part:
                        seen[release.name, str(part.period), str(part.first)].add(value or b"")
                    case SnapshotChunk() as snapshot:
                        seen[release.name, str(snapshot.period), "snapshot", str(snapshot.first)].add(value or b"")
                    case MatrixChunk() as matrices:
                        seen[release.name, "matrices", str(matrices.part)].add(value or b"")
                    case ContractRecord() | LongContract():
                        seen[release.name, "contract"].add(value or b"")
        for value in self.uncommitted(self.topics.ledger):
            match decode_ledger(value):
                case MeasurementChunk() as chunk:
                    seen["measurement", chunk.release, str(chunk.period), str(chunk.first)].add(value or b"")
                case PeriodRecord() as record:
                    seen["period", str(record.period)].add(value or b"")
        # An intent is only a digest, and announces nothing before it is committed.
        for value in self.committed(self.topics.ledger):
            intent = decode_ledger(value)
            if isinstance(intent, Intent):
                seen["intent", str(intent.period)].add(intent.digest)
        return seen

    def check_released(self, through: int | None = None) -> None:
        """Each column is there once, is what the ledger says, was drawn once, and cost what the accountant says."""
        through = self.study.last_period if through is None else through
        ledger = self.ledger()
        assert ledger.period == through
        for release in self.study.releases:
            digests = tuple(column.digest for column in self.columns(release.name))
            assert digests == ledger.column_digests(release.name)
        assert {place: len(versions) for place, versions in self.visible_draws().items() if len(versions) > 1} == {}
        for name, record in {release.name: self.contract(release.name) for release in self.study.releases}.items():
            stated = [period.releases[name].contract for period in ledger.periods]
            first = record.contract.first_column - 1
            assert stated == [record.digest() if place == first else None for place in range(through)]
            accountant = Synthesis.resumed(Period(through), {name: record.contract}, {}, ()).accountants[name]
            assert ledger.periods[-1].releases[name].rho_spent == accountant.spent <= record.contract.rho


def split_release(values: Iterable[bytes | None]) -> tuple[ContractRecord, list[ColumnChunk | SnapshotChunk]]:
    """The contract of a release and the chunks of its columns and snapshots, from the values of its topic."""
    begun: LongContract | None = None
    contract: ContractRecord | None = None
    chunks: list[ColumnChunk | SnapshotChunk] = []
    for record in map(decode_synthetic, values):
        match record:
            case ColumnChunk() | SnapshotChunk():
                assert contract is not None
                chunks.append(record)
            case MatrixChunk():
                assert begun is not None
                contract = begun.add(record)
            case LongContract():
                assert begun is None
                begun = record
            case ContractRecord():
                assert contract is None
                contract = record
    assert contract is not None
    return contract, chunks


def random_histories(study: Study, people: int, seed: int = 0) -> npt.NDArray[np.uint8]:
    """Complete histories, a row per person."""
    return np.random.default_rng(seed).integers(0, study.q, size=(people, study.last_period)).astype(np.uint8)


def names(people: int) -> Iterable[str]:
    return (f"person-{number}" for number in range(people))
