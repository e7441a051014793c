"""Restore: rebuild a lost state folder of the synthesizer from the topics."""

from __future__ import annotations

import asyncio

from streamproc.client.public_reader import PublicReader
from streamproc.errors import NoSuchTopic, NothingToRestore, StateFolderUnusable, StateLost, TopicLost, WriterConflict
from streamproc.log.port import Log
from streamproc.privacy.types import Period
from streamproc.protocol.ledger import require_same_study
from streamproc.protocol.ledger_verifier import VerifiedLedger
from streamproc.releases.contracts import stated_contracts
from streamproc.service.deployment import Deployment
from streamproc.storage.state_folder import LocalStateFolder
from streamproc.study import Study
from streamproc.synthesizer.checkpoint import STATE_FILE, Checkpoint, mark_published, restore_checkpoint, write_checkpoint
from streamproc.synthesizer.published_state import read_published_state, wait_for_open_transactions
from streamproc.synthesizer.tally_reader import StudyTally, TallyReader, population_size


async def restore_state(deployment: Deployment, *, accept_cost: bool) -> Period:
    """Rebuild the synthesizer's state folder, and return the last period in it.

    A restore that fails or is interrupted has restored either nothing, and can be run again, or everything. If there is
    nothing to restore, no folder is created. Raises StateFolderUnusable if the folder holds a state, NothingToRestore,
    StateLost if an announced draw is lost and `accept_cost` is False, and TopicLost if tallies of a closed study are gone.
    """
    _require_no_state(deployment, deployment.state_folder())
    async with deployment.connect() as log:
        await _read_ledger(deployment, log, accept_cost=accept_cost)
        with deployment.locked_state_folder() as state_folder:
            # Everything is checked again: before the lock was taken another process may have restored or purged the study.
            _require_no_state(deployment, state_folder)
            fingerprint, ledger = await _read_ledger(deployment, log, accept_cost=accept_cost)
            checkpoint = await _rebuild(deployment.study, log, ledger)
            # The published mark has no meaning without a checkpoint, so the single write of the checkpoint is the commit.
            await asyncio.to_thread(mark_published, state_folder, fingerprint, checkpoint.pending)
            await asyncio.to_thread(write_checkpoint, state_folder, fingerprint, checkpoint)
    return ledger.period


def _require_no_state(deployment: Deployment, state_folder: LocalStateFolder) -> None:
    if state_folder.read(STATE_FILE) is not None:
        raise StateFolderUnusable(
            deployment.state,
            "holds a state already; if a synthesizer refuses it and there is no newer copy to put back, move the folder "
            "away, keep it, and restore again",
        )


async def _read_ledger(deployment: Deployment, log: Log, *, accept_cost: bool) -> tuple[bytes, VerifiedLedger]:
    """The study's fingerprint and its ledger, if a state can be restored from it; see `restore_state` for the errors."""
    study = deployment.study
    fingerprint = await deployment.fingerprint(log)
    # An open transaction may be about to publish a record, so what is lost is known only when there is none.
    if not await wait_for_open_transactions(log, deployment.topics.ledger, deployment.clock):
        raise WriterConflict(f"topic {deployment.topics.ledger}: a transaction stays open on it; is a synthesizer running?")
    ledger = (await read_published_state(log, study, keep=None)).ledger
    if ledger is None:
        raise NothingToRestore(study.name, "has no ledger, so there is nothing to restore")
    require_same_study(ledger.study, study, fingerprint)
    if not ledger.period and not ledger.intents:
        raise NothingToRestore(study.name, "has released nothing yet, so there is nothing to restore; start it")
    if ledger.intents and not accept_cost:
        raise StateLost(
            ledger.period,
            f"period {ledger.period + 1} was announced, so its lost draw may have been seen; another exceeds the budget: "
            "accept that with --accept-cost, or find the state folder",
        )
    if not study.is_open and deployment.topics.tallies not in await log.topics():
        raise _tallies_lost(deployment.topics.tallies)
    return fingerprint, ledger


def _tallies_lost(topic: str) -> TopicLost:
    return TopicLost(topic, "is gone, so the state cannot be rebuilt; was the study purged?")


async def _rebuild(study: Study, log: Log, ledger: VerifiedLedger) -> Checkpoint:
    # The state of an open study follows from what is published. Of a closed one it also depends on the exact tallies.
    tallies = [] if study.is_open else await _read_tallies(study, log, ledger.period)
    public = PublicReader(log, study)
    try:
        await public.catch_up()
        await asyncio.to_thread(public.check_complete)
        people = 0 if study.is_open else population_size(tallies[0])
        implied = stated_contracts(study, people, insecure=ledger.study.insecure)
        # A published contract states the noise that was drawn, so the cost is computed from it and not from the study.
        known = {name: public.contracts().get(name, contract) for name, contract in implied.items()}
        # Only the columns of this ledger: a synthesizer elsewhere may have released another period since it was read.
        columns = {
            name: [column.symbols for column in public.columns(name)[: len(ledger.column_digests(name))]] for name in known
        }
    finally:
        await public.close()
    measurements = {
        name: [
            contract.split_measurements(ledger.measurements[name, Period(t)], Period(t)) for t in range(1, ledger.period + 1)
        ]
        for name, contract in known.items()
    }
    return restore_checkpoint(ledger, known, columns, measurements, tallies[: ledger.period])


async def _read_tallies(study: Study, log: Log, through: Period) -> list[StudyTally]:
    """The exact tallies of periods `1..through`, and at least that of period 1. Raises TopicLost if one is missing."""
    try:
        reader = await TallyReader.open(log, study)
    except NoSuchTopic as missing:
        raise _tallies_lost(missing.topic) from None
    try:
        await reader.catch_up()
        found = [reader.complete(Period(t)) for t in range(1, max(through, 1) + 1)]
    finally:
        await reader.close()
    complete = [tally for tally in found if tally is not None]
    if len(complete) < len(found):
        raise TopicLost(reader.topic, "the tallies of some period are gone, so the state cannot be rebuilt")
    return complete
