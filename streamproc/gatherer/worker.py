"""A gatherer: reads the reports of one partition, closes periods at their cuts, sends tallies, and writes checkpoints."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeAlias

from streamproc.errors import Malformed, OffsetLost, StateFileUnusable, TopicLost
from streamproc.gatherer.departed import stored_digests
from streamproc.gatherer.logic import GathererLogic
from streamproc.gatherer.open_logic import OpenGathererLogic
from streamproc.gatherer.partition_logic import PartitionContext, PartitionLogic
from streamproc.gatherer.reject_writer import RejectWriter
from streamproc.gatherer.segment_files import read_segments, write_segments
from streamproc.log.control_topic import ControlFollower
from streamproc.log.port import Log, Offset, Reader, read_to_end
from streamproc.privacy.types import Period
from streamproc.protocol.control import Cut
from streamproc.protocol.ledger import decode_study_record, require_same_study
from streamproc.protocol.rejects import Reason, Reject
from streamproc.protocol.state_file import OldStateFile, pack_arrays, seal, unpack_arrays, unseal
from streamproc.protocol.tallies import Tally
from streamproc.protocol.topics import Topics
from streamproc.storage.clock import Clock
from streamproc.storage.state_folder import StateFolder
from streamproc.study import Study
from streamproc.study.fingerprint import fingerprint as fingerprint_of
from streamproc.study.fingerprint import roster_digest

READ_BATCH = 20_000
"""Maximum number of records per read and of rejects per append. Each call also costs a few metadata requests."""

Save: TypeAlias = Callable[[PartitionLogic, Offset], int]
"""Writes a checkpoint of the logic and the position up to which it has read; returns its size in bytes."""


class GathererObserver(Protocol):
    """Receives the progress of a gatherer. All of it depends on private data, so only the operator may see it."""

    def resumed(self, partition: int, period: Period, people: int, lag: int, size: int | None) -> None:
        """The gatherer starts to read, `lag` records before the end of the log.

        `size` is the size in bytes of the checkpoint that it resumes from; None if it reads the log from its start.
        """
        ...

    def read(self, partition: int, records: int, lag: int) -> None:
        """The gatherer has read this many records, and `lag` records are left to read."""
        ...

    def rejected(self, partition: int, counts: Mapping[Reason, int]) -> None:
        """This many reports were rejected for each reason. The reject of their record may be written later."""
        ...

    def tallied(self, partition: int, period: Period, people: int) -> None:
        """The tally of a period was sent; the partition has this many individuals."""
        ...

    def checkpointed(self, partition: int, size: int) -> None:
        """A checkpoint of `size` bytes was written."""
        ...

    def waits_for_study(self, partition: int) -> None:
        """The study has not begun, so there is nothing to read yet; called repeatedly until it begins."""
        ...

    def caught_up(self, partition: int) -> None:
        """Everything that was readable when the gatherer resumed has been read; called repeatedly from then on."""
        ...

    def up_to_date(self, partition: int) -> None:
        """Every closed period is tallied; called repeatedly while this holds."""
        ...


class RejectsPosition(Protocol):
    """A position in the rejects topic."""

    @property
    def position(self) -> Offset:
        """The offset from which a gatherer that resumes must read the rejects topic."""
        ...


@dataclass(frozen=True)
class GathererPorts:
    """Everything outside of a gatherer that it uses."""

    log: Log
    state_folder: StateFolder
    clock: Clock
    offload: Callable[..., Awaitable[Any]] = asyncio.to_thread
    """Runs a slow function without blocking the event loop."""


class Gatherer:
    """The gatherer of one partition. It can be stopped at any moment and started again, on this machine or another."""

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
        """The size in bytes of the checkpoint that it resumed from; None if there was none."""

    async def run(self) -> None:
        """Gather until the last period of the study is tallied.

        Raises StudyChanged, LedgerConflict, StateFileUnusable or TopicLost if the log or the checkpoint is not the study's.
        """
        control = await ControlFollower.open(self._ports.log, self._study)
        try:
            key = await self._key(control)
            roster = self._roster
            digest = None if roster is None else await self._ports.offload(roster_digest, roster, key)
            fingerprint = fingerprint_of(self._study, digest)
            await self._wait_for_study(fingerprint)
            context = PartitionContext(self._study, self._partition, key, self._roster)
            logic, position, topic_id, rejects_position = await self._ports.offload(self._resume, context, fingerprint)
            await self._ports.offload(_add_cuts, logic, control.sequence.cuts[logic.period :])
            reader = await self._ports.log.reader(self._topics.reports, self._partition, position)
            try:
                if topic_id not in (None, reader.topic_id):
                    raise StateFileUnusable(
                        self._file,
                        f"belongs to an earlier incarnation of topic {self._topics.reports}, which was deleted and "
                        "recreated; if the new topic is a faithful copy, delete the file, and the gatherer replays it",
                    )
                await self._observe_resumed(logic, reader)
                rejects = await RejectWriter.open(
                    self._ports.log, self._topics.rejects, self._partition, rejects_position, self._ports.offload
                )
                try:
                    save = partial(self._save, context, fingerprint, topic_id=reader.topic_id, rejects=rejects)
                    await self._gather(logic, control, reader, rejects, save)
                finally:
                    await rejects.close()
            finally:
                await reader.close()
        except OffsetLost as lost:
            # The message contains no offsets, because the number of records is secret.
            raise TopicLost(
                f"{lost.topic}/{lost.partition}",
                "the log begins later or ends earlier than it must; reports and cuts must be kept forever, and their topics "
                "must never be recreated",
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

    async def _wait_for_study(self, fingerprint: bytes) -> None:
        """Wait until the synthesizer has begun the study, and check that it is this one.

        A gatherer sends nothing before, because a synthesizer does not begin a study whose topics are in use.
        """
        while True:
            async with aclosing(read_to_end(self._ports.log, self._topics.ledger)) as records:
                async for record in records:
                    require_same_study(decode_study_record(self._topics.ledger, record.value), self._study, fingerprint)
                    return
            self._observer.waits_for_study(self._partition)
            await self._ports.clock.sleep(0.2)

    def _resume(self, context: PartitionContext, fingerprint: bytes) -> tuple[PartitionLogic, Offset, bytes | None, Offset]:
        """The state, its position in the reports topic, the id of that topic, and the position in the rejects topic.

        State files before version 2 hold no topic id, which is then None. Those before version 3 hold no position in the
        rejects topic, which is then read from its start.
        """
        content = self._ports.state_folder.read(self._file)
        self._resumed_bytes = None if content is None else len(content)
        if content is None:
            new = OpenGathererLogic if context.study.is_open else GathererLogic
            return new(context), Offset(0), None, Offset(0)
        try:
            state = unpack_arrays(unseal(content, fingerprint))
            if state["key"] != context.key_fingerprint:
                raise StateFileUnusable(self._file, "not of the study's key; was the control topic recreated?")
            logic = self._restored(context, fingerprint, state["arrays"])
            return logic, Offset(state["position"]), state.get("topic"), Offset(state.get("rejects", 0))
        except OldStateFile as old:
            raise StateFileUnusable(self._file, old.reason) from None
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            reason = error.reason if isinstance(error, Malformed) else "its content does not fit together"
            raise StateFileUnusable(self._file, f"{reason}; delete it, and the gatherer replays the log") from None

    def _restored(self, context: PartitionContext, fingerprint: bytes, arrays: Mapping[str, Any]) -> PartitionLogic:
        if not context.study.is_open:
            return GathererLogic.restored(context, arrays)
        segments = read_segments(self._ports.state_folder, self._partition, fingerprint, stored_digests(arrays))
        return OpenGathererLogic.restored(context, arrays, segments)

    async def _gather(
        self, logic: PartitionLogic, control: ControlFollower, reader: Reader, writer: RejectWriter, save: Save
    ) -> None:
        # With the high watermark, an open transaction of a reporter would keep this gatherer from having caught up.
        end = await self._ports.log.last_stable_offset(self._topics.reports, self._partition)
        while not (control.sequence.is_over and logic.period == control.sequence.period):
            if logic.paused:
                await self._ports.clock.sleep(0.2)
                await self._observe_read(reader, 0)
            else:
                await self._read(logic, reader)
            cuts = await control.poll(timeout=0.0)
            tallies, rejects, counts = await self._ports.offload(_close_periods, logic, cuts, reader.position)
            if counts:
                self._observer.rejected(self._partition, counts)
            # Rejects are sent before the checkpoint is written: those after the last checkpoint are made again.
            await self._send_rejects(writer, rejects)
            if tallies:
                await self._send_tallies(tallies)
                await writer.catch_up()
                size = await self._ports.offload(save, logic, reader.position)
                self._observer.checkpointed(self._partition, size)
            if logic.next_cut_offset() is None:
                self._observer.up_to_date(self._partition)
            if reader.position >= end or logic.paused:
                self._observer.caught_up(self._partition)
        self._observer.caught_up(self._partition)

    async def _read(self, logic: PartitionLogic, reader: Reader) -> None:
        records = await reader.read(max_records=READ_BATCH, timeout=0.2)
        if records:
            await self._ports.offload(logic.ingest, records)
            await self._observe_read(reader, len(records))

    async def _observe_resumed(self, logic: PartitionLogic, reader: Reader) -> None:
        lag = await self._lag(reader)
        self._observer.resumed(self._partition, logic.period, logic.people, lag, self._resumed_bytes)

    async def _observe_read(self, reader: Reader, records: int) -> None:
        self._observer.read(self._partition, records, await self._lag(reader))

    async def _lag(self, reader: Reader) -> int:
        end = await self._ports.log.high_watermark(self._topics.reports, self._partition)
        return max(end - reader.position, 0)

    async def _send_rejects(self, writer: RejectWriter, rejects: Sequence[Reject]) -> None:
        # Several calls, because the log limits the time of each call.
        for first in range(0, len(rejects), READ_BATCH):
            await writer.write(rejects[first : first + READ_BATCH])

    async def _send_tallies(self, tallies: Sequence[Tally]) -> None:
        for tally in tallies:
            await self._ports.log.append_many(self._topics.tallies, 0, [(tally.key, value) for value in tally.encode()])
            self._observer.tallied(self._partition, tally.period, tally.people)

    def _save(
        self,
        context: PartitionContext,
        fingerprint: bytes,
        logic: PartitionLogic,
        position: Offset,
        topic_id: bytes,
        rejects: RejectsPosition,
    ) -> int:
        """Write a checkpoint: the state, and the positions that belong to it. Returns its size in bytes.

        Segments of people who have left are written before, so that every file that a checkpoint names is there.
        """
        size = 0
        if logic.departed is not None:
            size = write_segments(self._ports.state_folder, self._partition, fingerprint, logic.departed)
        state = {
            "key": context.key_fingerprint,
            "topic": topic_id,
            "position": position,
            "rejects": rejects.position,
            "arrays": logic.arrays(),
        }
        content = seal(fingerprint, pack_arrays(state))
        self._ports.state_folder.write(self._file, content)
        return size + len(content)


def _add_cuts(logic: PartitionLogic, cuts: Sequence[Cut]) -> None:
    for cut in cuts:
        logic.add_cut(cut)


def _close_periods(
    logic: PartitionLogic, cuts: Sequence[Cut], position: Offset
) -> tuple[list[Tally], list[Reject], Mapping[Reason, int]]:
    """Add cuts, and close the periods whose records are all below `position`, up to which everything is ingested.

    Returns the tallies and the rejects to send, and the number of reports rejected since the last call, for each reason.
    """
    _add_cuts(logic, cuts)
    return logic.close_periods(position), logic.drain_rejects(), logic.drain_reject_counts()
