"""Deliberate faults of the stream, each of which the simulation must notice."""

from __future__ import annotations

from tests.mutation.syntax_patch import Mutation

SYNTHESIZER = "streamproc.synthesizer.worker"
RECOVERY = "streamproc.synthesizer.recovery"
FILESYSTEM = "streamproc.storage.filesystem"
GATHERER = "streamproc.gatherer.worker"
GATHERER_LOGIC = "streamproc.gatherer.logic"
PARTITION_LOGIC = "streamproc.gatherer.partition_logic"

MUTANTS = (
    Mutation(
        "a state file is not synced",
        FILESYSTEM,
        "atomic_write",
        "files.sync_file(file)",
        "",
    ),
    Mutation(
        "the folder of a state file is not synced",
        FILESYSTEM,
        "atomic_write",
        "files.sync_folder(path.parent)",
        "",
    ),
    Mutation(
        "a state file has its name before its content",
        FILESYSTEM,
        "atomic_write",
        """
        yield file
        files.sync_file(file)
        files.rename(temporary, path)
        """,
        """
        files.rename(temporary, path)
        yield file
        files.sync_file(file)
        """,
    ),
    Mutation(
        "the checksum of a state file is not compared",
        "streamproc.protocol.state_file",
        "unseal",
        "len(rest) < DIGEST_BYTES or rest[:DIGEST_BYTES] != _checksum(head, rest[DIGEST_BYTES:])",
        "len(rest) < DIGEST_BYTES",
    ),
    Mutation(
        "a period is published before it is persisted",
        SYNTHESIZER,
        "Synthesizer._release",
        """
        size = await self._ports.offload(write_checkpoint, self._ports.state_folder, self._fingerprint, checkpoint)
        await self._publish(producer, pending, announced=False)
        """,
        """
        await self._publish(producer, pending, announced=False)
        size = await self._ports.offload(write_checkpoint, self._ports.state_folder, self._fingerprint, checkpoint)
        """,
    ),
    Mutation(
        "a period is not announced",
        SYNTHESIZER,
        "Synthesizer._publish",
        "not announced",
        "False",
    ),
    Mutation(
        "an announced draw is drawn again after a restart",
        RECOVERY,
        "decide",
        "next((intent for intent in ledger.intents if intent not in local.abandoned), None)",
        "None",
    ),
    Mutation(
        "a study whose first draw is lost begins again",
        RECOVERY,
        "decide",
        "ledger.period == 0 and not ledger.intents",
        "ledger.period == 0",
    ),
    Mutation(
        "an old state folder is accepted",
        RECOVERY,
        "decide",
        "local.period == ledger.period and local.digest == ledger.digest and binding is None",
        "local.period <= ledger.period and binding is None",
    ),
    Mutation(
        "a period on disk counts as published after a restart",
        RECOVERY,
        "decide",
        "RecoveryAction.PUBLISH",
        "RecoveryAction.GO_ON",
    ),
    Mutation(
        "a period is published before its release time",
        SYNTHESIZER,
        "Synthesizer._wait_for_release_time",
        "(left := (planned - clock.now()).total_seconds()) > 0",
        "(left := 0.0) > 0",
    ),
    Mutation(
        "a period that was drawn before a restart does not wait for its release time",
        SYNTHESIZER,
        "Synthesizer._wait_for_release_time",
        "late = clock.now() >= planned",
        """
        late = clock.now() >= planned
        if not self.started.is_set():
            return (planned - EPOCH) // timedelta(milliseconds=1)
        """,
    ),
    Mutation(
        "public records are stamped with the time of their publication",
        SYNTHESIZER,
        "Synthesizer._wait_for_release_time",
        "max((planned - EPOCH) // timedelta(milliseconds=1), NO_TIME)",
        "(clock.now() - EPOCH) // timedelta(milliseconds=1)",
    ),
    Mutation(
        "a period is marked as published before it is committed",
        SYNTHESIZER,
        "Synthesizer._publish",
        """
        await producer.commit()
        await self._ports.offload(mark_published, self._ports.state_folder, self._fingerprint, pending)
        """,
        """
        await self._ports.offload(mark_published, self._ports.state_folder, self._fingerprint, pending)
        await producer.commit()
        """,
    ),
    Mutation(
        "the ledger is not read again after fencing",
        SYNTHESIZER,
        "Synthesizer._session",
        """
        await producer.fence()
        await self._wait_for_open_transactions()
        checkpoint, snapshot, action = await self._decide()
        """,
        """
        checkpoint, snapshot, action = await self._decide()
        await producer.fence()
        await self._wait_for_open_transactions()
        """,
    ),
    Mutation(
        "periods are closed before the synthesizer has started",
        "streamproc.service.workers",
        "_run_schedule",
        "await synthesizer.started.wait()",
        "",
    ),
    Mutation(
        "a synthesizer counts as started before it has read the ledger",
        SYNTHESIZER,
        "Synthesizer._session",
        "await self._check_before_fencing()",
        """
        self.started.set()
        await self._check_before_fencing()
        """,
    ),
    Mutation(
        "a send that failed is not noticed",
        SYNTHESIZER,
        "Synthesizer._publish",
        "await producer.send(record.topic, 0, record.value, timestamp=timestamp)",
        """
        try:
            await producer.send(record.topic, 0, record.value, timestamp=timestamp)
        except (LogUnavailable, OutcomeUnknown):
            producer._moves._failure = None
        """,
    ),
    Mutation(
        "a commit whose outcome is unknown counts as successful",
        SYNTHESIZER,
        "Synthesizer._publish",
        """
        await producer.commit()
        await self._ports.offload(mark_published, self._ports.state_folder, self._fingerprint, pending)
        """,
        """
        try:
            await producer.commit()
        except (LogUnavailable, OutcomeUnknown):
            pass
        await self._ports.offload(mark_published, self._ports.state_folder, self._fingerprint, pending)
        """,
    ),
    Mutation(
        "the watermark is that of the tallies read last",
        SYNTHESIZER,
        "Synthesizer._next_tally",
        "max(self._watermark, tallies.watermark)",
        "tallies.watermark",
    ),
    Mutation(
        "restore does not ask about an announced draw",
        "streamproc.service.restore",
        "_read_ledger",
        "ledger.intents and not accept_cost",
        "False",
    ),
    Mutation(
        "restore does not pay for a lost draw",
        "streamproc.synthesizer.checkpoint",
        "restore_checkpoint",
        "paid_again += [Period(ledger.period + 1)] * len(ledger.intents)",
        "",
    ),
    Mutation(
        "a repeated tally is added to itself",
        "streamproc.protocol.tallies",
        "TallyAssembler.add",
        """
        if (chunk.release, chunk.first) in gathered.digests:
            return None
        """,
        """
        if (chunk.release, chunk.first) in gathered.digests:
            counted = gathered.counts.get((chunk.release, chunk.first), 0)
            gathered.counts[chunk.release, chunk.first] = chunk.counts + counted
            return None
        """,
    ),
    Mutation(
        "a period is released before every partition has tallied it",
        "streamproc.synthesizer.tally_reader",
        "TallyReader.complete",
        "len(tallies) < self._study.broker.partitions",
        "not tallies",
    ),
    Mutation(
        "the position is saved ahead of the state",
        GATHERER,
        "Gatherer._gather",
        "self._ports.offload(save, logic, reader.position)",
        "self._ports.offload(save, logic, await self._ports.log.high_watermark(self._topics.reports, self._partition))",
    ),
    Mutation(
        "a checkpoint is saved before its tallies are sent",
        GATHERER,
        "Gatherer._gather",
        """
        await self._send_tallies(tallies)
        await writer.catch_up()
        size = await self._ports.offload(save, logic, reader.position)
        """,
        """
        size = await self._ports.offload(save, logic, reader.position)
        await self._send_tallies(tallies)
        """,
    ),
    Mutation(
        "a checkpoint leaves open reports out",
        GATHERER_LOGIC,
        "GathererLogic.arrays",
        "state | self._open.arrays()",
        "state",
    ),
    Mutation(
        "a period is tallied before its cut is reached",
        PARTITION_LOGIC,
        "PartitionLogic.close_periods",
        "cut <= position",
        "True",
    ),
    Mutation(
        "a cut is compared with the last record, not with the position",
        GATHERER,
        "Gatherer._read",
        "records = await reader.read(max_records=READ_BATCH, timeout=0.2)",
        """
        records = await reader.read(max_records=READ_BATCH, timeout=0.2)
        reader._position = records[-1].offset + 1 if records else getattr(self, '_at', reader.position)
        self._at = reader.position
        """,
    ),
    Mutation(
        "reports beyond the cut count",
        GATHERER_LOGIC,
        "GathererLogic._close_next",
        "self._open.close(period, cut, len(self._people))",
        "self._open.close(period, 2**60, len(self._people))",
    ),
    Mutation(
        "the last report counts instead of the first",
        "streamproc.gatherer.open_periods",
        "OpenPeriods._new",
        'self._rule == "first"',
        'self._rule == "last"',
    ),
    Mutation(
        "home partitions are not checked",
        GATHERER_LOGIC,
        "GathererLogic._row_of",
        "not self._context.is_home(individual)",
        "False",
    ),
    Mutation(
        "a missing report is filled with the initial symbol",
        GATHERER_LOGIC,
        "GathererLogic._close_next",
        "self._last if fill is None else np.uint8(self._symbol[fill])",
        "np.uint8(self._symbol[fill or self._study.population.initial])",
    ),
    Mutation(
        "reports are read before they are committed",
        GATHERER,
        "Gatherer.run",
        "self._ports.log.reader(self._topics.reports, self._partition, position)",
        "self._ports.log.reader(self._topics.reports, self._partition, position, committed=False)",
    ),
    Mutation(
        "a period ends where the last open transaction began",
        "streamproc.log.control_topic",
        "append_cut",
        "log.high_watermark(topics.reports, partition)",
        "log.last_stable_offset(topics.reports, partition)",
    ),
    Mutation(
        "the last cut of a period counts",
        "streamproc.protocol.control",
        "CutSequence.offer",
        """
        if accepted:
            self._cuts.append(cut)
        """,
        """
        if accepted:
            self._cuts.append(cut)
        elif cut.period == self.period:
            self._cuts[-1] = cut
        """,
    ),
    Mutation(
        "an unknown symbol is not rejected",
        PARTITION_LOGIC,
        "PartitionLogic._buffer_period",
        "self._rejects.reject(offsets[wrong], Reason.UNKNOWN_SYMBOL)",
        "",
    ),
    Mutation(
        "without a roster a report for any period admits an id",
        GATHERER_LOGIC,
        "GathererLogic._row_of",
        "period != 1",
        "False",
    ),
    Mutation(
        "how far ahead a report is depends on the cuts known so far",
        PARTITION_LOGIC,
        "PartitionLogic._in_time",
        "reports.offsets < self._last_cut",
        "early",
    ),
    Mutation(
        "rejects that are on the topic already are written again",
        "streamproc.gatherer.reject_writer",
        "RejectWriter._new",
        "np.append(self._known, -1)[at] == offsets",
        "np.zeros(len(offsets), dtype=np.bool_)",
    ),
    Mutation(
        "a log line contains how many people were counted",
        "streamproc.service.monitor",
        "ProcessMonitor.tallied",
        'event("tallied", partition=partition, period=period)',
        'event("tallied", partition=partition, period=period, people=people)',
    ),
    Mutation(
        "a lost state folder is treated as one that never existed",
        RECOVERY,
        "decide",
        "ledger.period == 0 and not ledger.intents",
        "True",
    ),
)
