"""The synthesizer: look, fence, look again; then persist, announce, publish and settle, one period after the other.

Whatever goes wrong with the log leaves the outcome unknown, so there is one way out of every error: drop the transactor and
begin again at *look*. What was drawn is on disk before any byte of it leaves, so it is never drawn again.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from streamproc.errors import Fenced, LogUnavailable, OffsetLost, OutcomeUnknown, Refused
from streamproc.log.port import NO_TIME, Log, TransactionalProducer
from streamproc.privacy.noise import Entropy
from streamproc.privacy.types import Period
from streamproc.protocol.ledger import Intent, StudyRecord, digest
from streamproc.protocol.topics import Topics
from streamproc.releases.contracts import make_contracts
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
from streamproc.synthesizer.recovery import (
    LedgerSnapshot,
    RecoveryAction,
    check_columns_exist,
    decide,
    read_published_state,
    require_same_study,
    wait_for_open_transactions,
)
from streamproc.synthesizer.scheduler import MAX_SLEEP_S
from streamproc.synthesizer.state_size import max_state_size, max_step_memory, reserve_memory
from streamproc.synthesizer.tally_reader import StudyTally, TallyReader, population_size

MAX_FENCED = 3
"""Fenced this often in one period, another synthesizer is alive: it is better to stop than to fight."""

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
"""Seconds before trying again: doubled from the one to the other while nothing works."""

MIN_SLEEP_S = 0.01
"""Seconds: less may round to a sleep that ends before the release time, again and again."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Offload = Callable[..., Awaitable[Any]]
"""Runs a slow function without stopping the loop; simulations run it in place."""


class SynthesizerObserver(Protocol):
    """Who is told about progress; nothing it is told depends on a draw that is not published."""

    def watermark(self, period: Period) -> None: ...
    def persisted(self, period: Period, size: int) -> None:
        """The size of the state file, in bytes, with a period that is published: it may depend on the draw."""
        ...

    def waiting(self, period: Period, until: datetime) -> None:
        """A period is durable, and nothing of it leaves before its release time."""
        ...

    def due(self, period: Period, *, late: bool) -> None:
        """A period with a release time is about to be announced and published; `late`: there was nothing to wait for."""
        ...

    def released(self, period: Period, synthesis: Synthesis, steps: Mapping[str, Step] | None) -> None: ...
    def fenced(self, period: Period) -> None: ...
    def mark_degraded(self, problem: str) -> None: ...


@dataclass(frozen=True)
class SynthesizerPorts:
    """Everything a synthesizer touches."""

    log: Log
    disk: StateFolder
    entropy: Entropy
    clock: Clock
    offload: Offload = asyncio.to_thread
    jitter: Callable[[float, float], float] = random.uniform
    """A random number of seconds between two: so that two that fight do not stay in step."""
    reserve_memory: Callable[[int], None] = reserve_memory
    """Raises an error if so many bytes of memory cannot be had."""


class Synthesizer:
    """One actor per study: it owns the state, and nobody else draws."""

    def __init__(self, study: Study, fingerprint: bytes, ports: SynthesizerPorts, observer: SynthesizerObserver) -> None:
        self._study = study
        self._fingerprint = fingerprint
        self._ports = ports
        self._observer = observer
        self._topics = Topics(study.name)
        self._fenced: dict[Period, int] = {}
        self._period = Period(0)
        self._watermark = Period(0)
        self._pause = FIRST_PAUSE
        self._abandoned: tuple[bytes, ...] = ()
        """Lost draws of the next period that its record must name."""
        self.started = asyncio.Event()
        """Set once a start was not refused: disk and ledger agree, and tallies can be read from the first on."""

    async def run(self) -> None:
        """Release every period; returns when period `T` is published, at once if it was before."""
        while True:
            try:
                return await self._session()
            except Fenced:
                await self._after_fencing()
            except OutcomeUnknown as unknown:
                await self._after_trouble(f"outcome unknown, looking again in {self._pause:g} s: {unknown}")
            except LogUnavailable as away:
                await self._after_trouble(f"the broker is away, trying again in {self._pause:g} s: {away}")
            except OffsetLost as lost:
                raise _lost_records(lost) from None

    async def check(self) -> None:
        """Raise Refused if `run` would refuse to start now. Changes nothing."""
        try:
            await self._look_before_fencing()
        except OffsetLost as lost:
            raise _lost_records(lost) from None

    async def _after_trouble(self, problem: str) -> None:
        self._observer.mark_degraded(problem)
        await self._ports.clock.sleep(self._pause)
        self._pause = min(2 * self._pause, LONGEST_PAUSE)

    async def _after_fencing(self) -> None:
        period = Period(self._period + 1)
        self._fenced[period] = self._fenced.get(period, 0) + 1
        self._observer.fenced(period)
        if self._fenced[period] >= MAX_FENCED:
            raise Refused(
                f"fenced {MAX_FENCED} times in period {period}: another synthesizer of study {self._study.name} is running, "
                "or transactions time out"
            )
        await self._ports.clock.sleep(self._ports.jitter(1, 5))

    async def _session(self) -> None:
        """From one look to the end of the study, or to the first error."""
        await self._look_before_fencing()
        transactor = await self._ports.log.transactional_producer(self._topics.transactional_id)
        try:
            await transactor.fence()
            await self._wait_until_quiet()
            stored, seen, move = await self._look_and_decide()
            synthesis, head = await self._catch_up(transactor, stored, seen, move)
            self._pause = FIRST_PAUSE
            await self._follow(transactor, synthesis, head)
        finally:
            await transactor.close()

    async def _look_before_fencing(self) -> None:
        """Refuse what cannot match, but not for a record that is committed and cannot be read yet."""
        try:
            await self._look_and_decide()
        except Refused:
            if not await wait_for_open_transactions(self._ports.log, self._topics.ledger, self._ports.clock):
                raise
            await self._look_and_decide()

    async def _look_and_decide(self) -> tuple[Checkpoint | None, LedgerSnapshot, RecoveryAction]:
        seen = await read_published_state(self._ports.log, self._study)
        require_same_study(seen, self._study, self._fingerprint, insecure=self._ports.entropy.insecure)
        check_columns_exist(seen, self._study)
        stored = await self._ports.offload(read_checkpoint, self._ports.disk, self._fingerprint)
        found = local_state(self._ports.disk, self._fingerprint, stored)
        self._period = seen.ledger.period if seen.ledger else Period(0)
        return stored, seen, decide(found, seen.published_state, used=seen.used)

    async def _wait_until_quiet(self) -> None:
        """After fencing no transaction may be open on our topics, or a reader could not tell what is final."""
        mine = [self._topics.ledger, *(self._topics.synthetic(release.name) for release in self._study.releases)]
        log, clock = self._ports.log, self._ports.clock
        for topic in mine:
            if not await wait_for_open_transactions(log, topic, clock):
                raise Refused(
                    f"topic {topic}: somebody else's transaction stays open on it; only the synthesizer may write there"
                )

    async def _catch_up(
        self, transactor: TransactionalProducer, stored: Checkpoint | None, seen: LedgerSnapshot, move: RecoveryAction
    ) -> tuple[Synthesis | None, bytes]:
        """Make disk and ledger agree; answers with the synthesis to go on with and the digest of the last ledger record."""
        if move is RecoveryAction.BEGIN:
            record = StudyRecord(public_values(self._study), self._fingerprint, self._ports.entropy.insecure).encode()
            await transactor.begin()
            await transactor.send(self._topics.ledger, 0, record)
            await transactor.commit()
            return None, digest(record)
        if stored is None:
            assert seen.ledger is not None
            return None, seen.ledger.head
        if move is RecoveryAction.PUBLISH:
            assert seen.ledger is not None
            await self._publish(transactor, stored.pending, announced=stored.pending.digest in seen.ledger.intents)
        elif move is RecoveryAction.MARK_PUBLISHED:
            await self._ports.offload(mark_published, self._ports.disk, self._fingerprint, stored.pending)
        self._period = stored.synthesis.period
        # Where disk and ledger end at the same period, what is announced for the next is what the steward gave up.
        self._abandoned = () if move is RecoveryAction.PUBLISH or seen.ledger is None else seen.ledger.intents
        self._observer.released(stored.synthesis.period, stored.synthesis, None)
        return stored.synthesis, stored.pending.digest

    async def _follow(self, transactor: TransactionalProducer, synthesis: Synthesis | None, head: bytes) -> None:
        """Release periods as their tallies come in, until `T`."""
        if self._period == self._study.horizon:
            self.started.set()
            return
        inbox = await TallyReader.open(self._ports.log, self._study)
        try:
            self.started.set()
            while self._period < self._study.horizon:
                inbox.forget(self._period)
                tally = await self._next_tally(inbox)
                synthesis, head = await self._release(transactor, synthesis, tally, head)
        finally:
            await inbox.close()

    async def _next_tally(self, inbox: TallyReader) -> StudyTally:
        while (tally := inbox.complete(Period(self._period + 1))) is None:
            await inbox.poll(timeout=0.5)
            # An inbox that was opened again has not read as far as the one before.
            self._watermark = max(self._watermark, inbox.watermark)
            self._observer.watermark(self._watermark)
        return tally

    async def _release(
        self, transactor: TransactionalProducer, synthesis: Synthesis | None, tally: StudyTally, head: bytes
    ) -> tuple[Synthesis, bytes]:
        before = synthesis or self._first_synthesis(tally)
        self._check_people(before, tally)
        await self._ports.offload(self._ports.disk.reserve_space, STATE_FILE, max_state_size(before))
        await self._ports.offload(self._ports.reserve_memory, max_step_memory(before))
        after, steps = await self._ports.offload(before.step, tally.counts, self._ports.entropy)
        abandoned, self._abandoned = self._abandoned, ()
        salt = self._ports.entropy.salt(after.period)
        drafted = await self._ports.offload(build_pending_release, self._topics, before, after, steps, head, salt, abandoned)
        stored = Checkpoint(after, drafted, abandoned)
        size = await self._ports.offload(write_checkpoint, self._ports.disk, self._fingerprint, stored)
        await self._publish(transactor, drafted, announced=False)
        self._period = after.period
        self._observer.persisted(after.period, size)
        self._observer.released(after.period, after, steps)
        return after, drafted.digest

    def _first_synthesis(self, tally: StudyTally) -> Synthesis:
        return Synthesis.start(make_contracts(self._study, population_size(tally), self._ports.entropy))

    def _check_people(self, synthesis: Synthesis, tally: StudyTally) -> None:
        if any(contract.n != tally.people for contract in synthesis.contracts.values()):
            raise Refused(f"period {tally.period}: its tallies are of another number of people than the study's")

    async def _publish(self, transactor: TransactionalProducer, drafted: PendingRelease, *, announced: bool) -> None:
        timestamp = await self._wait_for_release_time(drafted.period)
        if not announced:
            await transactor.begin()
            intent = Intent(drafted.period, drafted.digest).encode()
            await transactor.send(self._topics.ledger, 0, intent, timestamp=timestamp)
            await transactor.commit()
        await transactor.begin()
        for record in drafted.outgoing:
            await transactor.send(record.topic, 0, record.value, timestamp=timestamp)
        await transactor.commit()
        await self._ports.offload(mark_published, self._ports.disk, self._fingerprint, drafted)

    async def _wait_for_release_time(self, period: Period) -> int:
        """Return when the period may leave, with the timestamp of its records in milliseconds since 1970.

        The timestamp follows from the schedule alone. The transactor is idle meanwhile; should the broker forget it, the
        next call fails and the session begins again with what is on disk.
        """
        schedule, clock = self._study.schedule, self._ports.clock
        if schedule is None or schedule.release_after is None:
            return NO_TIME
        planned = schedule.release_of(period)
        late = clock.now() >= planned
        if not late:
            # Also at a start, which was not refused then: gatherers and the schedule need not wait.
            self.started.set()
            self._observer.waiting(period, planned)
        while (left := (planned - clock.now()).total_seconds()) > 0:
            # The clock may be set meanwhile.
            await clock.sleep(min(max(left, MIN_SLEEP_S), MAX_SLEEP_S))
        self._observer.due(period, late=late)
        return max((planned - EPOCH) // timedelta(milliseconds=1), NO_TIME)


def _lost_records(lost: OffsetLost) -> Refused:
    return Refused(
        f"{lost.topic}: the log begins later or ends earlier than it must; keep a study's topics and do not recreate them"
    )
