"""Deliberate faults of the stream, each of which the simulation must notice: one piece of text stands for another."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """One way to break the stream."""

    name: str
    file: str
    """Below `streamproc/`."""
    right: str
    """Stands exactly once in the file."""
    wrong: str


SYNTHESIZER = "actor/synthesizer.py"
STARTUP = "actor/startup.py"
GATHERER = "gather/gatherer.py"
GATHERING = "gather/gathering.py"

MUTANTS = (
    Mutant(
        "a state file is not synced",
        "ports/atomic.py",
        "            files.sync_file(file)\n",
        "",
    ),
    Mutant(
        "the folder of a state file is not synced",
        "ports/atomic.py",
        "        raise\n    files.sync_folder(path.parent)",
        "        raise",
    ),
    Mutant(
        "a state file has its name before its content",
        "ports/atomic.py",
        "            yield file\n"
        "            files.sync_file(file)\n"
        "            # Before it is closed: a closed one may be swept.\n"
        "            files.rename(temporary, path)\n",
        "            files.rename(temporary, path)\n            yield file\n            files.sync_file(file)\n",
    ),
    Mutant(
        "a damaged state file is believed",
        "wire/state.py",
        "if len(rest) < DIGEST_BYTES or rest[:DIGEST_BYTES] != _checksum(head, rest[DIGEST_BYTES:]):",
        "if len(rest) < DIGEST_BYTES:",
    ),
    Mutant(
        "a period is published before it is persisted",
        SYNTHESIZER,
        "        size = await self._ports.offload(write_stored, self._ports.disk, self._fingerprint, stored)\n"
        "        await self._publish(transactor, drafted, announced=False)\n",
        "        await self._publish(transactor, drafted, announced=False)\n"
        "        size = await self._ports.offload(write_stored, self._ports.disk, self._fingerprint, stored)\n",
    ),
    Mutant(
        "a period is not announced",
        SYNTHESIZER,
        "        if not announced:\n",
        "        if False:\n",
    ),
    Mutant(
        "an announced draw is drawn again after a restart",
        STARTUP,
        "    binding = next((intent for intent in ledger.intents if intent not in disk.abandoned), None)",
        "    binding = None",
    ),
    Mutant(
        "a study whose first draw is lost begins again",
        STARTUP,
        "        if ledger.period == 0 and not ledger.intents:",
        "        if ledger.period == 0:",
    ),
    Mutant(
        "an old state folder is believed",
        STARTUP,
        "    if disk.period == ledger.period and disk.digest == ledger.digest and binding is None:",
        "    if disk.period <= ledger.period and binding is None:",
    ),
    Mutant(
        "a period on disk counts as published after a restart",
        STARTUP,
        "        return Move.PUBLISH\n",
        "        return Move.GO_ON\n",
    ),
    Mutant(
        "a period leaves before its release time",
        SYNTHESIZER,
        "        while (left := (planned - clock.now()).total_seconds()) > 0:\n",
        "        while (left := 0.0) > 0:\n",
    ),
    Mutant(
        "a period that was drawn before a restart does not wait for its release time",
        SYNTHESIZER,
        "        late = clock.now() >= planned\n",
        "        late = clock.now() >= planned\n"
        "        if not self.started.is_set():\n"
        "            return (planned - EPOCH) // timedelta(milliseconds=1)\n",
    ),
    Mutant(
        "public records are stamped with the time of their publication",
        SYNTHESIZER,
        "        return max((planned - EPOCH) // timedelta(milliseconds=1), NO_TIME)\n",
        "        return (clock.now() - EPOCH) // timedelta(milliseconds=1)\n",
    ),
    Mutant(
        "a period is settled before it is committed",
        SYNTHESIZER,
        "            await transactor.send(record.topic, 0, record.value, timestamp=timestamp)\n"
        "        await transactor.commit()\n"
        "        await self._ports.offload(settle, self._ports.disk, self._fingerprint, drafted)",
        "            await transactor.send(record.topic, 0, record.value, timestamp=timestamp)\n"
        "        await self._ports.offload(settle, self._ports.disk, self._fingerprint, drafted)\n"
        "        await transactor.commit()",
    ),
    Mutant(
        "nobody looks again after fencing",
        SYNTHESIZER,
        "        transactor = await self._ports.log.transactional_producer(self._topics.transactional_id)\n"
        "        try:\n"
        "            await transactor.fence()\n"
        "            await self._wait_until_quiet()\n"
        "            stored, seen, move = await self._look_and_decide()\n",
        "        stored, seen, move = await self._look_and_decide()\n"
        "        transactor = await self._ports.log.transactional_producer(self._topics.transactional_id)\n"
        "        try:\n"
        "            await transactor.fence()\n"
        "            await self._wait_until_quiet()\n",
    ),
    Mutant(
        "periods are closed before the synthesizer has started",
        "service/roles.py",
        "    await synthesizer.started.wait()\n",
        "",
    ),
    Mutant(
        "a synthesizer counts as started before it has looked",
        SYNTHESIZER,
        "        await self._look_before_fencing()\n        transactor",
        "        self.started.set()\n        await self._look_before_fencing()\n        transactor",
    ),
    Mutant(
        "a send that failed is not noticed",
        SYNTHESIZER,
        "            await transactor.send(record.topic, 0, record.value, timestamp=timestamp)\n"
        "        await transactor.commit()\n",
        "            try:\n"
        "                await transactor.send(record.topic, 0, record.value, timestamp=timestamp)\n"
        "            except (LogUnavailable, OutcomeUnknown):\n"
        "                transactor._moves._failure = None\n"
        "        await transactor.commit()\n",
    ),
    Mutant(
        "a commit whose outcome is unknown counts as one",
        SYNTHESIZER,
        "            await transactor.send(record.topic, 0, record.value, timestamp=timestamp)\n"
        "        await transactor.commit()\n",
        "            await transactor.send(record.topic, 0, record.value, timestamp=timestamp)\n"
        "        try:\n            await transactor.commit()\n"
        "        except (LogUnavailable, OutcomeUnknown):\n            pass\n",
    ),
    Mutant(
        "the watermark is that of the tallies read last",
        SYNTHESIZER,
        "self._watermark = max(self._watermark, inbox.watermark)",
        "self._watermark = inbox.watermark",
    ),
    Mutant(
        "restore does not ask about an announced draw",
        "service/restoring.py",
        "    if ledger.intents and not accept_cost:",
        "    if False:",
    ),
    Mutant(
        "restore does not pay for a lost draw",
        "actor/restore.py",
        "    paid_again += [Period(ledger.period + 1)] * len(ledger.intents)\n",
        "",
    ),
    Mutant(
        "a repeated tally is added to itself",
        "wire/tally_assembler.py",
        "        if (chunk.release, chunk.first) in gathered.digests:\n            return None\n",
        "        if (chunk.release, chunk.first) in gathered.digests:\n"
        "            gathered.counts[chunk.release, chunk.first] = "
        "chunk.counts + gathered.counts.get((chunk.release, chunk.first), 0)\n            return None\n",
    ),
    Mutant(
        "a period is released before every partition has tallied it",
        "actor/tallies.py",
        "        if len(tallies) < self._study.broker.partitions:",
        "        if not tallies:",
    ),
    Mutant(
        "the position is saved ahead of the state",
        GATHERER,
        "size = await self._ports.offload(save, gathering, reader.position)",
        "size = await self._ports.offload(save, gathering, "
        "await self._ports.log.high_watermark(self._topics.reports, self._partition))",
    ),
    Mutant(
        "a checkpoint is saved before its tallies are sent",
        GATHERER,
        "                await self._send(tallies)\n"
        "                await writer.catch_up()\n"
        "                size = await self._ports.offload(save, gathering, reader.position)\n",
        "                size = await self._ports.offload(save, gathering, reader.position)\n"
        "                await self._send(tallies)\n",
    ),
    Mutant(
        "a checkpoint leaves open reports out",
        GATHERING,
        "        return state | self._open.arrays() |",
        "        return state |",
    ),
    Mutant(
        "a period is settled before its cut is reached",
        GATHERING,
        "while (cut := self.next_cut()) is not None and cut <= position:",
        "while (cut := self.next_cut()) is not None:",
    ),
    Mutant(
        "a cut is compared with the last record, not with the position",
        GATHERER,
        "        records = await reader.read(max_records=AT_ONCE, timeout=0.2)\n",
        "        records = await reader.read(max_records=AT_ONCE, timeout=0.2)\n"
        "        reader._position = records[-1].offset + 1 if records else getattr(self, '_at', reader.position)\n"
        "        self._at = reader.position\n",
    ),
    Mutant(
        "reports beyond the cut count",
        GATHERING,
        "        settled = self._open.settle(period, cut, len(self._people))",
        "        settled = self._open.settle(period, 2**60, len(self._people))",
    ),
    Mutant(
        "the last report counts instead of the first",
        "gather/open_periods.py",
        'FirstReports(**arrays) if self._rule == "first"',
        'FirstReports(**arrays) if self._rule == "last"',
    ),
    Mutant(
        "home partitions are not checked",
        GATHERING,
        "        elif not self._place.is_home(individual):",
        "        elif False:",
    ),
    Mutant(
        "a missing report is filled with the initial symbol",
        GATHERING,
        "        instead = self._last if fill is None else np.uint8(self._symbol[fill])",
        "        instead = np.uint8(self._symbol[fill or self._study.population.initial])",
    ),
    Mutant(
        "reports are read before they are committed",
        GATHERER,
        "self._ports.log.reader(self._topics.reports, self._partition, position)",
        "self._ports.log.reader(self._topics.reports, self._partition, position, committed=False)",
    ),
    Mutant(
        "a period ends where the last open transaction began",
        "ports/control.py",
        "await log.high_watermark(topics.reports, partition) for partition",
        "await log.last_stable_offset(topics.reports, partition) for partition",
    ),
    Mutant(
        "the last cut of a period counts",
        "wire/cuts.py",
        "        if counts:\n            self._cuts.append(cut)\n",
        "        if counts:\n            self._cuts.append(cut)\n"
        "        elif cut.period == self.period:\n            self._cuts[-1] = cut\n",
    ),
    Mutant(
        "an unknown symbol is not rejected",
        GATHERING,
        "            self._rejects.reject(offsets[wrong], Reason.UNKNOWN_SYMBOL)\n",
        "",
    ),
    Mutant(
        "without a roster any report admits an id",
        GATHERING,
        "        elif period != 1 or self._cohort is not None",
        "        elif self._cohort is not None",
    ),
    Mutant(
        "how far ahead a report is depends on the cuts known so far",
        GATHERING,
        "        final = reports.offsets < self._last_cut\n",
        "        final = early\n",
    ),
    Mutant(
        "rejects that are there already are written again",
        "gather/reject_writer.py",
        "        known = np.append(self._there, -1)[at] == offsets\n",
        "        known = np.zeros(len(offsets), dtype=np.bool_)\n",
    ),
    Mutant(
        "a log line tells how many were counted",
        "service/health.py",
        'event("tallied", partition=partition, period=period)',
        'event("tallied", partition=partition, period=period, people=people)',
    ),
    Mutant(
        "a lost state folder is taken for one that never was",
        STARTUP,
        '        raise Refused(f"{released}, but the state folder holds nothing; {HOW_TO_RESTORE}")',
        "        return Move.GO_ON",
    ),
)
