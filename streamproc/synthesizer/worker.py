"""The synthesizer: checks the published state, fences older producers, and releases one period after the other.

Each period is drawn, written to the state folder, announced in the ledger, published in one transaction, and marked as
published. After an error of the log the outcome of a call is unknown, so every error is handled in the same way: the
producer is closed, and a new session begins with reading the published state. A draw is in the state folder before any byte
of it is sent, so it is never drawn again.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Protocol

from streamproc.errors import (
    Fenced,
    LogUnavailable,
    OffsetLost,
    OutcomeUnknown,
    Refused,
    TallyConflict,
    TopicLost,
    WriterConflict,
)
from streamproc.log.port import NO_TIME, Log, TransactionalProducer
from streamproc.log.retry import MAX_RETRY_PAUSE_S, MIN_RETRY_PAUSE_S, Backoff
from streamproc.privacy.noise import Entropy
from streamproc.privacy.types import Period
from streamproc.protocol.ledger import Intent, StudyRecord, digest, require_same_study
from streamproc.protocol.topics import Topics
from streamproc.releases.contracts import design_mechanisms, make_contracts
from streamproc.releases.step import Step
from streamproc.releases.synthesis import Synthesis
from streamproc.storage.clock import Clock
from streamproc.storage.state_folder import StateFolder
from streamproc.study import Study
from streamproc.study.fingerprint import public_values
from streamproc.synthesizer.checkpoint import (
    STATE_FILE,
    Checkpoint,
    local_state,
    mark_published,
    read_checkpoint,
    write_checkpoint,
)
from streamproc.synthesizer.outbox import PendingRelease, build_pending_release
from streamproc.synthesizer.published_state import read_published_state, wait_for_open_transactions
from streamproc.synthesizer.recovery import LedgerSnapshot, RecoveryAction, check_columns_exist, decide
from streamproc.synthesizer.scheduler import MAX_SLEEP_S
from streamproc.synthesizer.state_size import max_state_size, max_step_memory, reserve_memory
from streamproc.synthesizer.tally_reader import StudyTally, TallyReader, population_size

MAX_FENCED = 3
"""A synthesizer that was fenced this often in one period stops, because another one is running."""

MIN_SLEEP_S = 0.01
"""Shortest sleep in seconds. A shorter one may be rounded to a sleep that ends before the release time, repeatedly."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Offload = Callable[..., Awaitable[Any]]
"""Runs a slow function without blocking the event loop. Simulations call the function directly."""


class SynthesizerObserver(Protocol):
    """Receives the progress of a synthesizer. No call depends on a draw that is not published."""

    def watermark(self, period: Period) -> None:
        """Every partition has sent its tally of this period."""
        ...

    def persisted(self, period: Period, size: int) -> None:
        """The state file has `size` bytes. Called once the period is published, because the size may depend on the draw."""
        ...

    def waiting(self, period: Period, until: datetime) -> None:
        """A period is durable, and nothing of it is sent before its release time."""
        ...

    def due(self, period: Period, *, late: bool) -> None:
        """A period with a release time is about to be published. `late` is True if that time had passed already."""
        ...

    def released(self, period: Period, synthesis: Synthesis, steps: Mapping[str, Step] | None) -> None:
        """A period is published. `steps` is None if it was published before this session."""
        ...

    def fenced(self, period: Period) -> None:
        """Another synthesizer has taken over, or a transaction has timed out."""
        ...

    def mark_degraded(self, problem: str) -> None:
        """A session failed because of the log, and another one will be tried."""
        ...


@dataclass(frozen=True)
class SynthesizerPorts:
    """Everything outside of a synthesizer that it uses."""

    log: Log
    state_folder: StateFolder
    entropy: Entropy
    clock: Clock
    offload: Offload = asyncio.to_thread
    jitter: Callable[[float, float], float] = random.uniform
    """A random number of seconds between two limits, so that two synthesizers do not fence each other in lockstep."""
    reserve_memory: Callable[[int], None] = reserve_memory
    """Raises NotEnoughMemory if this number of bytes is not available."""


class Synthesizer:
    """The synthesizer of one study. It owns the state, and is the only process that draws noise."""

    def __init__(self, study: Study, fingerprint: bytes, ports: SynthesizerPorts, observer: SynthesizerObserver) -> None:
        self._study = study
        self._fingerprint = fingerprint
        self._ports = ports
        self._observer = observer
        self._topics = Topics(study.name)
        self._fenced: dict[Period, int] = {}
        self._period = Period(0)
        self._watermark = Period(0)
        self._backoff = Backoff(MIN_RETRY_PAUSE_S, MAX_RETRY_PAUSE_S)
        self._abandoned: tuple[bytes, ...] = ()
        """Digests of lost draws of the next period, which its ledger record must name."""
        self._study_digest = b""
        self._ended = False
        """Whether a period is published with which an open study ends."""
        self.started = asyncio.Event()
        """Set once the start has succeeded: state folder and ledger agree, and the tallies can be read from the first on."""

    async def run(self) -> None:
        """Release every period; returns when the last one is published. Raises Refused if that could break a promise."""
        while True:
            try:
                return await self._session()
            except Fenced:
                await self._after_fencing()
            except OutcomeUnknown as unknown:
                await self._pause_after("outcome unknown", unknown)
            except LogUnavailable as unavailable:
                await self._pause_after("the broker is away", unavailable)
            except OffsetLost as lost:
                raise _records_lost(lost) from None

    async def check(self) -> None:
        """Raise Refused if `run` would refuse to start now. Changes nothing."""
        try:
            await self._check_before_fencing()
        except OffsetLost as lost:
            raise _records_lost(lost) from None

    async def _pause_after(self, problem: str, error: LogUnavailable | OutcomeUnknown) -> None:
        pause = self._backoff.next_pause()
        self._observer.mark_degraded(f"{problem}, trying again in {pause:g} s: {error}")
        await self._ports.clock.sleep(pause)

    async def _after_fencing(self) -> None:
        period = Period(self._period + 1)
        self._fenced = {period: self._fenced.get(period, 0) + 1}
        self._observer.fenced(period)
        if self._fenced[period] >= MAX_FENCED:
            raise WriterConflict(
                f"fenced {MAX_FENCED} times in period {period}: another synthesizer of study {self._study.name} is running, "
                "or transactions time out"
            )
        await self._ports.clock.sleep(self._ports.jitter(1, 5))

    async def _session(self) -> None:
        """Work from reading the published state to the end of the study, or to the first error."""
        await self._check_before_fencing()
        producer = await self._ports.log.transactional_producer(self._topics.transactional_id)
        try:
            await producer.fence()
            await self._wait_for_open_transactions()
            checkpoint, snapshot, action = await self._decide()
            synthesis, head = await self._catch_up(producer, checkpoint, snapshot, action)
            self._backoff.reset()
            await self._follow(producer, synthesis, head)
        finally:
            await producer.close()

    async def _check_before_fencing(self) -> None:
        """Raise Refused if state folder and ledger contradict each other.

        A refusal is confirmed once no transaction is open, because a committed record may not be readable yet.
        """
        try:
            await self._decide()
        except Refused:
            if not await wait_for_open_transactions(self._ports.log, self._topics.ledger, self._ports.clock):
                raise
            await self._decide()

    async def _decide(self) -> tuple[Checkpoint | None, LedgerSnapshot, RecoveryAction]:
        snapshot = await read_published_state(self._ports.log, self._study)
        if snapshot.ledger is not None:
            insecure = self._ports.entropy.insecure
            require_same_study(snapshot.ledger.study, self._study, self._fingerprint, insecure=insecure)
        check_columns_exist(snapshot, self._study)
        checkpoint = await self._ports.offload(read_checkpoint, self._ports.state_folder, self._fingerprint)
        found = local_state(self._ports.state_folder, self._fingerprint, checkpoint)
        self._period = snapshot.ledger.period if snapshot.ledger else Period(0)
        self._ended = snapshot.ledger is not None and snapshot.ledger.is_over
        return checkpoint, snapshot, decide(found, snapshot.published_state, used=snapshot.used)

    async def _wait_for_open_transactions(self) -> None:
        """Raise WriterConflict if a transaction stays open on a public topic after fencing: its outcome is not known."""
        public = [self._topics.ledger, *(self._topics.synthetic(release.name) for release in self._study.releases)]
        log, clock = self._ports.log, self._ports.clock
        for topic in public:
            if not await wait_for_open_transactions(log, topic, clock):
                raise WriterConflict(
                    f"topic {topic}: somebody else's transaction stays open on it; only the synthesizer may write there"
                )

    async def _catch_up(
        self,
        producer: TransactionalProducer,
        checkpoint: Checkpoint | None,
        snapshot: LedgerSnapshot,
        action: RecoveryAction,
    ) -> tuple[Synthesis | None, bytes]:
        """Take the recovery action. Returns the synthesis to continue with and the digest of the last ledger record."""
        if action is RecoveryAction.BEGIN:
            record = StudyRecord(public_values(self._study), self._fingerprint, self._ports.entropy.insecure).encode()
            await producer.begin()
            await producer.send(self._topics.ledger, 0, record)
            await producer.commit()
            self._study_digest = digest(record)
            return None, self._study_digest
        assert snapshot.ledger is not None
        self._study_digest = snapshot.ledger.study_digest
        if checkpoint is None:
            return None, snapshot.ledger.head
        if action is RecoveryAction.PUBLISH:
            await self._publish(producer, checkpoint.pending, announced=checkpoint.pending.digest in snapshot.ledger.intents)
        elif action is RecoveryAction.MARK_PUBLISHED:
            await self._ports.offload(mark_published, self._ports.state_folder, self._fingerprint, checkpoint.pending)
        self._period = checkpoint.synthesis.period
        self._ended = checkpoint.pending.last
        # If state folder and ledger end at the same period, the steward has accepted the loss of what is announced next.
        self._abandoned = () if action is RecoveryAction.PUBLISH else snapshot.ledger.intents
        self._observer.released(checkpoint.synthesis.period, checkpoint.synthesis, None)
        return checkpoint.synthesis, checkpoint.pending.digest

    async def _follow(self, producer: TransactionalProducer, synthesis: Synthesis | None, head: bytes) -> None:
        """Release periods as their tallies are completed, up to the last one."""
        if self._is_over:
            self.started.set()
            return
        if synthesis is None:
            # Designing the measurements can take minutes, so it does not wait for the first tallies.
            await self._ports.offload(design_mechanisms, self._study)
        tallies = await TallyReader.open(self._ports.log, self._study)
        try:
            self.started.set()
            while not self._is_over:
                tallies.forget(self._period)
                tally = await self._next_tally(tallies)
                synthesis, head = await self._release(producer, synthesis, tally, head)
        finally:
            await tallies.close()

    @property
    def _is_over(self) -> bool:
        return self._ended or self._period == self._study.last_period

    async def _next_tally(self, tallies: TallyReader) -> StudyTally:
        while (tally := tallies.complete(Period(self._period + 1))) is None:
            await tallies.poll(timeout=0.5)
            # A reader that was opened again has not read as far as the one before.
            self._watermark = max(self._watermark, tallies.watermark)
            self._observer.watermark(self._watermark)
        return tally

    async def _release(
        self, producer: TransactionalProducer, synthesis: Synthesis | None, tally: StudyTally, head: bytes
    ) -> tuple[Synthesis, bytes]:
        before = synthesis or await self._ports.offload(self._first_synthesis, tally)
        self._check_people(before, tally)
        await self._ports.offload(self._ports.state_folder.reserve_space, STATE_FILE, max_state_size(before))
        await self._ports.offload(self._ports.reserve_memory, max_step_memory(before))
        after, steps = await self._ports.offload(before.step, tally.counts, self._ports.entropy)
        abandoned, self._abandoned = self._abandoned, ()
        salt = self._ports.entropy.salt(after.period)
        build = partial(build_pending_release, last=tally.last, study_digest=self._study_digest)
        pending = await self._ports.offload(build, self._topics, before, after, steps, head, salt, abandoned)
        checkpoint = Checkpoint(after, pending, abandoned)
        size = await self._ports.offload(write_checkpoint, self._ports.state_folder, self._fingerprint, checkpoint)
        await self._publish(producer, pending, announced=False)
        self._period, self._ended = after.period, pending.last
        self._observer.persisted(after.period, size)
        self._observer.released(after.period, after, steps)
        return after, pending.digest

    def _first_synthesis(self, tally: StudyTally) -> Synthesis:
        people = 0 if self._study.is_open else population_size(tally)
        return Synthesis.start(make_contracts(self._study, people, self._ports.entropy))

    def _check_people(self, synthesis: Synthesis, tally: StudyTally) -> None:
        if any(not contract.is_open and contract.n != tally.people for contract in synthesis.contracts.values()):
            problem = "its tallies are of another number of people than the study's"
            raise TallyConflict(f"period {tally.period}: {problem}", period=tally.period)

    async def _publish(self, producer: TransactionalProducer, pending: PendingRelease, *, announced: bool) -> None:
        timestamp = await self._wait_for_release_time(pending.period)
        if not announced:
            await producer.begin()
            intent = Intent(pending.period, pending.digest).encode()
            await producer.send(self._topics.ledger, 0, intent, timestamp=timestamp)
            await producer.commit()
        await producer.begin()
        for record in pending.outgoing:
            await producer.send(record.topic, 0, record.value, timestamp=timestamp)
        await producer.commit()
        await self._ports.offload(mark_published, self._ports.state_folder, self._fingerprint, pending)

    async def _wait_for_release_time(self, period: Period) -> int:
        """Wait until the period may be published. Returns the timestamp of its records in milliseconds since 1970.

        The timestamp depends on the schedule only. The producer is idle in the meantime. If the broker has forgotten it, the
        next call fails, and a new session publishes what is in the state folder.
        """
        schedule, clock = self._study.schedule, self._ports.clock
        if schedule is None or schedule.release_after is None:
            return NO_TIME
        planned = schedule.release_of(period)
        late = clock.now() >= planned
        if not late:
            # A start that comes here has succeeded, so gatherers and the schedule need not wait for the release time.
            self.started.set()
            self._observer.waiting(period, planned)
        while (left := (planned - clock.now()).total_seconds()) > 0:
            # The clock may be adjusted during a sleep.
            await clock.sleep(min(max(left, MIN_SLEEP_S), MAX_SLEEP_S))
        self._observer.due(period, late=late)
        return max((planned - EPOCH) // timedelta(milliseconds=1), NO_TIME)


def _records_lost(lost: OffsetLost) -> TopicLost:
    return TopicLost(
        lost.topic, "the log begins later or ends earlier than it must; keep a study's topics and do not recreate them"
    )
