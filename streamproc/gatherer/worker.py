"""A gatherer: reads one partition, settles periods as cuts come, sends tallies, and checkpoints."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeAlias

from streamproc.errors import Malformed, OffsetLost, Refused
from streamproc.gatherer.logic import GathererLogic, PartitionContext
from streamproc.gatherer.reject_writer import RejectWriter
from streamproc.log.control_topic import ControlFollower
from streamproc.log.port import Log, Offset, Reader, read_to_end
from streamproc.privacy.types import Period
from streamproc.protocol.control import Cut
from streamproc.protocol.ledger import StudyRecord, decode_ledger
from streamproc.protocol.rejects import Reason, Reject
from streamproc.protocol.state_file import pack_arrays, seal, unpack_arrays, unseal
from streamproc.protocol.tallies import Tally
from streamproc.protocol.topics import Topics
from streamproc.storage.clock import Clock
from streamproc.storage.state_folder import StateFolder
from streamproc.study import Study
from streamproc.study.fingerprint import fingerprint, roster_digest

READ_BATCH = 20_000
"""Records read, or rejects sent, at once at most: each time the broker is asked a few questions besides."""

Save: TypeAlias = Callable[[GathererLogic, Offset], int]
"""Writes a checkpoint."""


class GathererObserver(Protocol):
    """Who is told about progress: the operator, since all of it depends on private data."""

    def resumed(self, partition: int, period: Period, people: int, lag: int, size: int | None) -> None:
        """The gatherer starts to read, with `lag` records to read.

        `size` is that of the checkpoint it resumed from, in bytes; None if it reads the log from its start.
        """
        ...

    def read(self, partition: int, records: int, lag: int) -> None: ...
    def rejected(self, partition: int, counts: Mapping[Reason, int]) -> None:
        """So many reports were rejected for each reason; the reject of their record may be written later."""
        ...

    def tallied(self, partition: int, period: Period, people: int) -> None: ...
    def checkpointed(self, partition: int, size: int) -> None: ...
    def waits_for_study(self, partition: int) -> None:
        """The study has not begun, so there is nothing to read yet; called repeatedly until it begins."""
        ...

    def caught_up(self, partition: int) -> None:
        """All that could be read when the gatherer resumed is read; called repeatedly from then on."""
        ...

    def up_to_date(self, partition: int) -> None:
        """Every closed period is tallied; called repeatedly while that is so."""
        ...


class RejectsPosition(Protocol):
    """Knows from where on the rejects topic must be read by who resumes."""

    @property
    def position(self) -> Offset: ...


@dataclass(frozen=True)
class GathererPorts:
    """Everything a gatherer touches."""

    log: Log
    disk: StateFolder
    clock: Clock
    offload: Callable[..., Awaitable[Any]] = asyncio.to_thread


class Gatherer:
    """One partition's gatherer. It may be stopped at any moment and started again, here or elsewhere."""

    def __init__(
        self, study: Study, partition: int, roster: Sequence[str] | None, ports: GathererPorts, observer: GathererObserver
    ) -> None:
        self._study = study
        self._partition = partition
        self._roster = roster
        self._ports = ports
        self._observer = observer
        self._topics = Topics(study.name)
        self._file = f"gather-{partition}.state"
        self._resumed_bytes: int | None = None
        """The size of the checkpoint that it resumed from; None if there was none."""

    async def run(self) -> None:
        """Gather until period `T` is tallied."""
        control = await ControlFollower.open(self._ports.log, self._study)
        try:
            key = await self._key(control)
            roster = self._roster
            digest = None if roster is None else await self._ports.offload(roster_digest, roster, key)
            mark = fingerprint(self._study, digest)
            await self._wait_for_study(mark)
            place = PartitionContext(self._study, self._partition, key, self._roster)
            gathering, position, topic, rejects_from = await self._ports.offload(self._resume, place, mark)
            await self._ports.offload(_add_cuts, gathering, control.sequence.cuts[gathering.period :])
            reader = await self._ports.log.reader(self._topics.reports, self._partition, position)
            try:
                if topic not in (None, reader.topic_id):
                    raise Refused(
                        f"state file {self._file}: of another topic {self._topics.reports}, which must never be created "
                        "anew; if it is a true copy, delete the file, and the gatherer replays it"
                    )
                await self._tell_resumed(gathering, reader)
                rejects = await RejectWriter.open(
                    self._ports.log, self._topics.rejects, self._partition, rejects_from, self._ports.offload
                )
                try:
                    save = partial(self._save, place, mark, topic=reader.topic_id, rejects=rejects)
                    await self._gather(gathering, control, reader, rejects, save)
                finally:
                    await rejects.close()
            finally:
                await reader.close()
        except OffsetLost as lost:
            # How many records there are is not for everybody who sees this line.
            raise Refused(
                f"{lost.topic}/{lost.partition}: the log begins later or ends earlier than it must; reports and cuts "
                "must be kept for ever, and their topics never be created anew"
            ) from None
        finally:
            await control.close()

    async def _key(self, control: ControlFollower) -> bytes:
        while control.key is None:
            await control.poll(timeout=0.5)
            if control.key is None:
                self._observer.waits_for_study(self._partition)
        await control.catch_up(await self._ports.log.last_stable_offset(self._topics.control, 0))
        return control.key

    async def _wait_for_study(self, mark: bytes) -> None:
        """Nothing is sent before the synthesizer has begun the study: topics it finds in use then are of another run."""
        while True:
            async with aclosing(read_to_end(self._ports.log, self._topics.ledger)) as records:
                async for record in records:
                    self._check_study(record.value, mark)
                    return
            self._observer.waits_for_study(self._partition)
            await self._ports.clock.sleep(0.2)

    def _check_study(self, value: bytes | None, mark: bytes) -> None:
        try:
            record = decode_ledger(value)
        except Malformed:
            record = None
        if not isinstance(record, StudyRecord):
            raise Refused(f"topic {self._topics.ledger}: does not begin with a study record")
        if record.fingerprint != mark:
            raise Refused(f"study {self._study.name}: its ledger was begun with other values; a study cannot change")

    def _resume(self, place: PartitionContext, mark: bytes) -> tuple[GathererLogic, Offset, bytes | None, Offset]:
        """The state, how far it has read, in which topic, and from where on the rejects topic must be read.

        Before version 2 of state files the topic is None, before version 3 all rejects must be read.
        """
        content = self._ports.disk.read(self._file)
        self._resumed_bytes = None if content is None else len(content)
        if content is None:
            return GathererLogic(place), Offset(0), None, Offset(0)
        try:
            state = unpack_arrays(unseal(content, mark))
            if state["key"] != place.key_mark:
                raise Refused(f"state file {self._file}: not of the study's key; was the control topic created anew?")
            gathering = GathererLogic.restored(place, state["arrays"])
            return gathering, Offset(state["position"]), state.get("topic"), Offset(state.get("rejects", 0))
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            reason = error.reason if isinstance(error, Malformed) else "its content does not fit together"
            raise Refused(f"state file {self._file}: {reason}; delete it, and the gatherer replays the log") from None

    async def _gather(
        self, gathering: GathererLogic, control: ControlFollower, reader: Reader, writer: RejectWriter, save: Save
    ) -> None:
        # Not the high watermark: a reporter's open transaction would decide when this gatherer has caught up.
        end = await self._ports.log.last_stable_offset(self._topics.reports, self._partition)
        while gathering.period < self._study.horizon:
            if gathering.paused:
                await self._ports.clock.sleep(0.2)
                await self._tell_read(reader, 0)
            else:
                await self._read_on(gathering, reader)
            cuts = await control.poll(timeout=0.0)
            tallies, rejects, counts = await self._ports.offload(_close_periods, gathering, cuts, reader.position)
            if counts:
                self._observer.rejected(self._partition, counts)
            # Rejects precede the checkpoint that follows them: what it does not hold is made again.
            await self._report(writer, rejects)
            if tallies:
                await self._send(tallies)
                await writer.catch_up()
                size = await self._ports.offload(save, gathering, reader.position)
                self._observer.checkpointed(self._partition, size)
            if gathering.next_cut_offset() is None:
                self._observer.up_to_date(self._partition)
            if reader.position >= end or gathering.paused:
                self._observer.caught_up(self._partition)
        self._observer.caught_up(self._partition)

    async def _read_on(self, gathering: GathererLogic, reader: Reader) -> None:
        records = await reader.read(max_records=READ_BATCH, timeout=0.2)
        if records:
            await self._ports.offload(gathering.ingest, records)
            await self._tell_read(reader, len(records))

    async def _tell_resumed(self, gathering: GathererLogic, reader: Reader) -> None:
        lag = await self._lag(reader)
        self._observer.resumed(self._partition, gathering.period, gathering.people, lag, self._resumed_bytes)

    async def _tell_read(self, reader: Reader, records: int) -> None:
        self._observer.read(self._partition, records, await self._lag(reader))

    async def _lag(self, reader: Reader) -> int:
        end = await self._ports.log.high_watermark(self._topics.reports, self._partition)
        return max(end - reader.position, 0)

    async def _report(self, writer: RejectWriter, rejects: Sequence[Reject]) -> None:
        # A log gives each call only so much time.
        for first in range(0, len(rejects), READ_BATCH):
            await writer.write(rejects[first : first + READ_BATCH])

    async def _send(self, tallies: Sequence[Tally]) -> None:
        for tally in tallies:
            await self._ports.log.append_many(self._topics.tallies, 0, [(tally.key, value) for value in tally.encode()])
            self._observer.tallied(self._partition, tally.period, tally.people)

    def _save(
        self,
        place: PartitionContext,
        mark: bytes,
        gathering: GathererLogic,
        position: Offset,
        topic: bytes,
        rejects: RejectsPosition,
    ) -> int:
        """Checkpoint: the state and how far it has read, together. Answers with the file's size in bytes."""
        state = {
            "key": place.key_mark,
            "topic": topic,
            "position": position,
            "rejects": rejects.position,
            "arrays": gathering.arrays(),
        }
        content = seal(mark, pack_arrays(state))
        self._ports.disk.write(self._file, content)
        return len(content)


def _add_cuts(gathering: GathererLogic, cuts: Sequence[Cut]) -> None:
    for cut in cuts:
        gathering.add_cut(cut)


def _close_periods(
    gathering: GathererLogic, cuts: Sequence[Cut], position: Offset
) -> tuple[list[Tally], list[Reject], Mapping[Reason, int]]:
    """The tallies and the rejects to be sent, once these cuts are known and all below `position` is ingested.

    The third value counts the reports that were rejected since the last call, for each reason.
    """
    _add_cuts(gathering, cuts)
    return gathering.close_periods(position), gathering.drain_rejects(), gathering.drain_reject_counts()
